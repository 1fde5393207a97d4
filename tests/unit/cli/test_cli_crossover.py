"""`tfbench crossover`: values are added where the faster setup changes."""

import pytest

from kinds import Cli
from outcomes import json_of
from searches import KEY, SETUPS, MakeRuns
from tfbench.recipe.tables import to_tables
from tfbench.store.store import Store
from tfbench.store.sweep_log import read_sweep
from tfbench.sweeps.plan import list_planned_runs
from tfbench.sweeps.results import find_runs

TRUTH = 2000 / 3  # where the planted costs of both setups are equal
RECIPE = ("mnist_mlp", "--data", "synthetic")
SEARCH = ("crossover", *RECIPE, "--vary", f"{KEY}=1..4000", "--between", *SETUPS, "--repeats", "2")


def test_the_planted_crossover_is_found(tfbench: Cli, fake: MakeRuns) -> None:
    runs = fake()
    found = json_of(tfbench, *SEARCH)
    (crossing,) = found["crossings"]
    assert (found["key"], found["complete"], found["setups"]) == (KEY, True, list(SETUPS))
    assert crossing["low"] <= TRUTH <= crossing["high"] and crossing["second_leads_above"]
    assert crossing["value"] == pytest.approx(TRUTH, rel=0.05)
    values = [point["value"] for point in found["points"]]
    assert values == sorted(values)
    assert not any(value % 2 for value in values)  # a batch divides among two replicas
    assert 5 < len(values) <= 15 and len(runs.requests) == 4 * len(values)
    assert [row["global_batch_size"] for row in found["comparison"]["rows"]] == values
    assert {request.recipe.measurement.seconds for request in runs.requests} == {1.0}
    _, _, verdict = tfbench(*SEARCH).stdout.partition("\nVerdict\n")
    crossing, best = (" ".join(text.split()) for text in verdict.split("\n- ", 2)[:2])
    assert "overtakes" in crossing and best.startswith("Use ")
    again = json_of(tfbench, "compare", "--sweep", "@last")
    assert crossing.removeprefix("- ") == again["verdict"][0]
    assert again["crossover"]["sentences"] == again["verdict"][:1]
    assert again["crossover"]["points"][0]["finding"] == "slower"


def test_no_more_values_are_added_than_were_asked_for(tfbench: Cli, fake: MakeRuns) -> None:
    fake()
    assert len(json_of(tfbench, *SEARCH, "--refine", "2")["points"]) == 5 + 2


def test_values_may_be_listed_and_all_items_of_a_list_are_set(tfbench: Cli, fake: MakeRuns) -> None:
    runs = fake()
    vary = ("--vary", "model.hidden_units=16..64", "--repeats", "2")
    found = json_of(tfbench, "crossover", *RECIPE, *vary, "--between", *SETUPS)
    assert [point["value"] for point in found["points"]] == [16, 32, 64]
    sizes = [tuple(to_tables(request.recipe)["model"]["hidden_units"]) for request in runs.requests]
    assert set(sizes) == {(value, value) for value in (16, 32, 64)}
    vary = ("--vary", f"{KEY}=256,1024", "--refine", "1")
    found = json_of(tfbench, "crossover", *RECIPE, *vary, "--between", *SETUPS)
    assert [point["value"] for point in found["points"]] == [256, 512, 1024]


def test_a_size_that_fails_bounds_the_range(tfbench: Cli, fake: MakeRuns) -> None:
    fake(lambda batch, strategy: "FAILED" if batch > 900 and strategy == "mirrored" else None)
    found = json_of(tfbench, *SEARCH)
    assert (
        800 < found["largest_fit"] <= 900 < min(failure["value"] for failure in found["failures"])
    )
    assert found["failures"][0]["reason"] == f"{SETUPS[1]}: FAILED: out of memory"
    assert len(found["crossings"]) == 1


def test_where_nothing_can_be_measured_the_command_fails(tfbench: Cli, fake: MakeRuns) -> None:
    fake(lambda batch, strategy: "FAILED")
    found = json_of(tfbench, *SEARCH, exit_code=1)
    assert (found["points"], found["crossings"], len(found["failures"])) == ([], [], 5)
    fake(lambda batch, strategy: "FAILED" if strategy == "mirrored" else None)
    assert json_of(tfbench, *SEARCH, exit_code=1)["points"] == []


# In the grid, and among what is added; after whole rounds: half of one is in no ratio.
@pytest.mark.parametrize("num_made", [3, 23, 27])
def test_one_that_was_stopped_is_resumed_to_the_same_end(
    tfbench: Cli, fake: MakeRuns, store: Store, monkeypatch: pytest.MonkeyPatch, num_made: int
) -> None:
    monkeypatch.setattr("platform.node", lambda: "bench")  # of which these runs are
    fake()
    whole = json_of(tfbench, *SEARCH)
    runs = fake(lambda batch, strategy: "STOPPED" if len(runs.requests) == num_made else None)
    stopped = json_of(tfbench, *SEARCH, exit_code=130)
    assert not stopped["complete"]
    record = read_sweep(store, stopped["id"])
    results = find_runs(store, record).results
    assert len(results) == num_made - 1 < len(list_planned_runs(record.plan))
    swept = json_of(tfbench, "sweep", "--resume", "@last")
    assert (swept["num_left"], swept["num_failed"]) == (0, 0)
    assert [row["global_batch_size"] for row in swept["rows"]] == [
        point["value"] for point in whole["points"]
    ]
    assert len(runs.requests) == 1 + swept["num_runs"]  # the one that was stopped is made again
