"""The profile of a step: phases, layers, and the bottleneck."""
