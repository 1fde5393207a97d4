"""What a network is expected to learn.

Targets that are timed, and mistakes in a recipe's expectations.
"""

import pytest

from builders import build_dataset, build_epoch, build_recipe, build_request, build_result
from tfbench.errors import RecipeError
from tfbench.runs.record import ResumePoint, RunResult
from tfbench.runs.summary import summarize_run


def build_run(
    *accuracies: float | None, before: int = 0, synthetic: bool = False, **expect: float
) -> RunResult:
    """Builds a run whose epochs end after 10, 20 ... seconds.

    The first `before` of them are those of an earlier run.
    """
    epochs = tuple(
        build_epoch(epoch=number, val_accuracy=accuracy, elapsed_seconds=10.0 * number)
        for number, accuracy in enumerate(accuracies, start=1)
    )
    recipe = build_recipe(dataset={"data": "real"}, training={"epochs": 3}, expect=expect)
    resume = (
        ResumePoint(run_id="b" * 12, checkpoint="epoch_000001.npz", epochs=epochs[:before])
        if before
        else None
    )
    return build_result(
        request=build_request(recipe=recipe, resume=resume),
        epochs=epochs,
        dataset=build_dataset(synthetic=synthetic),
    )


@pytest.mark.parametrize(
    ("run", "seconds"),
    [
        (build_run(0.6, 0.8, 0.7, target_accuracy=0.75), 20.0),
        (build_run(None, 0.7, 0.74, target_accuracy=0.75), None),
        (build_run(0.9), None),
        (build_run(0.9, target_accuracy=0.05, synthetic=True), None),
        (build_run(0.9836999773979187, target_accuracy=0.9837), 10.0),  # 0.9837, rounded to float32
        (
            build_run(0.6, 0.8, target_accuracy=0.75, before=1),
            20.0,
        ),  # with the time of the run before
    ],
)
def test_the_time_to_an_accuracy_is_that_of_the_first_epoch_that_reached_it(
    run: RunResult, seconds: float | None
) -> None:
    assert summarize_run(run).metrics.get("time_to_accuracy_seconds") == seconds


@pytest.mark.parametrize("band", [[0.9, 0.8], [0.5, 97], 0.5])
def test_a_band_that_is_none_is_rejected(band: object) -> None:
    with pytest.raises(RecipeError, match=r"expect\.val_accuracy_at_epoch\.1"):
        build_recipe(expect={"val_accuracy_at_epoch": {"1": band}})
