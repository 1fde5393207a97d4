"""JAX: the step compiled by XLA as one program, or operation by operation."""
