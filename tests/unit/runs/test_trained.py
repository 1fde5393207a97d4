"""What the end of a run shows of a trained model beyond its epochs.

It also shows the search for the run's fastest settings.
"""

from typing import Any

import pytest

from builders import build_epoch, build_recipe, build_request, build_result
from kinds import Golden
from tfbench.runs.header import describe_heads, epoch_lines
from tfbench.runs.record import Evaluation, Predictions, ResumePoint, RunExit, RunResult, Summary
from tfbench.runs.run_document import run_document
from tfbench.runs.run_text import resume_command, run_sections
from tfbench.show.table import text
from tfbench.tags import AS_ASKED_TAG, CHANGED_TAG

FINISHED = RunExit(status="FINISHED")
KILLED = RunExit(status="KILLED", reason="interrupted by SIGINT")


def build_run(**fields: Any) -> RunResult:
    return build_result(
        **{"request": build_request(recipe=build_recipe(dataset={"data": "real"}))} | fields
    )


def test_says_which_losses_have_a_second_softmax() -> None:
    losses = {
        (): "",
        ("validation_head",): "val loss and",
        ("head", "validation_head"): "loss, val loss and",
    }
    for heads, begin in losses.items():
        lines = describe_heads(
            build_recipe(training=dict.fromkeys(heads, "double_softmax")).training
        )
        assert len(lines) == bool(heads) and "".join(lines).startswith(begin)


def test_shows_what_the_training_samples_gave_in_inference_mode() -> None:
    record = build_epoch(inference_loss=0.125, inference_accuracy=0.96875, inference_seconds=0.5)
    assert epoch_lines(record, None)[1].endswith("loss 0.125, accuracy 0.96875")
    of_regression = build_epoch(inference_loss=0.125, inference_seconds=2.0)
    assert epoch_lines(of_regression, None)[1].endswith("loss 0.125")
    assert len(epoch_lines(build_epoch(), None)) == 1
    of_text = build_epoch(metrics={"val_bits_per_byte": 2.5})
    assert epoch_lines(of_text, None)[1].strip() == "2.5 bits per byte in validation"


def test_evaluations_and_predictions_are_shown_as_in_the_golden_file(
    golden: Golden,
) -> None:
    evaluations = (
        Evaluation(name="test", num_samples=26_032, seconds=2.0, loss=0.5, accuracy=0.875),
        Evaluation(name="multiview", num_samples=10_000, seconds=0.25, loss=None, accuracy=0.75),
    )
    predictions = Predictions(
        first_labels=(7, 10, 1),
        first_predictions=(7, 10, 2),
        class_samples=(4, 0, 1_000),
        class_correct=(3, 0, 900),
    )
    run = build_run(evaluations=evaluations, predictions=predictions)
    golden("trained.txt", "\n".join(text(run_sections(run, Summary(metrics={})), 80)) + "\n")


def test_says_how_to_resume_only_where_there_is_something_left() -> None:
    line = f"tfbench run --resume {'a' * 32}"
    resume = ResumePoint(run_id="b" * 32, checkpoint="/x/epoch_000001.npz", epochs=(build_epoch(),))
    commands = [
        ({"checkpoint_epoch": 10, "exit": KILLED}, line),
        ({"checkpoint_epoch": 10, "exit": FINISHED, "stop_reason": "reached"}, line),
        ({"checkpoint_epoch": 10, "exit": FINISHED}, ""),
        ({"exit": KILLED}, ""),
        # Before a checkpoint of its own
        ({"exit": KILLED, "request": build_request(resume=resume)}, line),
    ]
    for fields, command in commands:
        assert resume_command(build_run(**fields), "mlruns") == command
    own_code = build_run(request=build_request(allows_code=True), checkpoint_epoch=10, exit=KILLED)
    assert resume_command(own_code, "mlruns") == f"{line} --allow-code"


SPEED = {"samples_per_second": 190_412.0}
SETTINGS = "training.data_on_device=true, training.steps_per_execution=100, training.compiler=graph"


@pytest.mark.parametrize(
    ("changed", "metrics", "line", "speedup"),
    [
        ("data_on_device steps_per_execution compiler", SPEED, SETTINGS, 190_412.0 / 21_284.25),
        ("", SPEED, "no setting is faster", None),
        ("compiler", {}, "training.compiler=graph", None),  # it came to no speed
    ],
)
def test_both_speeds_are_shown_and_what_lies_between_them(
    changed: str, metrics: dict[str, float | None], line: str, speedup: float | None
) -> None:
    recipe = build_recipe(training={"data_on_device": True, "steps_per_execution": 100})
    request = build_request(recipe=recipe, tags={AS_ASKED_TAG: "21284.25", CHANGED_TAG: changed})
    result = build_result(request=request)
    summary = Summary(metrics=metrics)
    shown = "\n".join(text(run_sections(result, summary), 300))
    times = f"{speedup:.2f}x" if speedup else "as fast as"
    assert (
        f"{times} the recipe as it is (21,284 samples/s in one short run, no interval): {line}"
        in shown
    )
    told = run_document(result, summary, None)["fast"]
    assert (told["samples_per_second_as_asked"], told["speedup"]) == (21_284.25, speedup)
    assert list(told["settings"]) == [f"training.{name}" for name in changed.split()]
