"""`tfbench runs`: what a store holds, by kind, newest first."""

import dataclasses
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from journals import build_sized_result, hold, write_journal
from kinds import Cli, Fields
from outcomes import json_of, rejection_of, shown_by
from sweeps import build_plan, write_sweep
from tfbench import api
from tfbench.store.store import Store
from tfbench.sweeps.plan import list_planned_runs

OLD = 1_600_000_000.0


def write_run(
    store: Store,
    index: int,
    *,
    created: float,
    tags: dict[str, str],
    recipe: str = "mnist_mlp",
    without: tuple[str, ...] = (),
    at: Callable[[Path], None] = lambda path: None,
) -> str:
    result = build_sized_result(index)
    named = dataclasses.replace(result.request.recipe, name=recipe)
    run_id = f"{index:x}" * 32
    request = dataclasses.replace(
        result.request, run_id=run_id, created=created, tags=tags, recipe=named
    )
    at(write_journal(store, dataclasses.replace(result, request=request), without=without))
    return request.run_id


@pytest.fixture
def store(in_tmp_path: Path, store: Store) -> Store:
    """Returns a store with runs in every state, two repeats, and a sweep.

    The states are finished, killed, under way and unreadable.
    """
    write_run(store, 1, created=OLD, tags={})
    for index in (2, 3):
        write_run(
            store,
            index,
            created=OLD + index,
            tags={"tfbench.group": "fade", "tfbench.repeat": str(index - 1)},
        )
    write_run(store, 6, created=OLD + 6, tags={}, without=("exit", "finished"))
    write_run(store, 7, created=OLD + 7, tags={}, without=("exit", "finished"), at=hold)
    (store.journals / "8888.jsonl").write_text("nothing\n" * 3)
    plan = build_plan(num_rounds=1)
    write_sweep(store, plan, lambda planned: "out of memory" if planned.number == 3 else 1000.0)
    return store


def read(tfbench: Cli, *options: str) -> list[Fields]:
    return json_of(tfbench, "runs", *options)["runs"]


def test_what_one_command_made_is_one_entry(tfbench: Cli, store: Store) -> None:
    entries = read(tfbench)
    plan = build_plan(num_rounds=1)
    found = [(entry["kind"], entry["id"], entry["num_runs"], entry["status"]) for entry in entries]
    assert found == [
        ("sweep", plan.sweep_id, 4, "FAILED"),
        ("run", "7" * 32, 1, "RUNNING"),
        ("run", "6" * 32, 1, "KILLED"),
        ("repeats", "fade", 2, "FINISHED"),
        ("run", "1" * 32, 1, "FINISHED"),
        ("run", "8888", 1, "UNREADABLE"),
    ]
    assert entries[0]["setups"] == [setup.label for setup in plan.setups]
    assert (entries[0]["reason"], len(list_planned_runs(plan))) == ("1 KILLED", 4)
    assert entries[4]["samples_per_second"] > 0 and entries[5]["created"] is None
    assert "it holds no request." in entries[5]["reason"]


def test_a_sweep_without_all_of_its_runs_is_incomplete(tfbench: Cli, store: Store) -> None:
    path = store.root / "sweeps" / f"{build_plan().sweep_id}.json"
    for run_id in store.run_ids()[1:]:
        if run_id.startswith("0"):  # of the sweep
            store.discard(run_id)
    record = json.loads(path.read_text())
    for started, reason in ((record["started"], "3 lost"), ((), "3 not made")):
        path.write_text(json.dumps(record | {"started": started}))
        sweep = read(tfbench)[0]
        assert (sweep["status"], sweep["reason"]) == ("INCOMPLETE", reason)
        assert sweep["num_runs"] == 1
    path.write_text("nothing\n")
    (sweep,) = (entry for entry in read(tfbench) if entry["kind"] == "sweep")
    assert (sweep["status"], sweep["num_runs"]) == ("UNREADABLE", 0)


def test_a_run_that_a_sweep_is_making_is_no_entry_of_its_own(tfbench: Cli, store: Store) -> None:
    tags = {"tfbench.sweep": build_plan().sweep_id}
    write_run(store, 10, created=OLD, tags=tags, without=("exit", "finished"), at=hold)
    write_run(store, 11, created=OLD, tags=tags, without=("exit", "finished"))
    entries = read(tfbench)
    assert [(entry["kind"], entry["status"]) for entry in entries if entry["id"][0] in "ab"] == [
        ("sweep", "RUNNING")
    ]


def test_entries_are_chosen_by_recipe_status_and_number(tfbench: Cli, store: Store) -> None:
    assert read(tfbench, "--recipe", "nothing") == []
    assert [entry["id"] for entry in read(tfbench, "--status", "killed")] == ["6" * 32]
    assert len(read(tfbench, "--limit", "2")) == 2
    done = tfbench("runs", "--limit", "2")
    assert done.stdout.splitlines()[-1] == "and 4 more: --limit 6 shows them."


def test_a_run_is_listed_with_what_was_set_for_it(tfbench: Cli, in_tmp_path: Path) -> None:
    result = build_sized_result(1)
    request = dataclasses.replace(result.request, overrides=("training.global_batch_size",))
    write_journal(Store(Path("mlruns")), dataclasses.replace(result, request=request))
    (entry,) = read(tfbench)
    assert entry["changes"] == [f"global_batch_size={request.recipe.training.global_batch_size}"]
    assert entry["changes"][0] in tfbench("runs").stdout


def test_one_run_is_shown_with_all_there_is(tfbench: Cli, store: Store) -> None:
    head, end = shown_by(tfbench("runs", "1111")).split("\nFINISHED")
    assert "1" * 32 in head and "epoch  samples/s" in head
    assert re.search(r"\nSettings, as read back\n.*\n *compiler +graph", end, re.DOTALL)
    assert (
        "\nstep_time_median_seconds  " in end and "  Journal     mlruns/journals/" + "1" * 32 in end
    )
    document = json_of(tfbench, "runs", "1111")
    assert (document["id"], document["status"]) == ("1" * 32, "FINISHED")
    assert api.read_run("1111", store=store.root).document() == document


def test_one_run_has_the_status_that_it_has_in_the_list(tfbench: Cli, store: Store) -> None:
    killed, going_on = (tfbench("runs", run_id * 4).stdout for run_id in "67")
    assert "\nKILLED: the process that tracked it and the worker ended without a word" in killed
    assert "  To MLflow   tfbench recover" in killed
    assert "\nRUNNING\n" in going_on and "not there before its end" in going_on
    assert "tfbench recover" not in going_on and "--resume" not in going_on
    for run_id, status in (("6666", "KILLED"), ("7777", "RUNNING")):
        assert json_of(tfbench, "runs", run_id)["status"] == status


def test_the_id_of_several_runs_shows_them_side_by_side(tfbench: Cli, store: Store) -> None:
    sweep_id = build_plan().sweep_id
    for token, ids in ((sweep_id, []), ("fade", ["2" * 32])):
        shown = shown_by(tfbench("runs", token))
        assert shown.startswith(tfbench("compare", token).stdout)
        assert all(f"\n  {run_id}  " in shown for run_id in ids)
        document = json_of(tfbench, "runs", token)
        assert document == json_of(tfbench, "compare", token)
    assert "not in store" in tfbench("runs", "nothing").stderr


def test_an_id_that_several_series_begin_with_names_none(tfbench: Cli, store: Store) -> None:
    write_run(store, 14, created=OLD, tags={"tfbench.group": "fake"})
    shown_by(tfbench("runs", "fad"))
    assert "not in store" in rejection_of(tfbench("runs", "fa"))
