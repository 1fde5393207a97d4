"""One run: from its raw readings to its figures and warnings."""
