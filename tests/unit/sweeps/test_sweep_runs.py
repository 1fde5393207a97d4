"""What is known of the runs of a sweep when journals of it are lost, and what makes up for it."""

import json
import platform
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import build_environment
from fake_runs import FakeMaker, FakeRuns
from generated import examples
from sweeps import build_plan, write_sweep
from tfbench.comparisons.fastest import rank_setups
from tfbench.comparisons.verdict import find_verdict
from tfbench.errors import TrackingError
from tfbench.runs.observer import Observer
from tfbench.schema import to_plain
from tfbench.store.history import list_history
from tfbench.store.journal import read_result
from tfbench.store.recover import recover
from tfbench.store.store import Store
from tfbench.store.sweep_log import read_sweep
from tfbench.sweeps.compared import compare_sweep
from tfbench.sweeps.execution import make_sweep, reopen_sweep
from tfbench.sweeps.plan import PlannedRun, list_planned_runs
from tfbench.sweeps.results import find_runs, keep_untried, planned_request

PLAN = build_plan(num_rounds=3)
NUM_RUNS = len(list_planned_runs(PLAN))
HERE = build_environment(hostname=platform.node())


def speed_of(planned: PlannedRun) -> float:
    """The second setup is faster at the first batch size, and slower at the other."""
    is_faster = planned.setup != planned.configuration
    return (2000.0 if is_faster else 1000.0) * (1 + 0.01 * planned.round_number)


