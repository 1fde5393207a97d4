"""`tfbench profile` as a user starts it: what is measured and kept."""

from pathlib import Path

import pytest

from runs import run, tracked_files, tracked_runs

PROFILE = (
    "profile mnist_mlp --data synthetic --set model.hidden_units=[8] --global-batch-size 2000"
    " --seconds 0.2 --trace --format json"
)


def count_events(trace: Path, name: str) -> int:
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    space = xplane_pb2.XSpace()
    space.ParseFromString(trace.read_bytes())
    return sum(
        plane.event_metadata[event.metadata_id].name.partition("#")[0] == name
        for plane in space.planes
        for line in plane.lines
        for event in line.events
    )


@pytest.mark.slow
def test_a_step_and_its_trace_are_measured_and_kept(in_tmp_path: Path) -> None:
    done = run(*PROFILE.split(), cwd=in_tmp_path)
    assert done.exit_code == 0, done.stderr
    document = done.document
    step = document["profile"]["step"]
    assert step["num_rounds"] + step["num_slow_rounds"] == len(
        document["profile"]["readings"]["rounds"]
    )
    assert document["trace"]["readings"]["operations"]
    first, second = tracked_runs(in_tmp_path / "mlruns")
    assert (first.data.tags["tfbench.profile"], second.data.tags["tfbench.profile"]) == (
        "step",
        "trace",
    )
    assert first.data.metrics["profile/full_step_seconds"] == step["full_seconds"]
    assert "samples_per_second" not in first.data.metrics
    assert "Bottleneck: " in first.data.tags["mlflow.note.content"]
    files = tracked_files(first)
    assert (files / "result.json").is_file()
    assert not (files / "loss.png").exists()
    (trace,) = (tracked_files(second) / "trace" / "plugins" / "profile").glob("*/*.xplane.pb")
    # An execution is a step here.
    assert count_events(trace, "train") == document["trace"]["readings"]["num_traced_steps"]
    assert "tensorboard --logdir" in done.stderr
