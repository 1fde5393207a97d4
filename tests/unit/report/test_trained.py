"""What the console shows of a trained model beyond its epochs, word by word."""

from typing import Any

import pytest

from builders import build_epoch, build_recipe, build_request, build_result
from tfbench.records.run import (
    Evaluation,
    ModelSummary,
    Predictions,
    ResumePoint,
    RunExit,
    RunResult,
)
from tfbench.report.run import trained

FINISHED = RunExit(status="FINISHED")
KILLED = RunExit(status="KILLED", reason="interrupted by SIGINT")


def build_run(num_outputs: int = 10, *, training: dict[str, Any] | None = None, **fields: Any) -> RunResult:
    recipe = build_recipe(training=training or {}, dataset={"data": "real"})
    model = ModelSummary(num_parameters=5, num_trainable_parameters=5, num_outputs=num_outputs)
    return build_result(**{"request": build_request(recipe=recipe), "model": model} | fields)


@pytest.mark.parametrize(
    ("heads", "num_outputs", "lines"),
    [
        ({}, 10, []),
        (
            {"head": "double_softmax", "validation_head": "double_softmax"},
            10,
            [
                "all losses: softmax applied twice (training.head and training.validation_head = double_softmax), "
                "so between 1.461 and 2.461 for 10 outputs"
            ],
        ),
        (
            {"validation_head": "double_softmax"},
            1000,  # log(999 + e) = 6.9095
            [
                "val_loss and losses in inference mode: softmax applied twice (training.validation_head = "
                "double_softmax), so between 5.909 and 6.909 for 1000 outputs",
                "loss and val_loss are not on one scale: compare accuracies",
            ],
        ),
        (
            {"head": "double_softmax"},
            10,
            [
                "loss: softmax applied twice (training.head = double_softmax), "
                "so between 1.461 and 2.461 for 10 outputs",
                "loss and val_loss are not on one scale: compare accuracies",
            ],
        ),
    ],
)
def test_says_what_a_double_softmax_does_to_the_losses(
    heads: dict[str, str], num_outputs: int, lines: list[str]
) -> None:
    assert trained.head_lines(build_run(num_outputs, training=heads), 200) == lines


def test_remarks_on_heads_fit_a_narrow_terminal() -> None:
    lines = trained.head_lines(build_run(training={"validation_head": "double_softmax"}), 80)
    assert len(lines) == 4
    assert max(map(len, lines)) <= 80


def test_shows_what_the_training_samples_gave_in_inference_mode() -> None:
    record = build_epoch(inference_loss=0.125, inference_accuracy=0.96875, inference_seconds=0.5)
    assert trained.inference_line(record) == (
        "       training samples in inference mode: loss 0.125, accuracy 0.96875 (500 ms)"
    )
    of_regression = build_epoch(inference_loss=0.125, inference_seconds=2.0)
    assert trained.inference_line(of_regression) == "       training samples in inference mode: loss 0.125 (2 s)"
    assert trained.inference_line(build_epoch()) is None


def test_shows_each_evaluation_with_its_samples() -> None:
    evaluations = (
        Evaluation(name="test", num_samples=26_032, seconds=2.0, loss=0.5, accuracy=0.875),
        Evaluation(name="multiview", num_samples=10_000, seconds=0.25, loss=None, accuracy=0.75),
    )
    assert trained.evaluation_lines(build_run(evaluations=evaluations)) == [
        "  test split    loss 0.5, accuracy 0.875 (26,032 samples in 2 s)",
        "  multi-view    loss -, accuracy 0.75 (10,000 samples in 250 ms)",
    ]


def test_shows_labels_beside_predictions_and_the_accuracy_of_each_class() -> None:
    predictions = Predictions(
        first_labels=(7, 10, 1), first_predictions=(7, 10, 2), class_samples=(4, 0, 1_000), class_correct=(3, 0, 900)
    )
    assert trained.prediction_lines(build_run(predictions=predictions)) == [
        "First 3 validation samples",
        "  label        7 10  1",
        "  prediction   7 10  2",
        "Validation accuracy of each class",
        "  class 0      0.7500  (3/4)",
        "  class 1      -  (0/0)",
        "  class 2      0.9000  (900/1,000)",
        "  all          89.9402 % (903/1,004)",
    ]
    assert trained.prediction_lines(build_run()) == []


def test_says_how_to_go_on_only_where_there_is_something_left() -> None:
    line = f"Go on from epoch 11: tfbench run --resume {'a' * 32}"
    assert trained.resume_line(build_run(snapshot_epoch=10, exit=KILLED)) == line
    assert trained.resume_line(build_run(snapshot_epoch=10, exit=FINISHED, stop_reason="reached")) == line
    assert trained.resume_line(build_run(snapshot_epoch=10, exit=FINISHED)) is None
    assert trained.resume_line(build_run(exit=KILLED)) is None


def test_a_resumed_run_without_a_snapshot_of_its_own_can_be_gone_on_with() -> None:
    resume = ResumePoint(run_id="b" * 32, snapshot="/x/epoch_000001.npz", epochs=(build_epoch(),))
    run = build_run(request=build_request(resume=resume), exit=KILLED)
    assert trained.resume_line(run) == f"Go on from epoch 2: tfbench run --resume {'a' * 32}"
