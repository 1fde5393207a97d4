"""What is asked of a run: its name, where its data is, and which checkpoint one goes on from."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from builders import build_epoch, build_recipe, build_request, build_result
from kinds import Fields
from tfbench.errors import RecipeError, UnknownNameError
from tfbench.runs.record import ResumePoint, RunExit, RunRequest, RunResult
from tfbench.runs.requests import merge_overrides, new_request, resumed_request
from tfbench.store.journal import files_folder
from tfbench.tags import SERIES_TAGS


@pytest.mark.parametrize(
    ("backend", "distribution", "end"),
    [
        (
            "tensorflow",
            {"strategy": "mirrored", "devices": ["cpu:0", "cpu:1"]},
            "-mirrored-cpu:0+cpu:1",
        ),
        ("jax", {"devices": ["cpu:0"]}, "-default-cpu:0-jax"),
    ],
)
def test_a_run_is_named_after_what_varies(backend: str, distribution: Fields, end: str) -> None:
    recipe = build_recipe(training={"backend": backend}, distribution=distribution)
    assert new_request(recipe, name=None, data_dir=None).name == f"test-4-b32{end}"
    assert new_request(recipe, name="mine", data_dir=None).name == "mine"
    merged = merge_overrides({"training.backend": "torch"}, backend=backend)
    assert merged == {"training.backend": backend}


def test_the_data_folder_is_made_absolute_since_another_process_reads_it(in_tmp_path: Path) -> None:
    request = new_request(build_recipe(), name=None, data_dir=Path("data"))
    assert request.data_dir == str(in_tmp_path / "data")


def killed_run(epochs: int, **fields: Any) -> RunResult:
    request = build_request(recipe=build_recipe(training={"epochs": 9}))
    done = tuple(build_epoch(epoch=number) for number in range(1, epochs + 1))
    return build_result(
        **{"request": request, "epochs": done, "exit": RunExit(status="KILLED")} | fields
    )


def resumed_run(folder: Path, before: int, epochs: int, **fields: Any) -> RunResult:
    """Returns a run that went on from the checkpoint of an epoch of its predecessor."""
    result = killed_run(epochs, **fields)
    checkpoint = folder / f"epoch_{before:06}.npz"
    checkpoint.touch()
    point = ResumePoint(run_id="b" * 12, checkpoint=str(checkpoint), epochs=result.epochs[:before])
    return dataclasses.replace(result, request=dataclasses.replace(result.request, resume=point))


def resume(folder: Path, previous: RunResult, *checkpoints: int) -> RunRequest:
    journal = folder / "run.jsonl"
    (files_folder(journal) / "checkpoints").mkdir(parents=True)
    for epoch in checkpoints:
        (files_folder(journal) / f"checkpoints/epoch_{epoch:06}.npz").touch()
    return resumed_request(previous, journal, overrides={}, name=None, data_dir=None)


def test_goes_on_from_the_newest_checkpoint_that_the_journal_reaches(tmp_path: Path) -> None:
    # A machine that loses power may have lost the journal's last lines.
    point = resume(tmp_path, killed_run(5), 2, 4, 6).resume
    assert (Path(point.checkpoint).name, len(point.epochs)) == ("epoch_000004.npz", 4)


def test_a_resumed_run_without_a_checkpoint_of_its_own_goes_on_from_its_predecessor_s(
    tmp_path: Path,
) -> None:
    previous = resumed_run(tmp_path, before=3, epochs=4)
    for epoch in (2, 4):
        (tmp_path / f"epoch_{epoch:06}.npz").touch()
    assert resume(tmp_path / "first", previous).resume == previous.request.resume
    (tmp_path / "epoch_000003.npz").unlink()  # since it was damaged
    point = resume(tmp_path / "second", previous).resume
    assert point.checkpoint == str(tmp_path / "epoch_000002.npz")
    assert (point.run_id, len(point.epochs)) == ("b" * 12, 2)


def test_a_run_without_a_checkpoint_that_it_reached_does_not_go_on(tmp_path: Path) -> None:
    with pytest.raises(
        RecipeError,
        match=r"journal ends before the checkpoint .*epoch_000006\.npz.*Start a new run",
    ):
        resume(tmp_path / "late", killed_run(5), 6)
    gone = resumed_run(
        tmp_path, before=3, epochs=8, checkpoint_epoch=8
    )  # which does not fall back to its predecessor's
    with pytest.raises(
        UnknownNameError, match=r"no checkpoint to resume from.*`tfbench export` leaves checkpoints"
    ):
        resume(tmp_path / "gone", gone)


def test_what_is_expected_may_change_and_what_is_trained_may_not(tmp_path: Path) -> None:
    previous = resumed_run(tmp_path, before=3, epochs=4)
    overrides = {"expect.target_accuracy": 0.9, "expect.val_accuracy_at_epoch": {"9": [0.8, 1.0]}}
    recipe = resumed_request(
        previous, tmp_path / "x", overrides=overrides, name=None, data_dir=None
    ).recipe
    assert (recipe.expect.target_accuracy, recipe.expect.val_accuracy_at_epoch) == (
        0.9,
        {"9": (0.8, 1.0)},
    )
    with pytest.raises(
        RecipeError,
        match=r"training\.seed: cannot change on resume\. These can: training\.epochs, ",
    ):
        resumed_request(
            previous, tmp_path / "x", overrides={"training.seed": 1}, name=None, data_dir=None
        )


def test_a_run_that_goes_on_is_no_repeat_of_the_group_of_its_predecessor(tmp_path: Path) -> None:
    previous = resumed_run(tmp_path, before=3, epochs=4)
    request = dataclasses.replace(
        previous.request, tags={"mine": "1"} | dict.fromkeys(SERIES_TAGS, "x")
    )
    tags = resume(tmp_path, dataclasses.replace(previous, request=request)).tags
    assert tags == {"mine": "1", "tfbench.resumed_from": request.run_id}
