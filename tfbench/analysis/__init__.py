"""Statistics of records, and nothing else: no file, no process, no framework."""
