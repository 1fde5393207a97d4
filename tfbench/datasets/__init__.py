"""One file a data set: a frozen `Config`, `describe(config)`, and `load_splits(config, data_dir)`, which loads."""
