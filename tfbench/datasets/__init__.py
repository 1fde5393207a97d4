"""One file a data set.

A frozen `Config`, `describe(config)`, and `load_splits(config, data_dir)`, which loads.
"""
