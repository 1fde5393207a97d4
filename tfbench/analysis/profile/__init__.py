"""The profile of a step: phases, layers, variants, and the bottleneck."""
