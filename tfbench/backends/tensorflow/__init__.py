"""TensorFlow: placement, feeding, snapshots, traces, and what it says of itself."""
