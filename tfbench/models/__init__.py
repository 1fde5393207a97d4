"""One file a model: a frozen `Config`, and `build_model(config, spec)`, which imports Keras inside."""
