"""Series of runs: sweeps, scaling, crossovers, checks against a baseline, profiles."""

import csv
import io
import json
from typing import Any

import pytest

import tfbench
from contract import NUM_PARAMETERS, TINY, Cli, measured_in_mlflow

pytestmark = pytest.mark.slow

SHORT = ("--seconds", "0.2", "--repeats", "1")
SWEEP = (
    *("sweep", *TINY, "--vary", "training.global_batch_size=2048,4096", *SHORT),
    *("--setup", "default cpu:0", "--setup", "mirrored cpu:0,cpu:1"),
)


@pytest.fixture(scope="module")
def swept(cli: Cli) -> Any:
    """The JSON of a sweep that was killed in its second run, and then gone on with."""
    command = cli.start(*SWEEP)
    cli.await_(command, lambda: len(list(cli.store.glob("journals/*.jsonl"))) == 2)
    cli.kill(command)
    return cli.json("sweep", "--resume", "@last")


def test_a_killed_sweep_is_resumed_to_the_whole_of_it(cli: Cli, swept: Any) -> None:
    assert (swept["num_runs"], swept["num_left"], swept["num_failed"]) == (4, 0, 0)
    entries = {
        (row["global_batch_size"], entry["setup"]): entry["samples_per_second"]
        for row in swept["rows"]
        for entry in row["entries"]
    }
    assert sorted(entries) == [
        (size, setup)
        for size in (2048, 4096)
        for setup in ("default cpu:0", "mirrored cpu:0,cpu:1")
    ]
    assert min(entries.values()) > 0
    finished = [row for row in tfbench.load_runs(cli.store) if row["status"] == "FINISHED"]
    assert len(finished) == 4  # what was measured before counts, and is not made again


def test_each_run_of_a_sweep_is_once_in_mlflow(cli: Cli, swept: Any) -> None:
    runs = [
        run
        for run in measured_in_mlflow(f"sqlite:///{cli.store}/mlflow.db")
        if run.info.status == "FINISHED"
    ]
    finished = [
        row["run_id"] for row in tfbench.load_runs(cli.store) if row["status"] == "FINISHED"
    ]
    assert sorted(run.data.tags["tfbench.run_id"] for run in runs) == sorted(finished)
    assert all(run.data.params and run.data.metrics for run in runs)


def test_a_sweep_is_compared_again_in_every_format(cli: Cli, swept: Any) -> None:
    again = cli.json("compare", "--sweep", "@last")
    assert again["rows"] == swept["rows"]
    table = csv.DictReader(
        io.StringIO(cli("compare", "--sweep", "@last", "--format", "csv").stdout)
    )
    rows = [row for row in table if row["num_runs"] == "1"]  # not what was published
    assert len(rows) == 4 and all(float(row["samples_per_second"]) > 0 for row in rows)
    for name in ("text", "markdown"):
        done = cli("compare", "--sweep", "@last", "--format", name)
        assert done.exit_code == 0 and done.stdout
    rows = tfbench.compare(sweep="@last", store=cli.store).rows()
    assert all(row["samples_per_second"] > 0 for row in rows) and len(rows) == 4


def test_a_sweep_is_reported_with_its_plots(cli: Cli, swept: Any) -> None:
    done = cli("report", "--sweep", "@last", "--plots", "plots")
    assert done.exit_code == 0, done.stderr
    assert "<html" in (cli.folder / "tfbench-report.html").read_text("utf-8")
    plots = list((cli.folder / "plots").iterdir())
    assert plots and all(path.read_bytes().startswith(b"\x89PNG") for path in plots)


def test_a_plan_makes_no_run(own_cli: Cli) -> None:
    assert own_cli(*SWEEP, "--dry-run").exit_code == 0
    assert not own_cli.store.exists()


def test_weak_scaling_is_measured_over_devices(own_cli: Cli) -> None:
    found = own_cli.json(
        "scale", *TINY, "--weak", "--replicas", "1,2", "--devices", "cpu", *SHORT, "--no-mlflow"
    )
    one, two = found["scaling"]["points"]
    assert (one["global_batch_size"], two["global_batch_size"]) == (4096, 8192)
    assert (one["exchanged_bytes"], two["exchanged_bytes"]) == (0, 4 * NUM_PARAMETERS)
    assert two["speedup"]["value"] == pytest.approx(
        two["samples_per_second"] / one["samples_per_second"]
    )


def test_a_crossover_is_searched_between_two_setups(own_cli: Cli) -> None:
    found = own_cli.json(
        *(
            "crossover",
            *TINY,
            "--vary",
            "training.global_batch_size=2048..4096",
            "--step",
            "2048",
            "--no-mlflow",
        ),
        *("--between", "default cpu:0", "one_device cpu:0", "--seconds", "0.1", "--repeats", "2"),
    )
    assert (found["key"], found["complete"]) == ("training.global_batch_size", True)
    assert [point["value"] for point in found["points"]] == [2048, 4096]


def test_a_check_passes_or_ends_with_3(own_cli: Cli) -> None:
    check = ("check", *TINY, "--steps", "10", "--no-mlflow")
    saved = own_cli.json(*check, "--repeats", "2", "--save", "baseline.json")
    assert len(saved["runs"]) == 2
    kept = json.loads((own_cli.folder / "baseline.json").read_text())
    # Four repeats find it slower than the highest speed of a file, however much they scatter on a
    # busy machine.
    for speed, num_repeats, exit_code in ((1.0, 2, 0), (1e9, 4, 3)):
        (own_cli.folder / "other.json").write_text(
            json.dumps(kept | {"samples_per_second": [speed, speed]})
        )
        baseline = ("--baseline", "other.json", "--repeats", str(num_repeats))
        found = own_cli.json(*check, *baseline, exit_code=exit_code)
        assert (found["judgement"] == "regression") == (exit_code == 3)
        assert (found["unequal"], found["num_failed"]) == ([], 0)


def test_a_step_is_profiled(own_cli: Cli) -> None:
    step = own_cli.json("profile", *TINY, "--seconds", "0.5", "--no-mlflow")["profile"]["step"]
    phases = [phase["name"] for phase in step["phases"]]
    assert {"input", "forward", "backward", "update"} <= set(phases)
    assert [layer["name"] for layer in step["layers"]][-2:] == ["dense", "dense_1"]
    assert step["full_seconds"] > 0
