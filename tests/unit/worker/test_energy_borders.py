"""Counters of energy are read at the borders of epochs and of the steady part, and no span has anything of it."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fake_power import RaplTree
from tfbench.machine.energy import EnergyMeter
from tfbench.recipe.sections import MeasurementConfig
from tfbench.records.energy import EnergyReading, Moment
from tfbench.records.journal import Journal, read_records
from tfbench.records.run import EpochRecord, StepSpan
from tfbench.worker.energy_borders import EnergyBorders
from tfbench.worker.ledger import Ledger
from tfbench.worker.recorder import FitReadings, Validation
from tfbench.worker.span_clock import SpanClock

STEP_MS, VALIDATION_MS, READING_MS = 10, 70, 5000
MS = 1_000_000


class Training:
    """A training by a clock of its own, on which a step takes 10 ms and a reading of energy 5 s.

    Spans are of 35 ms, so that some are open whenever a border that is not theirs comes.
    """

    def __init__(self, *, steps_per_epoch: int = 12, epochs: int = 3, reads: bool = True, **config: Any) -> None:
        self.now_ms = 0
        self.events: list[str] = []  # in the order in which they came
        self.spans: list[StepSpan] = []
        self.epochs: list[EpochRecord] = []
        self._is_open = False  # a span, in which steps are under way
        self.ledger = Ledger(0, now=self._now)
        self.model = SimpleNamespace(steps_per_execution=1, stop_training=False)
        clock = SpanClock(
            MeasurementConfig(**({"warmup_steps": 5, "min_span_seconds": 0.035} | config)),
            synchronize=lambda: None,
            on_span=self._on_span,
            ledger=self.ledger,
            now=self._now,
        )
        self.readings = FitReadings(
            clock=clock,
            ledger=self.ledger,
            model=self.model,
            steps_per_epoch=steps_per_epoch,
            global_batch_size=4,
            warmup_steps=5,
            on_epoch=self._on_epoch,
            on_first_step=lambda: None,
            validation=Validation(12, 4, is_whole=True),
            read_energy=self._read if reads else None,
            now=self._now,
        )
        self.readings.begin_training()
        for epoch in range(1, epochs + 1):
            self.readings.begin_epoch(epoch)
            for batch in range(steps_per_epoch):
                self.now_ms += STEP_MS
                self._is_open = True
                self.readings.end_steps(batch, None)
                if self.model.stop_training:
                    break
            self._is_open = False
            self.now_ms += VALIDATION_MS
            self.readings.end_epoch(epoch, {}, lambda: None)
            if self.model.stop_training:
                break

    def _now(self) -> int:
        return self.now_ms * MS

    def _on_span(self, span: StepSpan) -> None:
        self._is_open = False
        self.spans.append(span)
        self.events.append(f"{span.first_step}-{span.last_step}")

    def _read(self, moment: Moment, epoch: int) -> None:
        assert not self._is_open, f"{moment} of epoch {epoch} was read with steps under way"
        self.now_ms += READING_MS
        self.events.append(f"{moment} {epoch}")

    def _on_epoch(self, record: EpochRecord) -> bool:
        self.epochs.append(record)
        return False


def test_readings_come_at_the_borders_and_the_steady_part_has_one_of_its_own() -> None:
    assert Training(epochs=2).events == [
        *("epoch 1", "1-1", "2-5", "steady 1", "6-9", "10-12", "trained 1", "end 1"),
        *("epoch 2", "13-16", "17-20", "21-24", "trained 2", "end 2"),
    ]


def test_no_span_no_epoch_and_no_validation_has_any_of_the_time_that_readings_take() -> None:
    read, unread = Training(), Training(reads=False)
    assert read.spans == unread.spans
    assert sum(span.seconds for span in read.spans) == pytest.approx(3 * 12 * STEP_MS / 1000)
    assert [epoch.epoch_seconds for epoch in read.epochs] == pytest.approx([0.12] * 3)
    assert [epoch.validation_seconds for epoch in read.epochs] == pytest.approx([0.07] * 3)
    assert read.readings.clock.steady_steps_per_second == unread.readings.clock.steady_steps_per_second


def test_the_ledger_has_it_between_steps_and_epochs() -> None:
    read, unread = (training.ledger.record().entries for training in (Training(), Training(reads=False)))
    assert {name: read[name] for name in ("warmup", "steady", "validation")} == {
        name: unread[name] for name in ("warmup", "steady", "validation")
    }
    # Ten readings: three an epoch, and that of the steady part. The first comes while the process still starts.
    assert read["callbacks"] - unread.get("callbacks", 0.0) == pytest.approx(9 * READING_MS / 1000)


@pytest.mark.parametrize("warmup_steps", [1, 12, 15])
def test_a_warm_up_may_end_with_the_first_step_with_an_epoch_or_within_a_later_one(warmup_steps: int) -> None:
    read, unread = Training(warmup_steps=warmup_steps), Training(warmup_steps=warmup_steps, reads=False)
    assert read.spans == unread.spans
    (steady,) = (place for place, event in enumerate(read.events) if event.startswith("steady"))
    assert read.events[steady - 1].endswith(f"-{warmup_steps}")


def test_a_limit_within_an_epoch_ends_its_training() -> None:
    training = Training(steps=6)
    assert training.events == ["epoch 1", "1-1", "2-5", "steady 1", "6-9", "10-11", "trained 1", "end 1"]


class SlowMeter(EnergyMeter):
    """A meter whose reading takes so many seconds by the clock of a test."""

    seconds = 0.0
    takes = 0.0

    def read(self, moment: Moment, epoch: int) -> EnergyReading:
        self.seconds += self.takes
        return super().read(moment, epoch)


def read_energy(path: Path) -> list[tuple[str, int]]:
    readings = [record["reading"] for record in read_records(path) if record["kind"] == "energy"]
    return [(reading["moment"], reading["epoch"]) for reading in readings]


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    journal = Journal(tmp_path / "run.jsonl")
    journal.append("request")
    return journal


def test_what_there_is_and_what_it_shows_goes_into_the_journal(journal: Journal, tmp_path: Path) -> None:
    tree = RaplTree(tmp_path / "machine")
    tree.add("intel-rapl:0", "package-0", 12.5)
    borders = EnergyBorders(journal, EnergyMeter((), tree.root))
    assert borders.reader is not None
    borders.reader("epoch", 1)
    journal.close()
    _, sources, energy = read_records(journal.path)
    assert [source["name"] for source in sources["energy"]["sources"]] == ["package-0"]
    assert energy["reading"]["joules"] == {"package-0": 12.5}


def test_where_nothing_can_be_read_that_is_said_and_nothing_is_called(journal: Journal, tmp_path: Path) -> None:
    borders = EnergyBorders(journal, EnergyMeter((), tmp_path))
    assert borders.reader is None
    journal.close()
    _, sources = read_records(journal.path)
    assert sources["energy"]["sources"] == []
    assert "has no counters of energy (RAPL)" in sources["energy"]["problems"][0]


def test_epochs_that_are_short_beside_a_reading_are_passed_over_as_wholes(journal: Journal, tmp_path: Path) -> None:
    RaplTree(tmp_path / "machine").add("intel-rapl:0", "package-0")
    meter = SlowMeter((), tmp_path / "machine")
    borders = EnergyBorders(journal, meter, now=lambda: meter.seconds)
    meter.takes = 0.01  # of which three are more than a hundredth of an epoch of a second
    read = borders.reader
    assert read is not None
    for epoch in range(1, 9):
        read("epoch", epoch)
        meter.seconds += 1.0
        read("trained", epoch)
        read("end", epoch)
    journal.close()
    found = read_energy(journal.path)
    assert found == [(moment, epoch) for epoch in (1, 4, 7) for moment in ("epoch", "trained", "end")]


def test_where_the_warm_up_ends_is_read_even_in_an_epoch_that_would_be_passed_over(
    journal: Journal, tmp_path: Path
) -> None:
    RaplTree(tmp_path / "machine").add("intel-rapl:0", "package-0")
    meter = SlowMeter((), tmp_path / "machine")
    borders = EnergyBorders(journal, meter, now=lambda: meter.seconds)
    meter.takes = 0.5
    read = borders.reader
    assert read is not None
    first: tuple[Moment, ...] = ("epoch", "trained", "end")
    second: tuple[Moment, ...] = ("epoch", "steady", "trained", "end")
    for epoch, moments in enumerate((first, second, first), start=1):
        for moment in moments:
            read(moment, epoch)
            meter.seconds += 1.0
    journal.close()
    assert read_energy(journal.path) == [
        *(("epoch", 1), ("trained", 1), ("end", 1)),
        *(("steady", 2), ("trained", 2), ("end", 2)),
    ]
