"""Counters of energy are read as the steady part begins, and no span has anything of it."""

from types import SimpleNamespace
from typing import Any

import pytest

from prepared import build_readings
from tfbench.measure.recorder import Validation
from tfbench.runs.record import StepSpan

STEP_MS = 10
VALIDATION_MS = 70
READING_MS = 5000
MS = 1_000_000
STEPS = 12  # of an epoch


def train(*, num_epochs: int = 3, reads: bool = True, **config: Any) -> Any:
    """Trains by a clock on which a step takes 10 ms and a reading of energy 5 s.

    Spans are of 35 ms, so that some are open whenever a border that is not theirs comes.
    """
    now_ms = 0
    events = []  # in the order in which they came
    spans = []
    epochs = []

    def note_span(span: StepSpan) -> None:
        spans.append(span)
        events.append(f"{span.first_step}-{span.last_step}")

    def read() -> None:
        nonlocal now_ms
        now_ms += READING_MS
        events.append("steady")

    readings = build_readings(
        SimpleNamespace(steps_per_execution=1),
        note_span,
        measurement={"warmup_steps": 5, "min_span_seconds": 0.035} | config,
        now=lambda: now_ms * MS,
        steps_per_epoch=STEPS,
        on_epoch=epochs.append,
        validation=Validation(12, 4, is_whole=True),
        read_energy=read if reads else None,
    )
    readings.begin_training()
    for epoch in range(1, num_epochs + 1):
        readings.clock.begin_epoch(epoch)
        for batch in range(STEPS):
            now_ms += STEP_MS
            readings.end_steps(batch)
        now_ms += VALIDATION_MS
        readings.end_epoch(epoch, {})
    return SimpleNamespace(clock=readings.clock, events=events, spans=spans, epochs=epochs)


def test_one_reading_comes_as_the_steady_part_begins() -> None:
    steady = ["6-9", "10-12", "13-16", "17-20", "21-24"]
    assert train(num_epochs=2).events == ["1-1", "2-5", "steady", *steady]
    assert "steady" not in train(warmup_steps=40).events


# With the first step, with an epoch, within a later one.
@pytest.mark.parametrize("warmup_steps", [1, 5, 12, 15])
def test_no_span_no_epoch_and_no_validation_has_any_of_the_time_that_readings_take(
    warmup_steps: int,
) -> None:
    read = train(warmup_steps=warmup_steps)
    unread = train(warmup_steps=warmup_steps, reads=False)
    assert read.events[read.events.index("steady") - 1].endswith(f"-{warmup_steps}")
    assert read.spans == unread.spans
    for epoch in read.epochs:
        assert epoch.epoch_seconds == pytest.approx(STEPS * STEP_MS / 1000)
        assert epoch.validation_seconds == pytest.approx(VALIDATION_MS / 1000)
    entries, without = (one.clock.breakdown.record().entries for one in (read, unread))
    assert entries["callbacks"] - without.get("callbacks", 0.0) == pytest.approx(READING_MS / 1000)
    assert entries["validation"] == without["validation"]
    assert read.clock.steady_steps_per_second == unread.clock.steady_steps_per_second
