"""The part of a batch that one of several workers is fed with."""

import dataclasses
from typing import Any


@dataclasses.dataclass(frozen=True, slots=True)
class Part:
    """One of equal parts, in order."""

    index: int
    count: int

    def bounds(self, size: Any) -> tuple[Any, Any]:
        """Returns the first row of this part, of so many, and the one after its last; integers, or tensors of them.

        Of rows that do not divide, parts differ by one row; of fewer than there are parts, some are empty.
        """
        return size * self.index // self.count, size * (self.index + 1) // self.count

    def size_of(self, size: int) -> int:
        """Returns how many rows this part has, of so many."""
        start, stop = self.bounds(size)
        return int(stop - start)

    def of(self, rows: Any) -> Any:
        """Returns this part of an array's rows."""
        start, stop = self.bounds(len(rows))
        return rows[start:stop]


WHOLE = Part(0, 1)
