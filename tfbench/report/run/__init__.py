"""Reports of one run."""
