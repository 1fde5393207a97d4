"""Adapters to schedulers of clusters: a file each."""
