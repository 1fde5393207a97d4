"""The measuring process: it builds, trains, reads the clock, and writes a journal."""
