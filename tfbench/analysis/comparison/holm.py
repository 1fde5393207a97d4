"""Many comparisons at once: p-values of which all together are wrong in no more cases than one alone may be.

Of sixteen equal arms, one test each at 5 % calls one different in more than half of the cases. Holm's adjustment keeps
the chance that any true null hypothesis of a family is rejected at the level, however the tests depend on each other.

Source: Holm, "A simple sequentially rejective multiple test procedure" (Scandinavian Journal of Statistics 1979).
"""

from collections.abc import Sequence

from tfbench.errors import MeasurementError


def holm(p_values: Sequence[float]) -> list[float]:
    """Returns adjusted p-values, in the order given: what is at most 0.05 is told apart in a family that errs in 5 %.

    Args:
        p_values: One for each comparison of the family, from 0 to 1.

    Raises:
        MeasurementError: A value is no probability.
    """
    for value in p_values:
        if not 0.0 <= value <= 1.0:
            raise MeasurementError(f"Holm's adjustment needs probabilities from 0 to 1. Received: {value}.")
    adjusted = [0.0] * len(p_values)
    largest = 0.0
    for rank, place in enumerate(sorted(range(len(p_values)), key=lambda index: p_values[index])):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[place]))
        adjusted[place] = largest
    return adjusted
