"""What a network is expected to learn: targets that are timed, and mistakes in a recipe's expectations."""

from pathlib import Path
from typing import Any

import pytest

from builders import build_epoch, build_recipe, build_request, build_result
from tfbench.analysis.run.summary import summarize_run
from tfbench.errors import RecipeError
from tfbench.recipe import files, tables
from tfbench.recipe.toml_text import format_toml
from tfbench.records.journal import read_request, request_fields
from tfbench.records.run import DatasetSummary, ResumePoint, RunResult


def build_run(*accuracies: float | None, before: int = 0, synthetic: bool = False, **expect: float) -> RunResult:
    """Builds a run whose epochs end after 10, 20 ... seconds, the first of which may be those of a run before."""
    epochs = tuple(
        build_epoch(epoch=number, val_accuracy=accuracy, elapsed_seconds=10.0 * number)
        for number, accuracy in enumerate(accuracies, start=1)
    )
    recipe = build_recipe(dataset={"data": "real"}, training={"epochs": 3}, expect=expect)
    resume = ResumePoint(run_id="b" * 12, checkpoint="epoch_000001.npz", epochs=epochs[:before]) if before else None
    source = "seed 0" if synthetic else "files"
    data = DatasetSummary(name="mnist", source=source, synthetic=synthetic, train_samples=640, validation_samples=100)
    return build_result(request=build_request(recipe=recipe, resume=resume), epochs=epochs, dataset=data)


@pytest.mark.parametrize(
    ("run", "seconds"),
    [
        (build_run(0.6, 0.8, 0.7, target_accuracy=0.75), 20.0),
        (build_run(None, 0.7, 0.74, target_accuracy=0.75), None),
        (build_run(0.9), None),
        (build_run(0.9, target_accuracy=0.05, synthetic=True), None),
        (build_run(0.9836999773979187, target_accuracy=0.9837), 10.0),  # 0.9837, rounded to float32
        (build_run(0.6, 0.8, target_accuracy=0.75, before=1), 20.0),  # with the time of the run before
    ],
)
def test_the_time_to_an_accuracy_is_that_of_the_first_epoch_that_reached_it(
    run: RunResult, seconds: float | None
) -> None:
    assert summarize_run(run).metrics.get("time_to_accuracy_seconds") == seconds


# Recipes


def reject(**sections: Any) -> list[str]:
    with pytest.raises(RecipeError) as caught:
        build_recipe(**sections)
    return [line.removeprefix("test: ") for line in str(caught.value).splitlines()]


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("val_accuracy_at_epoch", {"x": [0, 1]}, ".x: must match pattern"),
        ("val_accuracy_at_epoch", {"1": [0.9, 0.8]}, ".1: must be [lowest, highest]. Received: [0.9, 0.8]."),
        ("val_accuracy_at_epoch", {"1": [0.5, 97]}, ".1.1: must be less than or equal to 1. Received: 97."),
        ("val_accuracy_at_epoch", {"1": 0.5}, ".1: must be a list. Received: 0.5."),
        ("target_accuracy", 98, ": must be less than or equal to 1. Received: 98."),
    ],
)
def test_rejects_a_wrong_expectation(key: str, value: object, message: str) -> None:
    (problem,) = reject(expect={key: value})
    assert problem.startswith(f"expect.{key}{message}")


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


@pytest.mark.parametrize("overrides", [{}, {"training.epochs": 3}])
def test_a_recipe_as_resolved_is_a_recipe_again_and_a_journal_gives_it_back(
    tmp_path: Path, overrides: dict[str, Any]
) -> None:
    recipe = load(tmp_path, overrides)
    (tmp_path / "again").mkdir()
    again = tmp_path / "again/mine.toml"
    again.write_text(format_toml(tables.to_tables(recipe)), encoding="utf-8")
    assert files.load_recipe(again) == recipe
    assert recipe.expect.val_accuracy_at_epoch["2"] == (0.5, 0.7)
    request = build_request(recipe=recipe, overrides=tuple(overrides))
    assert read_request(request_fields(request)) == request
