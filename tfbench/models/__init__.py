"""One file a model.

A frozen `Config`, and `build_model(config, spec)`, which imports Keras inside.
"""
