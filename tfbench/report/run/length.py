"""What a run says of its length before it has done a step."""

import math

from tfbench.analysis.run.spans import expect_warmup_steps
from tfbench.records.run import RunResult
from tfbench.report.formats import format_guess, format_time
from tfbench.wording import command_line

_LONG_STEP = 5.0  # seconds, beyond which a smaller batch is advised


def describe_guess(result: RunResult) -> str:
    """Returns about how long a run takes, and what would be shorter; "" where nothing is known."""
    step_seconds = result.step_guess
    if step_seconds is None:
        return ""
    recipe = result.request.recipe
    measurement = recipe.measurement
    warmup_seconds = expect_warmup_steps(measurement, step_seconds) * step_seconds
    if measurement.seconds:
        seconds = warmup_seconds + max(measurement.seconds, step_seconds)
    elif measurement.steps:
        seconds = warmup_seconds + measurement.steps * step_seconds
    else:
        num_epochs = recipe.training.epochs - len(result.epochs)
        seconds = num_epochs * (result.steps_per_epoch or 1) * step_seconds
    sentences = [
        f"It takes {format_guess(seconds)}, roughly: {format_time(step_seconds, 2)} a step,"
        " guessed from its operations. The first step will tell more."
    ]
    argv = result.request.argv
    if argv and not measurement.is_limited and not result.request.resume:
        sentences.append(f"Its speed alone: `{command_line(*argv, '--seconds', '60')}`.")
    batch_size = recipe.training.global_batch_size
    smaller = 2 ** math.floor(math.log2(max(1.0, batch_size / step_seconds)))
    if step_seconds > _LONG_STEP and smaller < batch_size:
        sentences.append(f"Steps of about a second: --global-batch-size {smaller}.")
    return " ".join(sentences)
