"""The whole path once, on every interpreter and with the oldest dependencies too."""

from pathlib import Path

from runs import NO_CHECKS, run_json, tracked_runs


def test_a_network_trains_on_two_replicas_and_is_tracked(tmp_path: Path) -> None:
    document = run_json(
        *[
            "run",
            "sine_lstm",
            "--epochs",
            "10",
            "--strategy",
            "mirrored",
            "--devices",
            "cpu:0,cpu:1",
        ],
        *("--set", "training.precision=mixed_bfloat16"),
        *("--set", "training.steps_per_execution=4"),
        *NO_CHECKS,
        cwd=tmp_path,
        is_first=True,
        is_cold=True,
    )
    assert (document["status"], document["devices"]) == ("FINISHED", ["cpu:0", "cpu:1"])
    assert document["settings"]["precision"] == "mixed_bfloat16"
    assert document["epochs"][-1]["val_loss"] < document["epochs"][0]["val_loss"]
    (tracked,) = tracked_runs(tmp_path / "mlruns")
    assert (tracked.info.run_id, tracked.info.status) == (document["mlflow"]["run_id"], "FINISHED")
