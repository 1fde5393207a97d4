"""Layers and initialisers that models share and Keras lacks."""
