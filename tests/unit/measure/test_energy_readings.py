"""Counters of energy are read as the steady part begins, and no span has anything of it."""

from types import SimpleNamespace
from typing import Any

import pytest

from prepared import build_readings
from tfbench.measure.recorder import Validation
from tfbench.runs.record import EpochRecord, StepSpan

STEP_MS = 10
VALIDATION_MS = 70
READING_MS = 5000
MS = 1_000_000


class Training:
    """A training by a clock of its own, on which a step takes 10 ms and a reading of energy 5 s.

    Spans are of 35 ms, so that some are open whenever a border that is not theirs comes.
    """

    def __init__(
        self, *, steps_per_epoch: int = 12, epochs: int = 3, reads: bool = True, **config: Any
    ) -> None:
        self.now_ms = 0
        self.events = []  # in the order in which they came
        self.spans = []
        self.epochs = []
        self._is_open = False  # a span, in which steps are under way
        self.model = SimpleNamespace(steps_per_execution=1, stop_training=False)
        self.readings = build_readings(
            self.model,
            self._on_span,
            measurement={"warmup_steps": 5, "min_span_seconds": 0.035} | config,
            now=self._now,
            steps_per_epoch=steps_per_epoch,
            on_epoch=self._on_epoch,
            validation=Validation(12, 4, is_whole=True),
            read_energy=self._read if reads else None,
        )
        self.readings.begin_training()
        for epoch in range(1, epochs + 1):
            self.readings.clock.begin_epoch(epoch)
            for batch in range(steps_per_epoch):
                self.now_ms += STEP_MS
                self._is_open = True
                self.readings.end_steps(batch)
                if self.model.stop_training:
                    break
            self._is_open = False
            self.now_ms += VALIDATION_MS
            self.readings.end_epoch(epoch, {})
            if self.model.stop_training:
                break

    def _now(self) -> int:
        return self.now_ms * MS

    def _on_span(self, span: StepSpan) -> None:
        self._is_open = False
        self.spans.append(span)
        self.events.append(f"{span.first_step}-{span.last_step}")

    def _read(self) -> None:
        assert not self._is_open, "energy was read with steps under way"
        self.now_ms += READING_MS
        self.events.append("steady")

    def _on_epoch(self, record: EpochRecord) -> bool:
        self.epochs.append(record)
        return False


def test_one_reading_comes_as_the_steady_part_begins() -> None:
    assert Training(epochs=2).events == [
        "1-1",
        "2-5",
        "steady",
        "6-9",
        "10-12",
        "13-16",
        "17-20",
        "21-24",
    ]
    assert "steady" not in Training(warmup_steps=40).events


@pytest.mark.parametrize(
    "warmup_steps", [1, 5, 12, 15]
)  # with the first step, with an epoch, within a later one
def test_no_span_no_epoch_and_no_validation_has_any_of_the_time_that_readings_take(
    warmup_steps: int,
) -> None:
    read = Training(warmup_steps=warmup_steps)
    unread = Training(warmup_steps=warmup_steps, reads=False)
    assert read.spans == unread.spans
    assert read.events[read.events.index("steady") - 1].endswith(f"-{warmup_steps}")
    entries, without = (one.readings.clock.breakdown.record().entries for one in (read, unread))
    assert entries["callbacks"] - without.get("callbacks", 0.0) == pytest.approx(READING_MS / 1000)
    assert entries["validation"] == without["validation"]
    assert sum(span.seconds for span in read.spans) == pytest.approx(3 * 12 * STEP_MS / 1000)
    assert [epoch.epoch_seconds for epoch in read.epochs] == pytest.approx([0.12] * 3)
    assert [epoch.validation_seconds for epoch in read.epochs] == pytest.approx([0.07] * 3)
    assert (
        read.readings.clock.steady_steps_per_second == unread.readings.clock.steady_steps_per_second
    )
