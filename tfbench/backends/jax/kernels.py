"""Products and additions that show how fast JAX's devices are."""

import collections
from collections.abc import Sequence
from typing import Any

from tfbench.backends.peak import Run, Sizes

_MOST_GIVEN = 4  # calls that were not waited for, each of which holds its result


def build_products(devices: Sequence[str], sizes: Sizes, dtype: str, chain: int) -> Run:
    """Returns what multiplies matrices on the device; see `Kernels`."""
    import jax

    num_rows, common, num_columns = sizes

    def draw(rows: int, columns: int) -> Any:
        # With this variance a product's values are as large as its factors'.
        return (jax.random.normal(jax.random.key(rows), (rows, columns)) * rows**-0.5).astype(dtype)

    product, there, back = draw(num_rows, common), draw(common, num_columns), draw(num_columns, common)

    @jax.jit  # type: ignore[untyped-decorator]  # JAX is not always there for its types
    def multiply(product: Any, there: Any, back: Any) -> Any:
        for index in range(chain):
            product = product @ (back if index % 2 else there)
        return product

    def run(num_calls: int) -> None:
        given = collections.deque[Any]()
        for _ in range(num_calls):  # the device is given the next ones while it computes
            given.append(multiply(product, there, back))
            if len(given) > _MOST_GIVEN:
                given.popleft().block_until_ready()
        jax.block_until_ready(list(given))

    return run


def build_additions(devices: Sequence[str], size: int, chain: int) -> Run:
    """Returns what adds one large array to another, in place; see `Kernels`."""
    import jax
    import jax.numpy as jnp

    summand = jnp.ones([size])
    # A call an addition: of several, XLA would make one pass over the memory.
    add = jax.jit(lambda total: total + summand, donate_argnums=0)
    totals = [jnp.ones([size])]

    def run(num_calls: int) -> None:
        for _ in range(num_calls * chain):
            totals[0] = add(totals[0])
        totals[0].block_until_ready()

    return run