def damage(store: Store, run_id: str, how: str) -> None:
    """Makes a journal one that does not say what came of the run."""
    path = store.journal_path(run_id)
    data = path.read_bytes()
    lines = data.splitlines(keepends=True)
    match how:
        case "deleted":
            path.unlink()
        case "emptied":
            path.write_bytes(b"")
        case "cut":
            path.write_bytes(data[: len(data) // 2])
        case "without its end":
            path.write_bytes(b"".join(lines[:-1]))
        case "without its requests":
            kept = [line for line in lines if b'"kind":"request"' not in line]
            path.write_bytes(b"".join(kept))


def change_record(store: Store, **changes: Any) -> None:
    """Changes what the file of a sweep's record holds."""
    path = store.root / "sweeps" / "abc.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def unreachable(*place: str) -> Any:
    raise TrackingError("no server")


def read_verdict(store: Store) -> tuple[str, ...]:
    return find_verdict(compare_sweep(store, read_sweep(store, "abc")))


def find_winners(store: Store) -> dict[int, str]:
    """Returns what is recommended for each batch size; "": nothing."""
    rankings = rank_setups(compare_sweep(store, read_sweep(store, "abc")))
    return {ranking.batch_size: ranking.winner for ranking in rankings}


def resume(store: Store) -> list[int]:
    """Makes what is missing of the sweep; returns the numbers of the runs in its plan."""
    planned = reopen_sweep(store, "abc", allows_code=False)
    runs = FakeRuns(1500.0)
    make_sweep(planned, FakeMaker(store, runs), Observer())
    made_ids = {request.run_id for request in runs.requests}
    started = read_sweep(store, "abc").started
    return sorted(run.number for run in started if run.run_id in made_ids)


@examples(few=12, many=300)
@given(
    damaged=st.dictionaries(
        st.integers(0, NUM_RUNS - 1),
        st.sampled_from(("deleted", "emptied", "cut", "without its requests")),
    )
)
def test_what_is_lost_gives_no_advice_and_is_what_is_made_again(
    damaged: dict[int, str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    store = Store(tmp_path_factory.mktemp("generated"))
    write_sweep(store, PLAN, speed_of, environment=HERE)
    whole = find_winners(store)
    assert all(whole.values())
    started = {run.number: run.run_id for run in read_sweep(store, "abc").started}
    for number, how in damaged.items():
        damage(store, started[number], how)

    with_lost = set()
    for planned in list_planned_runs(PLAN):
        if planned.number in damaged:
            with_lost.add(PLAN.variations[0].values[planned.configuration])
    expected = {size: "" if size in with_lost else winner for size, winner in whole.items()}
    assert find_winners(store) == expected
    advice = " ".join(read_verdict(store)).partition("Incomplete")[0]
    for size in with_lost:
        assert not re.search(rf"everywhere|both|\b{size}\b", advice.partition("Not all")[0])
    missing = compare_sweep(store, read_sweep(store, "abc")).missing
    assert missing and (missing.num_missing, missing.num_lost) == (len(damaged), len(damaged))

    assert resume(store) == sorted(damaged)
    runs = find_runs(store, read_sweep(store, "abc"))
    assert (sorted(runs.results), runs.lost) == (list(range(NUM_RUNS)), {})
    assert resume(store) == []


def speed_until_decided(planned: PlannedRun) -> float | None:
    """Runs of three rounds, and of five at the second batch size, where speeds scatter by 4 %."""
    is_noisy = planned.configuration == 1
    if planned.round_number > (5 if is_noisy else 3):
        return None
    scatter = 1.04 if is_noisy and (planned.round_number + planned.setup) % 2 else 1.0
    return 1000.0 * scatter * (1 if is_noisy else 1 + planned.setup)


@pytest.mark.parametrize("how", ["", "deleted", "cut", "without its end", "without its requests"])
@pytest.mark.parametrize("first_rounds", [3, None])
def test_runs_compare_and_resume_agree_on_what_is_missing(
    store: Store, first_rounds: int | None, how: str
) -> None:
    plan = build_plan(num_rounds=20, first_rounds=first_rounds)
    write_sweep(store, plan, speed_until_decided, environment=HERE)
    record = read_sweep(store, "abc")
    for run in record.started[2:5] if how else ():
        damage(store, run.run_id, how)
    missing = compare_sweep(store, record).missing
    assert missing
    (entry,) = [entry for entry in list_history(store) if entry.kind == "sweep"]
    notes = re.findall(r"(\d+) (?:lost|not made)", entry.reason)
    assert sum(map(int, notes)) == missing.num_missing
    assert (entry.status == "INCOMPLETE") == bool(missing.num_missing)
    planned = reopen_sweep(store, "abc", allows_code=False)
    left = planned.due.without(planned.runs.results)
    assert len(left) == missing.num_missing
    if not how:  # the noisy batch size is looked at again after seven rounds
        assert len(left) == (4 if first_rounds else 64)


def test_a_run_that_is_lost_is_told_from_one_that_was_not_made(store: Store) -> None:
    write_sweep(store, PLAN, speed_of)
    first, *others = map(to_plain, read_sweep(store, "abc").started)
    store.discard(first["run_id"])
    store.discard(others[0]["run_id"])
    change_record(store, started=others)
    runs = find_runs(store, read_sweep(store, "abc"))
    assert list(runs.lost) == [others[0]["number"]]
    assert read_verdict(store)[-2:] == (
        "Incomplete: 2 runs of 12 are missing. `tfbench sweep --resume abc"
        f" --store {store.root}` measures what is missing.",
        "Lost at batch 32: no journal says what came of 1 run that was started. So no setup is"
        " recommended there.",
    )


def test_journals_alone_say_what_came_of_a_sweep(store: Store) -> None:
    write_sweep(store, PLAN, speed_of, environment=HERE)
    change_record(store, started=[])
    missing = compare_sweep(store, read_sweep(store, "abc")).missing
    assert missing and missing.num_missing == 0
    assert resume(store) == []
    assert len(read_sweep(store, "abc").started) == NUM_RUNS


def test_the_record_of_an_older_version_is_read_and_continued(store: Store) -> None:
    write_sweep(store, PLAN, speed_of, environment=HERE)
    results = []
    for run in read_sweep(store, "abc").started:
        results.append(to_plain(run) | {"outcome": "FINISHED", "reason": "", "seconds": 9.0})
    # Two runs of a setup that was rejected in the first round, and skipped later.
    planned_runs = list_planned_runs(PLAN)
    cell = planned_runs[0].cell
    rejected, skipped, lost = [run.number for run in planned_runs if run.cell == cell]
    for number in (rejected, skipped, lost):
        store.discard(results[number]["run_id"])
    results[rejected] |= {"outcome": "REJECTED", "run_id": None, "reason": "no GPU"}
    results[skipped] |= {"outcome": "SKIPPED", "run_id": None, "reason": "not tried: no GPU"}
    change_record(store, format_version=1, started=[], results=results)

    found = find_runs(store, read_sweep(store, "abc"))
    assert found.results[rejected].outcome == "REJECTED"
    assert found.results[skipped].outcome == "SKIPPED"
    assert list(found.lost) == [lost]
    assert resume(store) == []  # what was lost is not tried again either: its setup was rejected
    continued = read_sweep(store, "abc")
    assert (continued.earlier, len(continued.started)) == ((), NUM_RUNS + 1)
    found = find_runs(store, continued)
    outcomes = [found.results[number].outcome for number in (rejected, skipped, lost)]
    assert outcomes == ["REJECTED", "SKIPPED", "SKIPPED"]


def test_what_recover_writes_of_a_lost_run_changes_nothing(store: Store) -> None:
    """A run without an end is lost; one whose process wrote that it had finished is not."""
    write_sweep(store, PLAN, speed_of, environment=HERE)
    cut, finished = (run.run_id for run in read_sweep(store, "abc").started[:2])
    damage(store, cut, "cut")
    damage(store, finished, "without its end")
    for _ in range(2):
        assert list(find_runs(store, read_sweep(store, "abc")).lost) == [0]
        assert find_winners(store)[32] == ""
        recover(store, unreachable, of=[cut, finished])
        assert all(read_result(store.journal_path(run_id)).exit for run_id in (cut, finished))


def test_runs_skipped_for_a_failure_that_is_lost_are_made(store: Store) -> None:
    planned_runs = list_planned_runs(PLAN)
    first, *others = [run for run in planned_runs if run.cell == planned_runs[0].cell]
    write_sweep(
        store, PLAN, lambda run: "crashed" if run == first else speed_of(run), environment=HERE
    )
    started = {run.number: run.run_id for run in read_sweep(store, "abc").started}
    for planned in others:
        store.discard(started[planned.number])
        request = planned_request(PLAN, planned)
        keep_untried(store, request, "SKIPPED", "not tried: round 1 was KILLED: crashed")
    assert resume(store) == []
    store.discard(started[first.number])
    assert resume(store) == sorted(planned.number for planned in (first, *others))


def test_a_run_whose_journal_is_there_is_not_rejected_over_it(store: Store) -> None:
    write_sweep(store, PLAN, speed_of)
    result = read_result(store.journal_path(read_sweep(store, "abc").started[0].run_id))
    keep_untried(store, result.request, "REJECTED", "the journal cannot be read any more")
    assert find_runs(store, read_sweep(store, "abc")).results[0].outcome == "FINISHED"
