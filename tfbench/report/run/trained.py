"""What the console shows of a trained model beyond its epochs: evaluations, predictions, heads, and how to go on."""

import math
import textwrap
from pathlib import Path

from tfbench.recipe.sections import TrainingConfig
from tfbench.records.run import EpochRecord, RunResult
from tfbench.report.formats import format_number, format_time
from tfbench.report.run.tables import SYNTHETIC
from tfbench.wording import DEFAULT_STORE, command_line

_ROW_INDENT = " " * 7  # under the epoch's number


def head_lines(result: RunResult, width: int) -> list[str]:
    """Returns what a double softmax does to the losses that follow; nothing without one."""
    num_outputs = result.model.num_outputs if result.model else None
    texts = describe_heads(result.request.recipe.training, num_outputs) if num_outputs else []
    return [line for text in texts for line in textwrap.wrap(text, width, break_on_hyphens=False)]


def describe_heads(training: TrainingConfig, num_outputs: int) -> list[str]:
    """Returns between which values a double softmax keeps the losses of so many outputs; nothing without one."""
    if "double_softmax" not in (training.head, training.validation_head):
        return []
    high = math.log(num_outputs - 1 + math.e)
    if training.head == training.validation_head:
        where, which = "all losses", "training.head and training.validation_head"
    elif training.head == "double_softmax":
        where, which = "loss", "training.head"
    else:
        where, which = "val_loss and losses in inference mode", "training.validation_head"
    lines = [
        f"{where}: softmax applied twice ({which} = double_softmax), so between {high - 1:.3f} and {high:.3f} "
        f"for {num_outputs} outputs"
    ]
    if training.head != training.validation_head:
        lines.append("loss and val_loss are not on one scale: compare accuracies")
    return lines


def inference_line(record: EpochRecord) -> str | None:
    """Returns what the training samples gave in inference mode after an epoch; None where that was not evaluated."""
    if record.inference_seconds is None:
        return None
    figures = [f"loss {format_number(record.inference_loss)}"]
    if record.inference_accuracy is not None:
        figures.append(f"accuracy {format_number(record.inference_accuracy)}")
    seconds = format_time(record.inference_seconds)
    return f"{_ROW_INDENT}training samples in inference mode: {', '.join(figures)} ({seconds})"


def evaluation_lines(result: RunResult) -> list[str]:
    """Returns the evaluations after the training, each with its samples; nothing without any."""
    mark = f"{SYNTHETIC} " if result.is_synthetic else ""
    names = {"test": "test split", "multiview": "multi-view"}
    return [
        f"  {names[found.name]:12}  {mark}loss {format_number(found.loss)}, accuracy {format_number(found.accuracy)} "
        f"({found.num_samples:,} samples in {format_time(found.seconds)})"
        for found in result.evaluations
    ]


def prediction_lines(result: RunResult) -> list[str]:
    """Returns labels beside predictions, and the accuracy of each class, as far as the recipe asked for them."""
    predictions = result.predictions
    if predictions is None:
        return []
    lines = []
    mark = f" {SYNTHETIC}" if result.is_synthetic else ""
    if labels := predictions.first_labels:
        width = max(len(str(number)) for number in (*labels, *predictions.first_predictions))
        lines += [
            f"First {len(labels)} validation samples{mark}",
            "  label       " + " ".join(f"{number:{width}}" for number in labels),
            "  prediction  " + " ".join(f"{number:{width}}" for number in predictions.first_predictions),
        ]
    if counts := predictions.class_samples:
        lines += ["Validation accuracy of each class" + mark]
        for index, (correct, samples) in enumerate(zip(predictions.class_correct, counts, strict=True)):
            share = f"{correct / samples:.4f}" if samples else "-"
            lines.append(f"  class {index:<5}  {share}  ({correct:,}/{samples:,})")
        correct, samples = sum(predictions.class_correct), sum(counts)
        lines.append(f"  all          {100 * correct / samples:.4f} % ({correct:,}/{samples:,})")
    return lines


def resume_line(result: RunResult, store: Path | str = DEFAULT_STORE) -> str | None:
    """Returns how to go on with a run that ended before its epochs were done; None if it cannot be gone on with."""
    resume = result.request.resume
    done = result.snapshot_epoch or (len(resume.epochs) if resume else None)  # before one of its own, its predecessor's
    if done is None or result.status == "RUNNING" or (result.status == "FINISHED" and not result.stop_reason):
        return None
    command = command_line("run", "--resume", result.request.run_id, store=store)
    return f"Go on from epoch {done + 1}: {command}"
