"""Where runs are kept and tracked."""
