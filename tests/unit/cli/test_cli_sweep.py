"""`tfbench sweep`: what it plans, what it makes, what it shows, and what it rejects."""

import re
import shlex
import warnings
from pathlib import Path

import pytest

from kinds import Cli
from outcomes import json_of, rejection_of, shown_by
from searches import KEY, MakeRuns
from tfbench.errors import Notice, TrackingError
from tfbench.store import index
from tfbench.sweeps import planning

SETUPS = ("--setup", "default cpu:0", "--setup", "mirrored cpu:0,cpu:1")
LEFT_OUT = "Warning: left out: mirrored cpu:0,cpu:1: training."
SWEEP = ("sweep", "mnist_mlp", "--data", "synthetic", "--vary", f"{KEY}=32,64", *SETUPS)


def test_a_sweep_shows_its_plan_a_line_a_round_and_the_table(tfbench: Cli, fake: MakeRuns) -> None:
    runs = fake()
    shown = shown_by(tfbench(*SWEEP, "--repeats", "2"))
    assert {request.recipe.measurement.seconds for request in runs.requests} == {1.0}
    checked = [request.recipe.measurement.checks for request in runs.requests]
    assert checked == [True] * 4 + [False] * 4  # in the first round alone
    lines = shown.splitlines()
    sweep_id = runs.requests[0].tags["tfbench.sweep"]
    assert lines[0] == f"Sweep {sweep_id} of mnist_mlp"
    assert "  runs        2 configurations x 2 setups x 2 rounds = 8 runs" in lines
    assert "  time        about 28 s" in lines
    first, last = (line for line in lines if line.startswith("Round "))
    assert first.startswith("Round 1 of 2: 4 runs next")
    assert last == "Round 2 of 2: 2 of 2 comparisons decided"
    assert "Verdict" in lines


def test_a_sweep_that_adds_rounds_says_so_in_its_plan_and_after_each_of_them(
    tfbench: Cli, fake: MakeRuns
) -> None:
    fake()
    shown = shown_by(tfbench(*SWEEP)).splitlines()
    assert "  runs        2 configurations x 2 setups x 3 to 20 rounds = 12 to 80 runs" in shown
    assert "  time        about 42 s to 5 min, until every comparison is decided" in shown
    assert [line.partition(";")[0] for line in shown if line.startswith("Round ")] == [
        "Round 1: 0 of 2 comparisons decided",
        "Round 2: 0 of 2 comparisons decided",
        "Round 3: 2 of 2 comparisons decided",
    ]
    plan = shown_by(tfbench("sweep", "--resume", "@last"))
    assert "2 configurations x 2 setups x 3 to 20 rounds = 12 to 80 runs, 0 left\n" in plan
    assert "\n  time" not in plan


def test_a_sweep_of_which_no_run_fits_into_its_time_ends_as_one_that_failed(
    tfbench: Cli, fake: MakeRuns
) -> None:
    runs = fake()
    budget = (*SWEEP, "--time-budget", "1s")
    done = tfbench(*budget)
    assert (done.exit_code, runs.requests, done.stderr.count("\n")) == (1, [], 1)
    assert "Verdict" not in done.stdout
    assert tfbench("sweep", "--resume", "@last").exit_code == 1
    assert json_of(tfbench, *budget, exit_code=1)["num_left"] == 12


def test_quick_needs_nothing_and_says_what_it_is(tfbench: Cli, fake: MakeRuns) -> None:
    runs = fake()
    shown = shown_by(tfbench("sweep", "--quick"))
    recipes = [request.recipe for request in runs.requests]
    assert len(recipes) == 12
    measurements = {(recipe.measurement.seconds, recipe.measurement.checks) for recipe in recipes}
    assert measurements == {(0.5, False)}
    assert {recipe.training.global_batch_size for recipe in recipes} == {32, 512}
    assert {recipe.distribution.strategy for recipe in recipes} == {"default", "mirrored"}
    assert "when the time budget ends" in " ".join(shown.split())


def test_what_quick_chooses_can_be_chosen_otherwise(tfbench: Cli, fake: MakeRuns) -> None:
    runs = fake()
    chosen = "sine_lstm --vary model.units=3,4 --repeats 1 --seconds 3"
    shown_by(tfbench("sweep", "--quick", *chosen.split(), *SETUPS[:2]))
    recipes = [request.recipe for request in runs.requests]
    assert [recipe.name for recipe in recipes] == ["sine_lstm"] * 2
    assert [recipe.model.options["units"] for recipe in recipes] == [3, 4]
    assert {recipe.measurement.seconds for recipe in recipes} == {3.0}


def test_quick_takes_the_data_of_a_network_of_ones_own(
    tfbench: Cli, fake: MakeRuns, in_tmp_path: Path
) -> None:
    runs = fake()
    Path("nets.py").write_text("def build_model(): ...\ndef load_data(): ...\n")
    shown = shown_by(tfbench("sweep", "nets.py:build_model", "--quick", "--batch-size", "64"))
    recipes = [request.recipe for request in runs.requests]
    assert {recipe.dataset.data for recipe in recipes} == {"real"}
    assert {recipe.training.global_batch_size for recipe in recipes} == {64}
    assert "  vary        training.global_batch_size = 64" in shown.splitlines()


