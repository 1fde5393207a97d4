"""Keras's counters of names, so that a network that is built again gets the names that it had the first time.

A layer without a name is called after its class and a counter of the whole process: dense, dense_1, dense_2. Optimizer
groups name weights by that, as do messages to the user.
"""

import collections
import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

_ATTRIBUTE = "object_name_uids"


def read_name_counts() -> dict[str, int]:
    """Returns how many objects of each name there have been."""
    return dict(_global_state().get_global_attribute(_ATTRIBUTE) or {})


@contextlib.contextmanager
def names_from(counts: Mapping[str, int]) -> Iterator[None]:
    """Names what is built meanwhile as if there had been this many objects of each name; afterwards goes on as before.

    Args:
        counts: As `read_name_counts` returned them before the first build.
    """
    state, before = _global_state(), read_name_counts()
    state.set_global_attribute(_ATTRIBUTE, collections.defaultdict(int, counts))
    try:
        yield
    finally:
        state.set_global_attribute(_ATTRIBUTE, collections.defaultdict(int, before))


def _global_state() -> Any:
    from keras.src.backend.common import global_state  # nothing public sets the counters but to zero

    return global_state
