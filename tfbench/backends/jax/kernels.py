"""Products and additions that show how fast JAX's devices are."""

import collections
from collections.abc import Sequence
from typing import Any

from tfbench.backends.peak import Run, Sizes

_MOST_GIVEN = 4  # calls that were not waited for, each of which holds its result


def build_products(devices: Sequence[str], sizes: Sizes, dtype: str, chain: int) -> Run:
    """Returns what multiplies matrices on all devices; see `Kernels`."""
    import jax

    num_rows, common, num_columns = sizes

    def draw(rows: int, columns: int) -> Any:
        # With this variance a product's values are as large as its factors'.
        return (jax.random.normal(jax.random.key(rows), (rows, columns)) * rows**-0.5).astype(dtype)

    matrices = draw(num_rows, common), draw(common, num_columns), draw(num_columns, common)
    factors = [jax.device_put(matrices, device) for device in _find(devices)]

    @jax.jit  # type: ignore[untyped-decorator]  # JAX is not always there for its types
    def multiply(product: Any, there: Any, back: Any) -> Any:
        for index in range(chain):
            product = product @ (back if index % 2 else there)
        return product

    def run(num_calls: int) -> None:
        given = collections.deque[Any]()
        for _ in range(num_calls):  # the devices are given the next ones while they compute
            given.append([multiply(*own) for own in factors])
            if len(given) > _MOST_GIVEN:
                jax.block_until_ready(given.popleft())
        jax.block_until_ready(list(given))

    return run


def build_additions(devices: Sequence[str], size: int, chain: int) -> Run:
    """Returns what adds one large array to another, in place, on all devices; see `Kernels`."""
    import jax
    import jax.numpy as jnp

    chosen = _find(devices)
    # A call an addition: of several, XLA would make one pass over the memory.
    add = jax.jit(lambda total, summand: total + summand, donate_argnums=0)
    summands = [jax.device_put(jnp.ones([size]), device) for device in chosen]
    totals = [jax.device_put(jnp.ones([size]), device) for device in chosen]

    def run(num_calls: int) -> None:
        for _ in range(num_calls * chain):
            totals[:] = map(add, totals, summands)
        jax.block_until_ready(totals)

    return run


def _find(names: Sequence[str]) -> list[Any]:
    """Returns JAX's devices, of this process, that are called "cpu:0", "gpu:1"."""
    import jax

    pairs = (name.partition(":") for name in names)
    return [jax.local_devices(backend=kind)[int(index)] for kind, _, index in pairs]
