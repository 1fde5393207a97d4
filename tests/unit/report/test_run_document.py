import dataclasses
import json
import math

from builders import build_epoch, build_recipe, build_request, build_result
from tfbench.analysis.run.summary import summarize_run
from tfbench.recipe import tables as recipe_tables
from tfbench.records.run import RunExit, RunResult, Summary, TrackedRun
from tfbench.report.document import document
from tfbench.report.run.run_document import run_document
from tfbench.schema import build

TRACKED = TrackedRun(tracking_uri="sqlite:///mlruns/mlflow.db", experiment_id="1", run_id="b" * 32)
KEYS = {
    "format_version",
    "run_id",
    "name",
    "status",
    "error",
    "recipe",
    "strategy",
    "devices",
    "num_replicas",
    "global_batch_size",
    "per_replica_batch_size",
    "num_parameters",
    "num_trainable_parameters",
    "dataset",
    "epochs",
    "summary",
    "settings",
    "environment",
    "usage",
    "input_check",
    "peak_checks",
    "cautions",
    "mlflow",
    "reference",
}


def test_a_finished_run_is_written_with_every_figure() -> None:
    result = build_result()
    summary = summarize_run(result)
    written = json.loads(json.dumps(run_document(result, summary, TRACKED), allow_nan=False))
    assert set(written) >= KEYS
    assert written["status"] == "FINISHED"
    assert written["error"] is None
    assert written["recipe"] == {"name": "test", "resolved": recipe_tables.to_tables(result.request.recipe)}
    assert (written["strategy"], written["devices"], written["num_replicas"]) == ("one_device", ["cpu:0"], 1)
    assert (written["global_batch_size"], written["per_replica_batch_size"]) == (32, 32)
    assert written["dataset"] == {
        "name": "mnist",
        "source": "test",
        "synthetic": False,
        "train_samples": 640,
        "validation_samples": 100,
        "cache": "",
        "digest": "",
    }
    assert written["epochs"] == [
        {
            "epoch": 1,
            "num_steps": 20,
            "epoch_seconds": 1.0,
            "validation_seconds": 0.5,
            "elapsed_seconds": 1.5,
            "samples_per_second": 320.0,
            "loss": 0.5,
            "accuracy": 0.8,
            "val_loss": 0.6,
            "val_accuracy": 0.75,
            "finished_at": 1_700_000_010.0,
            "finished_at_iso": "2023-11-14T22:13:30+00:00",
            "inference_loss": None,
            "inference_accuracy": None,
            "inference_seconds": None,
            "val_loss_batch_mean": None,
            "val_accuracy_batch_mean": None,
            "ready_batches": None,
            "metrics": {},
        }
    ]
    assert written["summary"] == summary.metrics
    assert written["environment"]["cpu_model"] == "Example CPU 3000"
    assert written["settings"]["precision"] == "float32"
    assert written["usage"]["load_average"] == 2.0
    assert (written["input_check"], written["peak_checks"]) == (None, [])
    assert written["cautions"] == []
    assert written["mlflow"] == {
        "tracking_uri": "sqlite:///mlruns/mlflow.db",
        "experiment_id": "1",
        "run_id": "b" * 32,
    }


def test_a_document_reads_back_equal() -> None:
    epoch, result = build_epoch(num_steps=20), build_result()
    for thing in (epoch, result.placement, result.settings, result.environment):
        written = json.loads(json.dumps(document(thing), allow_nan=False))
        assert written["format_version"] == 1
        fields = {key: value for key, value in written.items() if key != "format_version" and "_iso" not in key}
        assert build(type(thing), fields, "x") == thing


def test_times_stand_in_words_beside_their_seconds() -> None:
    written = run_document(build_result(), Summary(metrics={}), None)
    assert (written["created"], written["created_iso"]) == (1_700_000_000.0, "2023-11-14T22:13:20+00:00")
    assert (written["started_at"], written["started_at_iso"]) == (1_700_000_005.0, "2023-11-14T22:13:25+00:00")


def test_the_recipe_can_be_read_back() -> None:
    recipe = build_recipe(
        reference=[{"hardware": "H", "devices": "cpu", "source": "S", "figures": {"val_accuracy": 0.98}}]
    )
    result = build_result(request=build_request(recipe=recipe))
    written = json.loads(json.dumps(run_document(result, summarize_run(result), None)))
    tables = written["recipe"]["resolved"]
    assert recipe_tables.from_tables(tables, name=written["recipe"]["name"], source="test") == recipe
    assert written["reference"][0]["figures"] == {"val_accuracy": 0.98}


def test_a_run_that_failed_at_once_has_the_same_keys() -> None:
    failed = RunResult(request=build_request(), exit=RunExit(status="FAILED", reason="no GPU found"))
    written = run_document(failed, summarize_run(failed), None)
    finished = run_document(build_result(), summarize_run(build_result()), TRACKED)
    assert list(written) == list(finished)
    assert (written["status"], written["error"]) == ("FAILED", "no GPU found")
    assert written["mlflow"] is None
    assert written["devices"] is None
    assert written["dataset"] == {
        "name": "mnist",
        "source": None,
        "synthetic": True,
        "train_samples": None,
        "validation_samples": None,
        "cache": None,
        "digest": None,
    }
    assert written["cautions"]
    json.dumps(written, allow_nan=False)


def test_an_error_without_a_reason_is_the_workers_message() -> None:
    result = build_result(exit=RunExit(status="FAILED"), error={"type": "ValueError", "message": "bad shape"})
    assert run_document(result, summarize_run(result), None)["error"] == "bad shape"


def test_an_error_is_always_a_text_when_a_run_did_not_finish() -> None:
    result = build_result(exit=RunExit(status="KILLED"))
    assert run_document(result, summarize_run(result), None)["error"] == (
        "the run ended as KILLED; no reason was recorded"
    )


def test_what_is_not_finite_is_null_with_a_caution() -> None:
    result = build_result(epochs=(build_epoch(loss=None),))
    summary = Summary(metrics={"loss": math.nan, "val_loss": 0.5}, cautions=("first",))
    result = dataclasses.replace(result, started_at=math.inf)
    written = run_document(result, summary, None)
    json.dumps(written, allow_nan=False)
    assert written["summary"] == {"loss": None, "val_loss": 0.5}
    assert written["cautions"] == ["first", "not finite, so written as null: started_at, summary.loss."]


def test_a_missing_figure_is_null_with_a_caution() -> None:
    result = build_result(epochs=(build_epoch(num_steps=20, val_loss=None),))
    written = run_document(result, summarize_run(result), None)
    assert written["summary"]["val_loss"] is None
    assert any("val_loss" in caution for caution in written["cautions"])
