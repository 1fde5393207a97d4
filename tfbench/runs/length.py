"""How long a run takes: guessed before its first step, and what is left once it trains."""

import math

from tfbench.runs.observer import TrainingProgress
from tfbench.runs.record import RunResult
from tfbench.runs.spans import expect_warmup_steps
from tfbench.show.formats import format_guess, format_time
from tfbench.tags import DRY_RUN_TAG
from tfbench.wording import command_line

_SECONDS = 60.0  # of a run that is advised
_TOO_LONG_STEP = 5.0  # seconds, beyond which a smaller batch is advised
_FIRST_STEP_SECONDS = 2.0  # between two looks at the first step
_LONG_STEP = 1.0  # seconds, from which on a guess tells more than the first step alone
# What a step takes, as parts of its guess, which assumes 0.35 of the measured peak: at least with
# all of the peak, at most with 0.2, the least that networks of convolutions were seen to reach.
_LEAST_OF_GUESS = 0.35
_MOST_OF_GUESS = 0.35 / 0.2


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
    if step_seconds > _TOO_LONG_STEP and smaller < batch_size:
        sentences.append(f"Steps of about a second: --global-batch-size {smaller}.")
    return " ".join(sentences)


class RunProgress:
    """Turns the last step done into what a progress bar shows.

    Args:
        result: Says how long the run is to be.
        started_at: In seconds since 1970.
    """

    def __init__(self, result: RunResult, started_at: float) -> None:
        recipe = result.request.recipe
        self._started_at = started_at
        self._steps_per_epoch = result.steps_per_epoch or 1
        self._epochs_before = len(result.epochs)  # of the run that this one goes on from
        self._total_steps: int | None = None
        measurement = recipe.measurement
        if not measurement.is_limited:
            num_epochs = recipe.training.epochs - self._epochs_before
            self._total_steps = self._steps_per_epoch * num_epochs
        self._measurement = measurement
        # Seconds of a step; None where it is so short that the second one soon tells.
        self._long_guess: float | None = None
        if result.step_guess and result.step_guess >= _LONG_STEP:
            self._long_guess = result.step_guess
        # Step and time before which the model was being compiled.
        self._first: tuple[int, float] | None = None
        # Seconds of the first step; a profile says itself what it is at.
        self._next_told = math.inf if result.request.profile else 0.0

    def first_step_seconds(self, time_: float) -> float | None:
        """Returns how long the first step has been under way; None: it is over, or was just told.

        Args:
            time_: In seconds since 1970.
        """
        seconds = time_ - self._started_at
        if self._first or seconds < self._next_told:
            return None
        self._next_told = seconds + _FIRST_STEP_SECONDS
        return seconds

    def advance(self, epoch: int, step: int, *, time_: float) -> TrainingProgress:
        """Returns where the run is.

        Args:
            epoch: Of the last step done, counted with those of the run's predecessor.
            step: That step, counted within the run.
            time_: When it was done, in seconds since 1970.
        """
        self._first = self._first or (step, time_)
        first_step, first_time = self._first
        rate = None
        step_seconds = None
        if step > first_step and time_ > first_time:
            rate = (step - first_step) / (time_ - first_time)
            step_seconds = 1 / rate
        elif self._long_guess:
            first_seconds = (time_ - self._started_at) / step
            step_seconds = _guess_after_first(self._long_guess, first_seconds)
        warmup_steps = self._measurement.warmup_steps
        if step_seconds:
            warmup_steps = expect_warmup_steps(self._measurement, step_seconds)
        total_steps = self._total_steps
        if self._measurement.steps:
            total_steps = warmup_steps + self._measurement.steps
        left = []
        if total_steps and step_seconds:
            left.append(max(0.0, (total_steps - step) * step_seconds))
        if self._measurement.seconds:
            length = self._measurement.seconds
            if step_seconds:
                length = warmup_steps * step_seconds + max(length, step_seconds)
            left.append(max(0.0, length - (time_ - self._started_at)))
        step_in_epoch = step - (epoch - 1 - self._epochs_before) * self._steps_per_epoch
        return TrainingProgress(
            step=step,
            total_steps=total_steps,
            epoch=epoch,
            step_in_epoch=min(step_in_epoch, self._steps_per_epoch),
            steps_per_epoch=self._steps_per_epoch,
            steps_per_second=rate,
            seconds_left=min(left, default=None),
        )


def _guess_after_first(guess: float, first_seconds: float) -> float:
    """Returns the seconds of a step, guessed again once the first one is done.

    A step takes at least its operations at the peak, and no longer than the first one, which is
    traced and compiled besides, in some networks for twenty times as long as a step. The middle of
    the two, as of ratios, is at most a factor of 2.2 off if both hold.
    """
    most = min(first_seconds, guess * _MOST_OF_GUESS)
    least = min(most, guess * _LEAST_OF_GUESS)
    return math.sqrt(least * most)
