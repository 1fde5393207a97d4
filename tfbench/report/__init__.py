"""Reports of runs: plain data in, text or files out."""
