"""When a run ends before its epochs are done."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from builders import build_epoch, build_recipe
from prepared import build_prepared
from tfbench.measure.training import end_epoch
from tfbench.recipe.sections import TrainingConfig
from tfbench.runs.early_stop import find_stop_reason

IN_INFERENCE = {"inference_loss": 0.2, "inference_seconds": 1.0}
TARGET = "stop_at_val_accuracy"
CHANGE = "stop_below_error_change"


@pytest.mark.parametrize(
    ("training", "epochs", "reason"),
    [
        ({}, [{}, {"val_accuracy": 1.0}], ""),
        ({TARGET: 0.75}, [{"val_accuracy": 0.7499}], ""),
        (
            {TARGET: 0.75},
            [{"val_accuracy": 0.75}],
            "val_accuracy 0.7500 reached training.stop_at_val_accuracy = 0.75",
        ),
        ({TARGET: 0.75}, [{"val_accuracy": None}], ""),
        (
            {TARGET: 0.9837},
            [{"val_accuracy": 0.9836999773979187}],
            "val_accuracy 0.9837",
        ),  # rounded to float32
        ({CHANGE: 0.001}, [{"loss": 0.5}, {"loss": 0.51}], ""),
        (
            {CHANGE: 0.001},
            [{"loss": 0.5}, {"loss": 0.5005}],
            "the training error changed by 0.0005 from epoch",
        ),
        ({CHANGE: 0.001}, [{"loss": 0.5}, {"loss": None}], ""),
        ({CHANGE: 1.0}, [{"loss": 0.5}], ""),
        # The error in inference mode counts where it was evaluated.
        (
            {CHANGE: 1e-8},
            [{"loss": 0.5} | IN_INFERENCE, {"loss": 0.3} | IN_INFERENCE],
            "the training error changed by",
        ),
        (
            {CHANGE: 1e-8},
            [{"loss": 0.5} | IN_INFERENCE, {"loss": 0.5} | IN_INFERENCE | {"inference_loss": 0.1}],
            "",
        ),
    ],
)
def test_training_ends_where_what_was_asked_for_is_reached(
    training: dict[str, float], epochs: list[dict[str, float | None]], reason: str
) -> None:
    config = TrainingConfig(global_batch_size=8, epochs=10, **training)
    records = [build_epoch(epoch=number, **fields) for number, fields in enumerate(epochs, start=1)]
    found = find_stop_reason(config, records) or ""
    assert found.startswith(reason) and bool(found) == bool(reason)


def test_a_run_limited_by_steps_ends_by_these_alone(tmp_path: Path) -> None:
    sections = {"training": {CHANGE: 0.5}, "output": {"checkpoint_every_epochs": 1}}
    recipes = {
        "whole": build_recipe(**sections),
        "limited": build_recipe(measurement={"steps": 50}, **sections),
    }
    empty = {"trainable_variables": [], "non_trainable_variables": [], "layers": []}
    stops = {}
    for name, tried in recipes.items():
        model = SimpleNamespace(**empty, optimizer=SimpleNamespace(variables=[]))
        prepared = build_prepared(tmp_path / name, tried, model=model)
        epochs = []
        stops[name] = [end_epoch(prepared, epochs, build_epoch(epoch=number)) for number in (1, 2)]
        prepared.journal.close()
        assert (tmp_path / name / "run.files").exists() == (name == "whole")
    assert stops == {"whole": [False, True], "limited": [False, False]}
