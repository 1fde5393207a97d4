"""TensorFlow: placement, feeding, checkpoints, traces, and what it says of itself."""