def test_how_to_go_on_allows_the_code_again(
    tfbench: Cli, fake: MakeRuns, in_tmp_path: Path
) -> None:
    fake(lambda batch, strategy: "STOPPED" if strategy == "mirrored" else None)
    Path("nets.py").write_text("def build_model(): ...\n")
    sweep = ("sweep", "nets.py:build_model", *SETUPS, "--repeats", "1")
    told = tfbench(*sweep).stdout
    assert re.search(r"This goes on:\n  tfbench sweep --resume \w+ --allow-code\n", told), told
    planned = shown_by(tfbench(*sweep, "--plan", "plan.json"))
    assert "tfbench sweep --plan plan.json --task N --allow-code --store DIR" in planned


@pytest.mark.usefixtures("with_gpus")
@pytest.mark.parametrize(
    ("num_gpus", "setups"),
    [
        (0, ["default cpu:0", "mirrored cpu:0,cpu:1"]),
        (1, ["default cpu:0", "default gpu:0"]),
        (3, ["default cpu:0", "default gpu:0"]),  # batches of 32 do not divide among three
        (4, ["default cpu:0", "default gpu:0", "mirrored gpu:0,gpu:1,gpu:2,gpu:3"]),
    ],
)
def test_without_setups_what_is_there_is_compared(
    tfbench: Cli,
    in_tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    num_gpus: int,
    setups: list[str],
) -> None:
    monkeypatch.setattr(planning, "count_gpus", lambda backend: num_gpus)
    for arguments in (("mnist_mlp", "--vary", f"{KEY}=32,128"), ("--quick",)):
        done = tfbench("sweep", *arguments, "--dry-run")
        assert done.exit_code == 0
        left_out = "Warning: left out: mirrored gpu:0,gpu:1,gpu:2: "
        assert done.stderr.startswith(left_out) == (num_gpus == 3)
        assert re.findall("^  setup       (.*)$", done.stdout, re.MULTILINE) == setups
        assert "only one setup" not in done.stdout


@pytest.mark.parametrize(
    ("arguments", "setup", "left_out"),
    [
        (("--vary", f"{KEY}=1,8"), "default cpu:0", LEFT_OUT),
        (("--set", "training.compiler=xla"), "default cpu:0", LEFT_OUT),
        (("--setup", "one_device cpu:0"), "one_device cpu:0", ""),
        (("--set", "distribution.strategy=one_device"), "one_device", ""),
    ],
)
def test_one_setup_is_said_to_compare_nothing(
    tfbench: Cli,
    in_tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    setup: str,
    left_out: str,
) -> None:
    monkeypatch.setattr(planning, "count_gpus", lambda backend: 0)
    done = tfbench("sweep", "mnist_mlp", "--dry-run", *arguments)
    assert done.exit_code == 0 and done.stderr.startswith(left_out)
    (found,) = re.findall("^  setup       (.*)$", done.stdout, re.MULTILINE)
    assert found.startswith(setup)
    assert "There is only one setup, so nothing is compared." in done.stdout


@pytest.mark.parametrize(
    ("asked", "compared", "num_configurations"),
    [
        ("mnist_scratch_cnn --vary model.pooling_backward=mask_multiply,index_scatter", 2, 1),
        (
            "mnist_scratch_cnn --set model.pooling_backward=index_scatter --batch-size 8,16"
            " --vary 'model.pooling_backward = mask_multiply,index_scatter'",
            2,
            2,
        ),
        ("mnist_mlp --vary training.optimizer.learning_rate=0.1,0.01 --data synthetic", 2, 1),
        ("mnist_mlp --vary=training.intra_op_threads=1,2,3", 3, 1),
        ("sine_lstm --vary model.units=16..64", 3, 1),
        ("mnist_mlp --plan plan.json", 4, 4),  # by the recipe's [sweep]
    ],
)
def test_values_of_one_setup_are_compared_by_the_command_that_is_shown(
    tfbench: Cli, in_tmp_path: Path, asked: str, compared: int, num_configurations: int
) -> None:
    setup = "default cpu:0 compiler=graph"
    shown = shown_by(tfbench("sweep", *shlex.split(asked), "--setup", setup, "--dry-run"))
    advised = [line for line in shown.splitlines() if line.startswith("  tfbench sweep ")]
    planned = shown_by(tfbench(*shlex.split(advised[0])[1:], "--dry-run"))
    assert "only one setup" not in planned
    setups = re.findall(f"^  setup       {setup} (.*)$", planned, re.MULTILINE)
    assert len(setups) == compared
    assert f" {num_configurations} configuration" in planned


