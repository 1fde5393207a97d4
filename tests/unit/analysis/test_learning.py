"""What a network is expected to learn: targets that are timed, and mistakes in a recipe's expectations."""

import tomllib
from pathlib import Path
from typing import Any

import pytest

from builders import build_epoch, build_recipe, build_request, build_result
from tfbench.analysis.run.summary import summarize_run
from tfbench.errors import RecipeError
from tfbench.recipe import files, tables
from tfbench.recipe.sections import ExpectConfig
from tfbench.recipe.toml_text import format_toml
from tfbench.records.journal import read_request, request_fields
from tfbench.records.run import DatasetSummary, EpochRecord, ResumePoint, RunResult

REGRESSION = {"model": {"name": "sine_lstm"}, "dataset": {"name": "sine", "data": "real"}}


def build_epochs(*accuracies: float | None, val_loss: float | None = 0.3) -> tuple[EpochRecord, ...]:
    """Builds epochs that end after 10, 20 ... seconds."""
    return tuple(
        build_epoch(epoch=number, val_accuracy=accuracy, val_loss=val_loss, elapsed_seconds=10.0 * number)
        for number, accuracy in enumerate(accuracies, start=1)
    )


def build_run(
    *accuracies: float | None,
    expect: dict[str, Any],
    val_loss: float | None = 0.3,
    overrides: tuple[str, ...] = (),
    **values: Any,
) -> RunResult:
    recipe = build_recipe(dataset={"data": "real"}, training={"epochs": 3}, expect=expect)
    request = build_request(recipe=recipe, overrides=overrides)
    return build_result(**{"request": request, "epochs": build_epochs(*accuracies, val_loss=val_loss)} | values)


def seconds_to(result: RunResult) -> float | None:
    return summarize_run(result).metrics.get("time_to_accuracy_seconds")


def test_the_time_to_an_accuracy_is_that_of_the_first_epoch_that_reached_it() -> None:
    run = build_run(0.6, 0.8, 0.7, expect={"target_accuracy": 0.75})
    assert seconds_to(run) == 20.0
    assert seconds_to(build_run(None, 0.7, 0.74, expect={"target_accuracy": 0.75})) is None
    assert seconds_to(build_run(0.9, expect={})) is None
    data = DatasetSummary(name="mnist", source="seed 0", synthetic=True, train_samples=640, validation_samples=100)
    assert seconds_to(build_run(0.9, expect={"target_accuracy": 0.05}, dataset=data)) is None


def test_an_accuracy_that_differs_by_its_rounding_to_float32_reached_the_target() -> None:
    assert seconds_to(build_run(0.9836999773979187, expect={"target_accuracy": 0.9837})) == 10.0


def test_the_time_to_an_accuracy_counts_the_runs_before() -> None:
    run = build_run(0.6, 0.8, expect={"target_accuracy": 0.75})
    resume = ResumePoint(run_id="b" * 12, snapshot="epoch_000001.npz", epochs=run.epochs[:1])
    resumed = build_run(
        expect={"target_accuracy": 0.75},
        request=build_request(recipe=run.request.recipe, resume=resume),
        epochs=run.epochs,
    )
    assert seconds_to(resumed) == 20.0


# Recipes


def refuse(**sections: Any) -> list[str]:
    with pytest.raises(RecipeError) as caught:
        build_recipe(**sections)
    return [line.removeprefix("test: ") for line in str(caught.value).splitlines()]


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("val_accuracy_at_epoch", {"x": [0, 1]}, ".x: must be the number of an epoch, from 1 on. Received: 'x'."),
        ("val_loss_at_epoch", {"1.5": [0, 1]}, ".1.5: must be the number of an epoch, from 1 on. Received: '1.5'."),
        ("val_accuracy_at_epoch", {"1": [0.9, 0.8]}, ".1: must be [lowest, highest]. Received: [0.9, 0.8]."),
        ("val_accuracy_at_epoch", {"1": [0.5, 97]}, ".1.1: must be less than or equal to 1. Received: 97."),
        ("val_accuracy_at_epoch", {"1": [-0.1, 1]}, ".1.0: must be greater than or equal to 0. Received: -0.1."),
        ("val_loss_at_epoch", {"1": [0, float("inf")]}, ".1.1: must be a finite number. Received: inf."),
        ("val_accuracy_at_epoch", {"1": 0.5}, ".1: must be [lowest, highest]. Received: 0.5."),
        ("val_accuracy_at_epoch", {"1": [0.1, 0.2, 0.3]}, ".1: must be [lowest, highest]. Received: [0.1, 0.2, 0.3]."),
        ("val_accuracy_at_epoch", 0.9, ": must be a table. Received: 0.9."),
        ("target_accuracy", 0, ": must be greater than 0. Received: 0."),
        ("target_accuracy", 98, ": must be less than or equal to 1. Received: 98."),
        ("val_accuracy_at_epochs", 1, ": unknown key. Did you mean 'val_accuracy_at_epoch'? Known keys: "),
    ],
)
def test_refuses_a_wrong_expectation(key: str, value: object, message: str) -> None:
    (problem,) = refuse(expect={key: value})
    assert problem.startswith(f"expect.{key}{message}")


