"""One run as the JSON object of `--format json`."""

import dataclasses
import json
import math

import pytest

from builders import build_epoch, build_recipe, build_request, build_result
from kinds import Fields
from tfbench.recipe import tables as recipe_tables
from tfbench.runs.record import RunExit, RunResult, Summary, TrackedRun
from tfbench.runs.run_document import run_document
from tfbench.runs.summary import summarize_run
from tfbench.schema import build
from tfbench.show.document import document

TRACKED = TrackedRun(tracking_uri="sqlite:///mlruns/mlflow.db", experiment_id="1", run_id="b" * 32)


def written_of(
    result: RunResult, summary: Summary | None = None, tracked: TrackedRun | None = None
) -> Fields:
    found = run_document(result, summary or summarize_run(result), tracked)
    return json.loads(json.dumps(found, allow_nan=False))


def test_a_finished_run_is_written_with_every_figure() -> None:
    reference = {
        "hardware": "H",
        "devices": "cpu",
        "source": "S",
        "figures": {"val_accuracy": 0.98},
    }
    recipe = build_recipe(reference=[reference])
    result = build_result(request=build_request(recipe=recipe, argv=("run", "mnist_mlp")))
    written = written_of(result, tracked=TRACKED)
    assert (written["argv"], written["num_replicas"]) == (["run", "mnist_mlp"], 1)
    (epoch,) = written["epochs"]
    assert (epoch["loss"], epoch["finished_at_iso"]) == (0.5, "2023-11-14T22:13:30+00:00")
    assert written["summary"] == summarize_run(result).metrics
    assert (written["settings"]["precision"], written["usage"]["load_average"]) == ("float32", 2.0)
    assert written["mlflow"] == dataclasses.asdict(TRACKED)
    assert written["created_iso"] == "2023-11-14T22:13:20+00:00"
    tables = written["recipe"]["resolved"]
    assert (
        recipe_tables.from_tables(tables, name=written["recipe"]["name"], source="test") == recipe
    )
    assert written["reference"][0]["figures"] == {"val_accuracy": 0.98}


def test_a_document_reads_back_equal() -> None:
    epoch = build_epoch(num_steps=20)
    result = build_result()
    for thing in (epoch, result.placement, result.settings, result.environment):
        written = json.loads(json.dumps(document(thing), allow_nan=False))
        assert written["format_version"] == 1
        fields = {
            key: value
            for key, value in written.items()
            if key != "format_version" and "_iso" not in key
        }
        assert build(type(thing), fields, "x") == thing


def test_a_run_that_failed_at_once_has_the_same_keys() -> None:
    failed = RunResult(
        request=build_request(), exit=RunExit(status="FAILED", reason="no GPU found")
    )
    written = written_of(failed)
    finished = written_of(build_result(), tracked=TRACKED)
    assert list(written) == list(finished) and list(written["dataset"]) == list(finished["dataset"])
    assert (written["mlflow"], written["devices"], written["dataset"]["source"]) == (
        None,
        None,
        None,
    )
    assert written["warnings"]


@pytest.mark.parametrize(
    ("ended", "error", "told"),
    [
        (RunExit(status="FAILED", reason="no GPU found"), None, "no GPU found"),
        (RunExit(status="FAILED"), {"type": "ValueError", "message": "bad shape"}, "bad shape"),
        (RunExit(status="KILLED"), None, "the run ended as KILLED; no reason was recorded"),
    ],
)
def test_a_run_that_did_not_finish_says_why(
    ended: RunExit, error: dict[str, str] | None, told: str
) -> None:
    assert written_of(build_result(exit=ended, error=error))["error"] == told


def test_what_is_missing_or_not_finite_is_null() -> None:
    summary = Summary(metrics={"loss": math.nan, "val_loss": 0.5}, warnings=("first",))
    written = written_of(build_result(started_at=math.inf), summary)
    assert (written["summary"], written["started_at"]) == ({"loss": None, "val_loss": 0.5}, None)
    assert written["warnings"] == ["first"]
