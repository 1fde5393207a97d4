"""PyTorch: the step operation by operation, or compiled by `torch.compile`."""