def test_json_is_one_document_on_stdout(tfbench: Cli, fake: MakeRuns) -> None:
    runs = fake(lambda batch, strategy: "FAILED" if (batch, strategy) == (64, "mirrored") else None)
    done = tfbench(*SWEEP, "--full", "--repeats", "2", "--format", "json")
    assert done.exit_code == 1
    assert not any(request.recipe.measurement.is_limited for request in runs.requests)
    document = done.document
    assert (document["num_runs"], document["num_left"], document["num_failed"]) == (8, 0, 1)
    outcomes = [entry["status"] for row in document["rows"] for entry in row["entries"]]
    assert outcomes == ["FINISHED"] * 3 + ["FAILED"]
    assert "mirrored cpu:0,cpu:1, round 1: FAILED: out of memory" in done.stderr
    assert "round 2: SKIPPED: not tried: round 1 was FAILED: out of memory" in done.stderr


def test_runs_that_cannot_be_read_are_named_on_a_line_each(
    tfbench: Cli, fake: MakeRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = fake()
    tfbench(*SWEEP, "--repeats", "1")

    def fail(path: Path) -> None:
        raise TrackingError("damaged")

    monkeypatch.setattr(index, "_read_brief", fail)
    first, *rest = tfbench("sweep", "--resume", "@last").stderr.splitlines()
    assert first.startswith("Warning: 8 runs could not be read")
    assert set(rest) >= {f"  {request.run_id}: damaged" for request in runs.requests}


@pytest.mark.advice("Runs of this store are tracked at")
def test_what_goes_on_is_tracked_where_it_was_if_the_user_names_the_server_again(
    tfbench: Cli, fake: MakeRuns
) -> None:
    uri = "http://bench:5000"
    fake(lambda batch, strategy: "STOPPED" if batch == 64 else None)
    tfbench(*SWEEP, "--repeats", "1", "--tracking-uri", uri, "--experiment", "mine")
    runs = fake(lambda batch, strategy: None)
    done = tfbench("sweep", "--resume", "@last")
    assert (done.exit_code, runs.places) == (2, [])
    assert f"Runs of this store are tracked at {uri}." in done.stderr
    again = ("sweep", "--resume", "@last", "--tracking-uri", uri)
    for options, place in (
        ((), (uri, "mine")),
        (("--experiment", "other"), (uri, "other")),
        ((), (uri, "other")),
    ):
        runs = fake(lambda batch, strategy: "STOPPED")
        assert tfbench(*again, *options).exit_code == 130
        assert runs.places == [place]


def test_a_record_of_someone_elses_is_not_resumed_into_code(tfbench: Cli, fake: MakeRuns) -> None:
    runs = fake(lambda batch, strategy: "STOPPED" if batch == 64 else None)
    tfbench(*SWEEP)
    (record,) = Path("mlruns/sweeps").glob("*.json")
    record.write_text(
        record.read_text(encoding="utf-8").replace('"name":"mlp"', '"name":"os:system"'), "utf-8"
    )
    num_runs = len(runs.requests)
    for options in ((), ("--dry-run",)):
        message = rejection_of(tfbench("sweep", "--resume", "@last", *options))
        assert "model.name: os:system is code from outside of tfbench" in message
    assert len(runs.requests) == num_runs


def test_a_gpu_that_no_setup_is_planned_for_is_told_of_first_and_on_stderr(
    tfbench: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    def count(backend: str) -> int:
        warnings.warn("a GPU is not used: no driver.", Notice, stacklevel=2)
        return 0

    monkeypatch.setattr(planning, "count_gpus", count)
    for options in ((), ("--format", "json"), ("--setup", "default", "--setup", "one_device")):
        done = tfbench("sweep", "--quick", "--dry-run", *options)
        assert done.exit_code == 0
        assert (done.stdout + done.stderr).count("not used") == 1
        assert done.stderr.startswith("Warning: a GPU is not used: no driver.\n")


def test_a_setup_that_is_named_twice_is_run_against_itself(tfbench: Cli, fake: MakeRuns) -> None:
    fake()
    twice = (*SETUPS[:2], *SETUPS[:2])
    found = json_of(tfbench, *SWEEP[:-4], *twice, "--repeats", "2")
    assert (found["num_runs"], len(found["rows"])) == (8, 2)
    for row in found["rows"]:
        once, again = row["entries"]
        assert again["setup"] == f"{once['setup']} again"
        # planted speeds are off by 0.1 %
        assert again["speedup"]["ratio"] == pytest.approx(1.0, abs=0.01)
        assert again["speedup"]["judgement"] == "no measurable difference"
    verdict = found["verdict"][0]
    assert verdict.startswith("Largest difference by chance: ")
    assert re.search(r" do not show differences below 0\.\d+ % at batch (32|64)\.", verdict)
    again = json_of(tfbench, "compare", "--sweep", "@last")
    assert again["rows"] == found["rows"]


@pytest.mark.advice("setups have in common. To see several, use --batch-size")
def test_a_batch_size_is_no_part_of_a_setup_with_advice_that_works(tfbench: Cli) -> None:
    sweep = ("sweep", "mnist_mlp", "--data", "synthetic", "--dry-run")
    message = rejection_of(tfbench(*sweep, "--setup", "default cpu:0 global_batch_size=64"))
    assert "use --batch-size: each is a row" in message
    shown = shown_by(tfbench(*sweep, "--setup", "default cpu:0", "--batch-size", "64,128"))
    assert "training.global_batch_size = 64, 128" in shown