def test_refuses_a_band_at_an_epoch_that_the_recipe_does_not_train() -> None:
    assert refuse(training={"epochs": 3}, expect={"val_loss_at_epoch": {"3": [0, 1], "12": [0, 1]}}) == [
        "expect.val_loss_at_epoch.12: must be of an epoch that is trained, 3 at most (training.epochs). Received: 12."
    ]


def test_refuses_an_accuracy_where_there_is_none() -> None:
    training = {"loss": "mean_squared_error", "global_batch_size": 10}
    bands = {"val_accuracy_at_epoch": {"1": [0, 1]}, "val_loss_at_epoch": {"1": [0, 1]}, "target_accuracy": 0.5}
    remedy = 'since there is no accuracy with training.loss = "mean_squared_error". Leave it out, or expect a'
    assert refuse(**REGRESSION, training=training, expect=bands) == [
        f"expect.val_accuracy_at_epoch: cannot be met, {remedy} val_loss_at_epoch.",
        f"expect.target_accuracy: cannot be met, {remedy} val_loss_at_epoch.",
    ]


MINE = """
[recipe]
title = "Mine"
source = "me"
[model]
name = "mlp"
[dataset]
name = "mnist"
[training]
global_batch_size = 32
epochs = 12
[expect]
target_accuracy = 0.8
val_accuracy_at_epoch = { 2 = [0.5, 0.7], 12 = [0.8, 1] }
val_loss_at_epoch.12 = [0, 0.5]
"""


def load(folder: Path, overrides: dict[str, Any] | None = None) -> tables.Recipe:
    path = folder / "mine.toml"
    path.write_text(MINE, encoding="utf-8")
    return files.load_recipe(path, overrides)


def test_expectations_are_read(tmp_path: Path) -> None:
    expect = load(tmp_path).expect
    assert expect.val_accuracy_at_epoch == {"2": (0.5, 0.7), "12": (0.8, 1.0)}
    assert expect.val_loss_at_epoch == {"12": (0.0, 0.5)}
    assert expect.target_accuracy == 0.8
    assert build_recipe().expect == ExpectConfig(val_accuracy_at_epoch={}, val_loss_at_epoch={}, target_accuracy=None)


def test_fewer_epochs_on_the_command_line_leave_the_bands_of_later_ones_out(tmp_path: Path) -> None:
    expect = load(tmp_path, {"training.epochs": 3}).expect
    assert expect == ExpectConfig(val_accuracy_at_epoch={"2": (0.5, 0.7)}, target_accuracy=0.8)
    assert load(tmp_path, {"training.epochs": 12}).expect == load(tmp_path).expect


def test_a_loss_without_accuracy_on_the_command_line_leaves_accuracies_out(tmp_path: Path) -> None:
    overrides = {
        "model.name": "sine_lstm",
        "dataset.name": "sine",
        "training.loss": "mean_squared_error",
        "training.global_batch_size": 10,
    }
    assert load(tmp_path, overrides).expect == ExpectConfig(val_loss_at_epoch={"12": (0.0, 0.5)})


def test_another_override_leaves_a_mistake_of_the_file_where_it_is(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(MINE.replace("epochs = 12", "epochs = 11"), encoding="utf-8")
    with pytest.raises(RecipeError) as caught:
        files.load_recipe(path, {"training.seed": 1})
    assert [line.partition("mine.toml: ")[2].partition(":")[0] for line in str(caught.value).splitlines()] == [
        "expect.val_accuracy_at_epoch.12",
        "expect.val_loss_at_epoch.12",
    ]


@pytest.mark.parametrize("overrides", [{}, {"training.epochs": 3}])
def test_a_recipe_as_resolved_is_a_recipe_again(tmp_path: Path, overrides: dict[str, Any]) -> None:
    recipe = load(tmp_path, overrides)
    text = format_toml(tables.to_tables(recipe))
    (tmp_path / "again").mkdir()
    again = tmp_path / "again/mine.toml"
    again.write_text(text, encoding="utf-8")
    assert files.load_recipe(again) == recipe
    assert tomllib.loads(text)["expect"]["val_accuracy_at_epoch"]["2"] == [0.5, 0.7]


@pytest.mark.parametrize("overrides", [{}, {"training.epochs": 3}])
def test_a_journal_gives_the_expectations_back(tmp_path: Path, overrides: dict[str, Any]) -> None:
    request = build_request(recipe=load(tmp_path, overrides), overrides=tuple(overrides))
    assert read_request(request_fields(request)) == request
