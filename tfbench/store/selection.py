"""Which runs are meant by what a user names: runs, series of them, a sweep."""

from collections.abc import Iterable

from tfbench.errors import UnknownNameError
from tfbench.store.store import Store
from tfbench.store.sweep_log import find_sweep, list_sweeps


def find_named(
    store: Store, tokens: Iterable[str] | None, sweep: str | None = None
) -> tuple[str | None, list[str] | None]:
    """Returns the id of the sweep that is meant, or else the ids of the runs; neither where nothing is named.

    Args:
        store: What they are in.
        tokens: Each the beginning of the id of a run or of a series, a run's name, or "@last"; of a sweep, if it is the
            only one.
        sweep: The beginning of a sweep's id, or "@last".

    Raises:
        UnknownNameError: There is none, more than one is meant, or a profile.
    """
    if sweep:
        return find_sweep(store, sweep), None
    named = None if tokens is None else list(tokens)
    if named is None or len(named) != 1:
        return None, None if named is None else [run_id for token in named for run_id in _find_runs(store, token)]
    try:
        return None, _find_runs(store, named[0])
    except UnknownNameError:
        meant = [sweep_id for sweep_id in list_sweeps(store) if named[0] and sweep_id.startswith(named[0])]
        if len(meant) != 1:
            raise
        return meant[0], None


def _find_runs(store: Store, token: str) -> list[str]:
    """Returns the id of a run, or of those that trained in a series, the oldest first."""
    try:
        return [store.find_training(token)]
    except UnknownNameError:
        members = [head for head in reversed(store.heads()) if token and head.group.startswith(token)]
        if len({head.group for head in members}) != 1:
            raise
        return [head.run_id for head in members if not head.profile]
