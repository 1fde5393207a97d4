"""The record of a crossover search is whole at every moment: one that was killed can be compared and gone on with."""

import errno
from pathlib import Path
from typing import Any

import pytest

from searches import ARMS, PlantedRuns, run_search
from tfbench.analysis.comparison.brief import make_brief
from tfbench.errors import DeviceError, InterruptedRunError, MeasurementError, TrackingError
from tfbench.records.run import RunRequest
from tfbench.records.sweep import list_cells
from tfbench.runs.limits import RunOutcome
from tfbench.store import briefs
from tfbench.store.store import Store
from tfbench.store.sweep_log import list_sweeps, read_sweep, reopened_log, replaced_log
from tfbench.sweeps.comparison import compare_sweep
from tfbench.sweeps.sweep import run_sweep


class SpiedRuns(PlantedRuns):
    """Planted runs that keep what the record holds while each of them is made, as a kill would leave it."""

    def __init__(self, record: Path, *fates: Any) -> None:
        super().__init__(*fates)
        self._record = record
        self.records: list[bytes] = []
        self.outcomes: dict[str, RunOutcome] = {}

    def __call__(self, request: RunRequest, *rest: Any) -> RunOutcome:
        self.records.append(self._record.read_bytes())
        outcome = super().__call__(request, *rest)
        self.outcomes[request.run_id] = outcome
        return outcome


class Silent:
    """Watches a sweep."""

    def begin(self, *what: Any) -> None: ...

    def end(self, *what: Any) -> None: ...


def killed_at(store: Store, runs: SpiedRuns, number: int) -> Store:
    """Returns a store that holds the record as it was while the run of a number, from 0, was made."""
    killed = Store(store.root.parent / "killed")
    path = killed.root / "sweeps" / "abc.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(runs.records[number])
    return killed


def spied_search(tmp_path: Path, *fates: Any) -> tuple[Store, SpiedRuns, list[int]]:
    """Searches with a record in a store; returns the values in the order in which they were measured, too."""
    store = Store(tmp_path / "mlruns")
    runs = SpiedRuns(store.root / "sweeps" / "abc.jsonl", *fates)
    with replaced_log(store, "abc") as keep:
        _, watcher = run_search(runs, keep)
    return store, runs, watcher.ended


def test_what_was_measured_is_kept_as_a_sweep(tmp_path: Path) -> None:
    store = Store(tmp_path / "mlruns")
    with replaced_log(store, "abc") as keep:
        result, watcher = run_search(PlantedRuns(lambda batch, strategy: "FAILED" if batch > 3000 else None), keep)
    plan, results = read_sweep(store, "abc")
    assert plan == result.plan and results == result.results
    assert plan.variations[0].values == tuple(sorted(watcher.ended))
    outcomes = [results[number].outcome for number in sorted(results)]
    assert len(outcomes) == 4 * len(watcher.ended)
    num_failed = outcomes.count("FAILED")
    assert num_failed == len(result.found.failures)
    assert outcomes.count("SKIPPED") == 3 * num_failed
    assert results[max(results)].reason == "not tried: default cpu:0: FAILED: out of memory"
    assert {path.suffix for path in (store.root / "sweeps").iterdir()} == {".jsonl", ".lock"}


