"""Runs side by side: figures, judgement, words, plots and pages."""
