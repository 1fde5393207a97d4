"""Several runs: which differ, by how much, how sure that is, and why."""