def test_at_every_moment_the_record_holds_all_that_was_measured(tmp_path: Path) -> None:
    store, runs, values = spied_search(tmp_path)
    for number in range(len(runs.records)):
        plan, results = read_sweep(killed_at(store, runs, number), "abc")
        assert {result.run_id for result in results.values()} == {one.run_id for one in runs.requests[:number]}
        assert plan.variations[0].values == tuple(sorted(values[: number // 4 + 1]))  # with the one under way


def test_a_killed_search_can_be_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, runs, values = spied_search(tmp_path)
    kept = {name: make_brief(one.result, one.summary, journal_bytes=0) for name, one in runs.outcomes.items()}
    monkeypatch.setattr(briefs, "_read_brief", lambda path: kept[path.stem])
    killed = killed_at(store, runs, 9)  # two values are whole, and of the third one run of four
    comparison = compare_sweep(killed, *read_sweep(killed, "abc"))
    assert [row.global_batch_size for row in comparison.rows] == sorted(values[:3])
    entries = [row.entries[arm] for row in comparison.rows for arm in ARMS]
    assert [len(entry.runs) for entry in entries] == [2, 2, 2, 2, 1, 0]
    assert [entry.outcome for entry in entries] == [*["FINISHED"] * 4, "MISSING", "MISSING"]


def test_a_killed_search_can_be_gone_on_with_as_a_sweep(tmp_path: Path) -> None:
    store, runs, values = spied_search(tmp_path, lambda batch, strategy: "FAILED" if batch > 3000 else None)
    # The fifth value fails in its first run, the seventeenth, so that the eighteenth is of the sixth value.
    for number, num_missing, place in ((0, 4, 0), (9, 3, 2), (16, 4, 4), (17, 4, 5)):
        killed = killed_at(store, runs, number)
        again = PlantedRuns()
        with reopened_log(killed, "abc") as log:
            end = run_sweep(log, again, Silent())
        assert (len(again.requests), end.num_left, end.was_interrupted) == (num_missing, 0, False)
        assert {one.recipe.training.global_batch_size for one in again.requests} == {values[place]}
        plan, results = read_sweep(killed, "abc")
        assert len(results) == len(list_cells(plan)) == 4 * (place + 1)


def test_a_search_under_way_cannot_be_gone_on_with(tmp_path: Path) -> None:
    store = Store(tmp_path)

    def touch(batch: int, strategy: str) -> None:
        with pytest.raises(TrackingError, match="sweep abc: another process is at it"), reopened_log(store, "abc"):
            pass

    with replaced_log(store, "abc") as keep:
        run_search(PlantedRuns(touch), keep)


@pytest.mark.parametrize(
    ("fate", "error"),
    [("STOPPED", InterruptedRunError), (DeviceError("no such device"), DeviceError)],
)
def test_a_search_without_any_run_leaves_no_record(tmp_path: Path, fate: Any, error: type[Exception]) -> None:
    store = Store(tmp_path)
    with pytest.raises(error), replaced_log(store, "abc") as keep:
        run_search(PlantedRuns(lambda batch, strategy: fate), keep)
    assert list_sweeps(store) == []


def test_a_search_whose_first_value_fails_keeps_the_run_that_failed(tmp_path: Path) -> None:
    store = Store(tmp_path)
    with pytest.raises(MeasurementError), replaced_log(store, "abc") as keep:
        run_search(PlantedRuns(lambda batch, strategy: "FAILED"), keep)
    _, results = read_sweep(store, "abc")
    assert [result.outcome for result in results.values()] == ["FAILED", "SKIPPED", "SKIPPED", "SKIPPED"]


def test_a_store_that_cannot_be_written_to_is_told_before_the_first_run(tmp_path: Path) -> None:
    (tmp_path / "sweeps").write_text("in the way")
    runs = PlantedRuns()
    with (
        pytest.raises(TrackingError, match=r"sweeps/abc\.jsonl: cannot be written"),
        replaced_log(Store(tmp_path), "abc") as keep,
    ):
        run_search(runs, keep)
    assert runs.requests == []


def test_a_record_that_cannot_be_replaced_keeps_what_it_had(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(tmp_path)

    def fail(self: Path, target: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    def block(batch: int, strategy: str) -> None:
        if batch > 50:
            monkeypatch.setattr(Path, "replace", fail)

    with (
        pytest.raises(TrackingError, match=r"sweeps/abc\.jsonl: cannot be written: "),
        replaced_log(store, "abc") as keep,
    ):
        run_search(PlantedRuns(block), keep)
    assert len(read_sweep(store, "abc")[1]) == 8  # of two values
