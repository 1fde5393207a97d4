"""Times the steps of a training, and waits for the device as seldom as possible."""

import math
import time
from collections.abc import Callable

from tfbench.measure.breakdown import Breakdown
from tfbench.recipe.sections import MeasurementConfig
from tfbench.runs.record import StepSpan

_NS = 1e-9
_LONGEST = 5  # times `min_span_seconds`
_PATIENCE = 1.0  # times `seconds`, that a run goes on for to end with a whole epoch


class SpanClock:
    """Cuts training into spans of steps, each ended by a synchronisation with the device.

    The first execution (tracing, compilation) is a span of its own, and the warm-up ends with a
    span, so that steady time begins at a boundary. After that a span ends once
    `min_span_seconds` have passed: one synchronisation in 50 ms costs nothing, one at every step
    would slow down exactly the small networks.

    A device may be given many steps before it has done the first. How long they will take is known
    from the spans before, so that a span ends as well with the steps that the fastest of them would
    do in five times that time.

    Args:
        config: Clock mode, length of spans, warm-up and limits.
        now: Reads a monotonic clock, in nanoseconds.
        synchronize: Waits until the devices have finished what they were given.
        on_span: Receives each span.
        breakdown: Told which part of the training is under way.
        ask_first: Of several workers, takes a number of each and returns that of the first; None:
            there is but one. A limit of seconds is reached when the first says so, which all ask at
            the same steps: one that ended at another would leave the others waiting for it.
        epoch_steps: Of an epoch that `fit` begins slowly, since it makes an iterator anew. A run
            limited by seconds then ends with whole epochs if that takes at most as long again.
            None: an epoch begins as any other step.
    """

    def __init__(
        self,
        config: MeasurementConfig,
        *,
        synchronize: Callable[[], None],
        on_span: Callable[[StepSpan], None],
        breakdown: Breakdown,
        now: Callable[[], int] = time.perf_counter_ns,
        ask_first: Callable[[float], float] | None = None,
        epoch_steps: int | None = None,
    ) -> None:
        self.config = config
        self.breakdown = breakdown
        self.now = now
        self._is_alone = ask_first is None
        self._ask_first = ask_first if config.seconds is not None else None
        self._next_asked = 0  # step
        self._synchronize = synchronize
        self._on_span = on_span
        self._min_span_ns = config.min_span_seconds / _NS
        self.epoch = 0
        self.step = 0  # last step done, over the whole run
        self._span_first_step = 1
        self._span_start = 0
        self._warmup_seconds = 0.0  # of the steps after the first execution
        self._steady_start: int | None = None
        self._steady_first_step = 0
        self._steady_steps = 0
        self._steady_seconds = 0.0
        self._fastest = 0.0  # steps per second of a span
        self._epoch_steps = epoch_steps
        self._last_step: int | None = None  # once the time is up
        self.epoch_spans: list[StepSpan] = []

    @property
    def is_steady(self) -> bool:
        """Whether the warm-up is over."""
        return self._steady_start is not None

    @property
    def warmup_end(self) -> int | None:
        """The last step of the warm-up; None: it is not over."""
        return self._steady_first_step - 1 if self.is_steady else None

    @property
    def _is_warm(self) -> bool:
        """Whether the warm-up has lasted long enough.

        Not where all workers must agree on when it is over: its steps end it.
        """
        return self._is_alone and self._warmup_seconds >= self.config.warmup_seconds

    @property
    def _is_far_ahead(self) -> bool:
        """Whether the host is far ahead of the device in the open span.

        The device will take very long for the steps that were given out.
        """
        most_steps = self._fastest * _LONGEST * self.config.min_span_seconds
        return 0 < most_steps <= self.step - self._span_first_step + 1

    @property
    def steady_steps_per_second(self) -> float | None:
        """Speed of the steps after the warm-up; None before there are any."""
        return self._steady_steps / self._steady_seconds if self._steady_seconds else None

    def begin_training(self) -> None:
        """Starts the first span, which holds all that `fit` does until its first step is done."""
        self.restart()

    def begin_epoch(self, epoch: int) -> None:
        """Starts the first span of an epoch, counted from 1."""
        self.epoch = epoch
        self.epoch_spans = []
        if self.step > 0:
            self.restart()

    def restart(self) -> None:
        """Restarts the open span.

        What was done since the last one ended is then in no span.
        """
        self.breakdown.switch(self._part)
        self._span_start = self.now()
        self._span_first_step = self.step + 1
        if self._steady_start is not None and self._steady_first_step == self.step + 1:
            self._steady_start = self._span_start

    def end_steps(self, count: int, *, ends_epoch: bool) -> bool:
        """Notes that `count` more steps were dispatched.

        Returns:
            Whether the limit of steps or seconds is reached.
        """
        is_first = self.step == 0
        self.step += count
        time_ns = self.now()
        is_limit = self._reaches_limit(time_ns)
        ask_first = None
        if self._steady_start is not None and self.step >= self._next_asked:
            ask_first = self._ask_first
        in_warmup = self._steady_start is None
        reaches_steady = in_warmup and self.step >= self.config.warmup_steps
        is_long = time_ns - self._span_start >= self._min_span_ns or self._is_far_ahead
        is_due = self.config.clock == "step" or is_long
        if is_first or reaches_steady or ends_epoch or is_limit or is_due or ask_first:
            self._end_span()
            if reaches_steady or (in_warmup and self._is_warm):
                self._steady_start = self._span_start
                self._steady_first_step = self.step + 1
            if ask_first:
                is_limit = self._is_over_for_first(ask_first) or is_limit
                self.restart()
            self.breakdown.switch("callbacks" if ends_epoch or is_limit else self._part)
        return is_limit

    @property
    def _part(self) -> str:
        """The entry of the time breakdown that the open span belongs to."""
        if self.step == 0:
            return "first_step"
        return "warmup" if self._steady_start is None else "steady"

    def _end_span(self) -> None:
        self._synchronize()
        time_ns = self.now()
        span = StepSpan(
            epoch=self.epoch,
            first_step=self._span_first_step,
            last_step=self.step,
            seconds=(time_ns - self._span_start) * _NS,
        )
        if span.first_step > 1:  # the first is not of training alone
            self._fastest = max(self._fastest, span.num_steps / span.seconds)
            self._warmup_seconds += span.seconds
        self._span_start = time_ns
        self._span_first_step = self.step + 1
        if self._steady_start is not None:
            self._steady_steps += span.num_steps
            self._steady_seconds += span.seconds
        self.epoch_spans.append(span)
        self._on_span(span)

    def _reaches_limit(self, time_ns: int) -> bool:
        if self._steady_start is None:
            return False
        steady_steps = self.step - self._steady_first_step + 1
        by_steps = self.config.steps is not None and steady_steps >= self.config.steps
        is_time_up = self._seconds_left(time_ns) <= 0 and steady_steps >= self.config.least_steps
        if is_time_up and self._ask_first is None:
            if self._last_step is None:
                self._last_step = self.step + self._count_steps_to_whole_epochs()
            return by_steps or self.step >= self._last_step
        return by_steps

    def _count_steps_to_whole_epochs(self) -> int:
        """Returns how many more steps make the steady part one of whole epochs.

        0 where that takes long, or an epoch's beginning takes no time.
        """
        if not self._epoch_steps or not self.config.seconds:
            return 0
        steady_steps = self.step - self._steady_first_step + 1
        steps_left = -steady_steps % self._epoch_steps
        # The fastest span tells it: the mean of a few steps may be that of a slow beginning.
        takes_long = steps_left > _PATIENCE * self.config.seconds * self._fastest
        return 0 if takes_long else steps_left

    def _seconds_left(self, time_ns: int) -> float:
        if self._steady_start is None or self.config.seconds is None:
            return math.inf
        return self.config.seconds - (time_ns - self._steady_start) * _NS

    def _is_over_for_first(self, ask_first: Callable[[float], float]) -> bool:
        """Asks the first worker whether its time is over.

        If not, the first worker says after how many steps to ask again.
        """
        seconds_left = self._seconds_left(self._span_start)
        pause = 0
        if seconds_left > 0:
            # Half of the time that is left, at the speed so far: few steps are done too many.
            speed = self.steady_steps_per_second or 0.0
            pause = max(1, int(seconds_left * speed / 2))
        pause = max(pause, self.config.least_steps - self._steady_steps)
        pause = int(ask_first(pause))
        self._next_asked = self.step + pause
        return pause == 0
