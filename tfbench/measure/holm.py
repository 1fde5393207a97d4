"""Holm's correction: many comparisons at once, and how sure each of them still is."""

from collections.abc import Sequence


def holm(p_values: Sequence[float]) -> list[float]:
    """Returns each p-value adjusted for all of them being looked at together.

    Whoever calls only those true that stay below 5 % says something false at most once in twenty such families, however
    the comparisons hang together: they may share runs.

    Source: Holm, "A simple sequentially rejective multiple test procedure" (Scandinavian Journal of Statistics 1979).

    Args:
        p_values: One a comparison, from 0 to 1.

    Returns:
        In the same order; never smaller than what was given, and at most 1.
    """
    adjusted = [0.0] * len(p_values)
    reached = 0.0
    for place, index in enumerate(sorted(range(len(p_values)), key=lambda index: p_values[index])):
        reached = max(reached, min(1.0, (len(p_values) - place) * p_values[index]))
        adjusted[index] = reached
    return adjusted
