"""How many samples the steps of an epoch have."""

from collections.abc import Sequence
from typing import Protocol

from tfbench.schema import NaturalNumber, schema


class Steps(Protocol):
    """Steps in a row, numbered from 1 over the whole run."""

    @property
    def first_step(self) -> int:
        """The first of them."""

    @property
    def last_step(self) -> int:
        """The last of them."""


@schema
class BatchSizes:
    """Samples of the batches of an epoch, over all replicas.

    Batches of several sizes count as their mean. Otherwise all are full, but for the last of an
    epoch, which may be short.
    """

    size: float
    last_size: float | None = None  # None: full
    num_steps: NaturalNumber | None = None  # of an epoch; None: not needed

    @property
    def short_step(self) -> int | None:
        """The first step whose batch is short; None: all are full."""
        if self.last_size is None:
            return None
        return self.num_steps

    def count(self, spans: Sequence[Steps]) -> float:
        """Returns how many samples the steps of spans had."""
        num_steps = sum(span.last_step - span.first_step + 1 for span in spans)
        if self.last_size is None or not self.num_steps:
            return num_steps * self.size
        num_short = 0
        for span in spans:
            num_short += span.last_step // self.num_steps
            num_short -= (span.first_step - 1) // self.num_steps
        return num_steps * self.size - num_short * (self.size - self.last_size)
