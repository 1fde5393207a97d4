"""Reading the clock (recorder), and reducing what was read to numbers (summary, checks)."""
