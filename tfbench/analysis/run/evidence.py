"""What warnings of a run are found by, and the tables that they stand in."""

import dataclasses
import functools
from collections.abc import Callable, Iterator
from typing import Any

from tfbench.analysis.run.spans import samples_per_second, steady_spans
from tfbench.records.run import RunResult, StepSpan

Values = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Evidence:
    """A run in whatever state, and what conditions read of it."""

    result: RunResult

    @functools.cached_property
    def steady(self) -> tuple[StepSpan, ...]:
        """Spans behind the warm-up."""
        return steady_spans(self.result.spans, warmup_steps=self.result.request.recipe.measurement.warmup_steps)

    @functools.cached_property
    def speed(self) -> float | None:
        """Samples per second of these."""
        placement = self.result.placement
        return samples_per_second(self.steady, placement.global_batch_size) if placement else None

    @property
    def input_rate(self) -> float | None:
        """Samples per second of the input pipeline alone."""
        check, placement = self.result.input_check, self.result.placement
        return check.num_batches * placement.global_batch_size / check.seconds if check and placement else None

    @property
    def headroom(self) -> float | None:
        """That over the speed of the training; None: one of them is not known."""
        return self.input_rate / self.speed if self.input_rate and self.speed else None

    @property
    def ready_share(self) -> float:
        """Share of the batches that were made before their epoch's clock began; 0 where none is known of."""
        epochs = [record for record in self.result.own_epochs if record.ready_batches is not None]
        num_steps = sum(record.num_steps for record in epochs)
        return sum(record.ready_batches or 0 for record in epochs) / num_steps if num_steps else 0.0


Condition = Callable[[Evidence], Iterator[Values]]  # yields the figures of its text wherever it holds


class WarningTable:
    """Warnings in the order in which they are told: each with its name, its condition, its text and what to do."""

    def __init__(self) -> None:
        self.rows: dict[str, tuple[Condition, str]] = {}

    def row(self, text: str, action: str = "") -> Callable[[Condition], Condition]:
        """Adds a row whose condition is what follows; its name is that function's. Braces take the figures."""

        def add(condition: Condition) -> Condition:
            self.rows[condition.__name__.strip("_")] = condition, f"{text} {action}".rstrip()
            return condition

        return add

    def texts(self, run: Evidence) -> Iterator[str]:
        """Yields what holds of a run."""
        for condition, text in self.rows.values():
            yield from (text.format(**values).rstrip() for values in condition(run))
