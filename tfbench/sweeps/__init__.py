"""Many runs: planned, made, searched and compared."""
