"""What a run says of its length before it has done a step."""

import math

from tfbench.runs.record import RunResult
from tfbench.runs.spans import expect_warmup_steps
from tfbench.show.formats import format_guess, format_time
from tfbench.tags import DRY_RUN_TAG
from tfbench.wording import command_line

_SECONDS = 60.0  # of a run that is advised
_LONG_STEP = 5.0  # seconds, beyond which a smaller batch is advised


def guess_seconds(result: RunResult) -> float | None:
    """Returns about how long a run takes; None where nothing is known."""
    step_seconds = result.step_guess
    if step_seconds is None:
        return None
    recipe = result.request.recipe
    measurement = recipe.measurement
    warmup_seconds = expect_warmup_steps(measurement, step_seconds) * step_seconds
    if measurement.seconds:
        return warmup_seconds + max(measurement.seconds, step_seconds)
    if measurement.steps:
        return warmup_seconds + measurement.steps * step_seconds
    num_epochs = recipe.training.epochs - len(result.epochs)
    return num_epochs * (result.steps_per_epoch or 1) * step_seconds


def describe_guess(result: RunResult) -> str:
    """Returns about how long a run takes, and what would be shorter; "" where nothing is known."""
    step_seconds = result.step_guess
    seconds = guess_seconds(result)
    if step_seconds is None or seconds is None:
        return ""
    recipe = result.request.recipe
    sentences = [
        f"It takes {format_guess(seconds)}, roughly: {format_time(step_seconds, 2)} a step,"
        " guessed from its operations."
    ]
    if DRY_RUN_TAG not in result.request.tags:
        sentences.append("The first step will tell more.")
    argv = result.request.argv
    if argv and not recipe.measurement.is_limited and not result.request.resume:
        warmup_seconds = expect_warmup_steps(recipe.measurement, step_seconds) * step_seconds
        alone = format_guess(warmup_seconds + max(_SECONDS, step_seconds))
        words = command_line(*argv, "--seconds", f"{_SECONDS:g}")
        sentences.append(f"Its speed alone, in {alone}: `{words}`.")
    batch_size = recipe.training.global_batch_size
    smaller = 2 ** math.floor(math.log2(max(1.0, batch_size / step_seconds)))
    if step_seconds > _LONG_STEP and smaller < batch_size:
        sentences.append(f"Steps of about a second: --global-batch-size {smaller}.")
    return " ".join(sentences)
