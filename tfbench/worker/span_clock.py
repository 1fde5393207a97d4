"""Times the steps of a training: reads the clock, and has the device waited for as seldom as that takes."""

import time
from collections.abc import Callable

from tfbench.recipe.sections import MeasurementConfig
from tfbench.records.run import StepSpan
from tfbench.worker.ledger import Ledger

_NS = 1e-9
_LONGEST = 5  # times `min_span_seconds`


class SpanClock:
    """Cuts training into spans of steps, each ended by a synchronisation with the device.

    The first execution (tracing, compilation) is a span of its own, and so is what else belongs to the warm-up, so that
    steady time begins at a boundary. After that a span ends once `min_span_seconds` have passed: one synchronisation in
    50 ms costs nothing, one at every step would slow down exactly the small networks.

    A device may be given many steps before it has done the first. How long they will take is known from the spans
    before, so that a span ends as well with the steps that the fastest of them would do in five times that time.

    Args:
        config: Clock mode, length of spans, warm-up and limits.
        now: Reads a monotonic clock, in nanoseconds.
        synchronize: Waits until the devices have finished what they were given.
        on_span: Receives each span.
        ledger: Told which part of the training is under way.
    """

    def __init__(
        self,
        config: MeasurementConfig,
        *,
        synchronize: Callable[[], None],
        on_span: Callable[[StepSpan], None],
        ledger: Ledger,
        now: Callable[[], int] = time.perf_counter_ns,
    ) -> None:
        self._config = config
        self._ledger = ledger
        self._now = now
        self._synchronize = synchronize
        self._on_span = on_span
        self._min_span_ns = config.min_span_seconds / _NS
        self._epoch = 0
        self._step = 0  # last step done, over the whole run
        self._span_first_step = 1
        self._span_start = 0
        self._steady_start: int | None = None
        self._steady_first_step = 0
        self._steady_steps = 0
        self._steady_seconds = 0.0
        self._fastest = 0.0  # steps per second of a span
        self.epoch_spans: list[StepSpan] = []

    @property
    def step(self) -> int:
        """Steps done so far."""
        return self._step

    @property
    def _is_far_ahead(self) -> bool:
        """Whether the device will take very long for the steps of the open span that were given out."""
        most_steps = self._fastest * _LONGEST * self._config.min_span_seconds
        return 0 < most_steps <= self._step - self._span_first_step + 1

    @property
    def steady_steps_per_second(self) -> float | None:
        """Speed of the steps after the warm-up; None before there are any."""
        return self._steady_steps / self._steady_seconds if self._steady_seconds else None

    def begin_epoch(self, epoch: int) -> None:
        """Starts the first span of an epoch, counted from 1."""
        self._epoch = epoch
        self.epoch_spans = []
        self.restart()

    def restart(self) -> None:
        """Starts the open span anew, so that what was done since the last one ended is in no span."""
        self._ledger.switch(self._part)
        self._span_start = self._now()
        self._span_first_step = self._step + 1
        if self._steady_start is not None and self._steady_first_step == self._step + 1:
            self._steady_start = self._span_start

    def end_steps(self, count: int, *, ends_epoch: bool) -> bool:
        """Notes that `count` more steps were dispatched.

        Returns:
            Whether the limit of steps or seconds is reached.
        """
        is_first = self._step == 0
        self._step += count
        time_ns = self._now()
        is_limit = self._reaches_limit(time_ns)
        in_warmup = self._steady_start is None
        ends_warmup = in_warmup and self._step >= self._config.warmup_steps
        is_long = time_ns - self._span_start >= self._min_span_ns or self._is_far_ahead
        is_due = self._config.clock == "step" or is_long
        if is_first or ends_warmup or ends_epoch or is_limit or is_due:
            self._end_span()
            if ends_warmup:
                self._steady_start, self._steady_first_step = self._span_start, self._step + 1
            self._ledger.switch("callbacks" if ends_epoch or is_limit else self._part)
        return is_limit

    @property
    def _part(self) -> str:
        """The entry of the ledger that the open span belongs to."""
        if self._step == 0:
            return "first_step"
        return "warmup" if self._steady_start is None else "steady"

    def _end_span(self) -> None:
        self._synchronize()
        time_ns = self._now()
        span = StepSpan(
            epoch=self._epoch,
            first_step=self._span_first_step,
            last_step=self._step,
            seconds=(time_ns - self._span_start) * _NS,
        )
        if span.first_step > 1:  # the first is not of training alone
            self._fastest = max(self._fastest, span.num_steps / span.seconds)
        self._span_start = time_ns
        self._span_first_step = self._step + 1
        if self._steady_start is not None:
            self._steady_steps += span.num_steps
            self._steady_seconds += span.seconds
        self.epoch_spans.append(span)
        self._on_span(span)

    def _reaches_limit(self, time_ns: int) -> bool:
        if self._steady_start is None:
            return False
        steady_steps = self._step - self._steady_first_step + 1
        by_steps = self._config.steps is not None and steady_steps >= self._config.steps
        by_time = self._config.seconds is not None and (time_ns - self._steady_start) * _NS >= self._config.seconds
        return by_steps or by_time
