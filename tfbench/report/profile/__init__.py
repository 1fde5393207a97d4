"""Reports of profiles."""
