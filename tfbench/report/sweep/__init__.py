"""Reports of sweeps and searches."""
