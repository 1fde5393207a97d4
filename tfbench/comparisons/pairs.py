"""Which setups of a comparison are judged beside each other: all pairs, as one family."""

import dataclasses
import itertools
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from tfbench.comparisons.equality import find_unequal_settings
from tfbench.comparisons.judging import judge_rows
from tfbench.comparisons.looks import ONE_LOOK, Looks
from tfbench.comparisons.user_settings import SESSION_SCATTER

if TYPE_CHECKING:
    from tfbench.comparisons.comparison import Row

SetupPair = tuple[str, str]


def list_pairs(
    rows: Sequence["Row"], baseline: str, compared: Collection[str], allows_unequal: bool
) -> list[list[SetupPair]]:
    """Returns for each row the pairs of setups that are alike in what must be equal.

    Args:
        rows: The configurations.
        baseline: The setup that comes first; the others are in one order, whichever it is.
        compared: Of what must be equal: in which setups may differ.
        allows_unequal: Whether setups may differ in all of it.
    """
    listed = []
    for row in rows:
        entries = row.measured_entries()
        if not allows_unequal:
            entries = [entry for entry in entries if not entry.unequal]
        entries.sort(key=lambda entry: (entry.setup != baseline, entry.setup))
        pairs = []
        for first, second in itertools.combinations(entries, 2):
            settings = (first.runs[0].settings, second.runs[0].settings)
            if allows_unequal or not find_unequal_settings(*settings, compared=compared):
                pairs.append((first.setup, second.setup))
        listed.append(pairs)
    return listed


def judge_setups(
    rows: Sequence["Row"],
    baseline: str,
    pairs: Sequence[Sequence[SetupPair]],
    session_scatter: float = SESSION_SCATTER,
    looks: Looks = ONE_LOOK,
) -> list["Row"]:
    """Returns the rows with the speed-ups of pairs of setups, judged as one family.

    Args:
        rows: The configurations.
        baseline: The setup over which entries have their speed-up.
        pairs: Of each row.
        session_scatter: As of `judge_rows`.
        looks: As of `judge_rows`.
    """
    measured = []
    places = []
    for row, of_row in zip(rows, pairs, strict=True):
        setups = list(dict.fromkeys(itertools.chain(*of_row)))
        measured.append([row.entries[setup].measured for setup in setups])
        places.append([(setups.index(first), setups.index(second)) for first, second in of_row])
    judged = judge_rows(measured, places, session_scatter, looks)
    with_speedups = []
    for row, of_row, speedups in zip(rows, pairs, judged, strict=True):
        by_setups = dict(zip(of_row, speedups.values(), strict=True))
        entries = dict(row.entries)
        for (first, second), speedup in by_setups.items():
            if first == baseline:
                entries[second] = dataclasses.replace(entries[second], speedup=speedup)
        with_speedups.append(dataclasses.replace(row, entries=entries, speedups=by_setups))
    return with_speedups
