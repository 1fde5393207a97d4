"""Products and additions that show how fast PyTorch's devices are, with the threads of the run."""

from collections.abc import Sequence
from typing import Any

from tfbench.backends.peak import Run, Sizes
from tfbench.backends.torch.placement import synchronize


def build_products(devices: Sequence[str], sizes: Sizes, dtype: str, chain: int) -> Run:
    """Returns what multiplies matrices on the device; see `Kernels`."""
    import torch

    num_rows, common, num_columns = sizes
    device = _device_of(devices)

    def draw(rows: int, columns: int) -> Any:
        # With this variance a product's values are as large as its factors'.
        return (torch.randn(rows, columns, device=device) * rows**-0.5).to(getattr(torch, dtype))

    first, there, back = draw(num_rows, common), draw(common, num_columns), draw(num_columns, common)

    def run(num_calls: int) -> None:
        with torch.no_grad():
            for _ in range(num_calls):
                product = first
                for index in range(chain):
                    product = product @ (back if index % 2 else there)
        synchronize()

    return run


def build_additions(devices: Sequence[str], size: int, chain: int) -> Run:
    """Returns what adds one large array to another, in place; see `Kernels`."""
    import torch

    device = _device_of(devices)
    total, summand = torch.ones(size, device=device), torch.ones(size, device=device)

    def run(num_calls: int) -> None:
        for _ in range(num_calls * chain):
            total.add_(summand)
        synchronize()

    return run


def _device_of(devices: Sequence[str]) -> str:
    return devices[0].replace("gpu", "cuda")
