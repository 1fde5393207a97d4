"""Frameworks that networks are trained with; a folder each."""
