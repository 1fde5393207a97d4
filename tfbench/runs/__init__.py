"""One run: what is asked for, how it is made, its figures, warnings and words."""
