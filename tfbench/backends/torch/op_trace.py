"""PyTorch's own trace of its operations.

What ran when, and to which layer of a step it belongs, forward or backward.

The forward pass of each layer, that of the loss, and the update of the weights are bracketed while
a trace is taken. What runs between two brackets belongs to the one that comes next, since Keras
casts a layer's inputs before it calls it; what comes after the update is metrics. A node of the
backward pass bears a number, and numbers are given in the order of the forward pass, so that it
belongs to the bracket that had begun last by then.
"""

import bisect
import functools
import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tfbench.backends.profiling import Trace, TracedOperation
from tfbench.errors import MeasurementError

TRACE_FILE = "trace.json"
_BRACKET = re.compile(
    r"tfbench:(\w+):(\d+)/(.*)"
)  # a layer's use, "loss" or "update"; its first node; its name
_NODE = "autograd::engine::evaluate_function: "
_OPERATION = re.compile(r"(?!autograd::|profiler::)\w+::.+")  # "aten::addmm"
_UPDATE = "update/update and metrics"
_PHASES = {"forward": 0, "backward": 1, "update": 2}


class Event(NamedTuple):
    """An event of a trace; times in nanoseconds."""

    start: int
    end: int
    name: str
    node: int = -1  # number of a node, or of the next one that is made; below 0: none
    number: int = 0  # of an operation
    launched_by: int = 0  # number of the operation, of what ran on a GPU
    on_host: bool = True


def name_layers(model: Any, calls: Sequence[Any]) -> None:
    """Has a model's layers, its loss and its optimizer bracket what they do while a trace is taken.

    Args:
        model: Compiled.
        calls: All uses of layers, as of `graph.walk`; one that is used several times is called in
            this order.
    """
    uses: dict[Any, list[str]] = {}
    for index, call in enumerate(calls):
        uses.setdefault(call.operation, []).append(str(index))
    for operation, indices in uses.items():
        operation.call = _bracketed(operation.call, operation.name, itertools.cycle(indices))
    model.compute_loss = _bracketed(model.compute_loss, "loss", itertools.repeat("loss"))
    model.optimizer.apply = _bracketed(
        model.optimizer.apply, "optimizer", itertools.repeat("update")
    )


def _bracketed(call: Callable[..., Any], name: str, numbers: Iterator[str]) -> Callable[..., Any]:
    import torch

    @functools.wraps(call)
    def bracketed(*args: Any, **kwargs: Any) -> Any:
        number = next(numbers)
        if (
            not torch.autograd.profiler._is_profiler_enabled
        ):  # a bracket takes as long as a small operation
            return call(*args, **kwargs)
        with torch.profiler.record_function(
            f"tfbench:{number}:{torch.autograd._get_sequence_nr()}/{name}"
        ):
            return call(*args, **kwargs)

    return bracketed


def trace(work: Callable[[], None], folder: Path | None = None) -> Trace:
    """Does something with PyTorch's profiler on.

    Args:
        work: What is traced. It should have run before, and leave nothing running.
        folder: Where the trace is kept, as browsers read it; None: it is not kept.

    Raises:
        MeasurementError: PyTorch recorded no operation, or none of the GPU that it uses.
    """
    import torch

    # Without the tables that `torch.profiler` makes of it, which takes longer than the work.
    device = "cuda" if torch.cuda.is_initialized() else None
    with torch.autograd.profiler.profile(use_kineto=True, use_device=device) as profiler:
        work()
    if folder is not None:
        profiler.export_chrome_trace(str(folder / TRACE_FILE))
    found = read_events(list(_read(profiler.kineto_results)))
    if not found.operations:
        raise MeasurementError(
            "PyTorch's profiler recorded no operation. Is another profiler attached to it?"
        )
    if device and not found.on_device:  # what the host did is no time of a GPU's
        raise MeasurementError(
            "PyTorch's profiler recorded nothing of the GPU. Is another profiler attached to it, or"
            " is CUPTI, NVIDIA's library for it, not allowed to?"
        )
    return found


def step_mark(number: int) -> Any:
    """Returns a context in which a step is traced."""
    import torch

    return torch.profiler.record_function(f"ProfilerStep#{number}")


def part_of(name: str) -> tuple[int, str]:
    """Returns the number of the phase, and the part of it, of a step's operation.

    The operation was traced.
    """
    direction, _, layer = name.partition("/")[0].partition(":")
    if direction not in _PHASES:
        return _PHASES["update"], "other"
    return _PHASES[direction], f"{direction}/{layer}" if layer else direction


def _read(results: Any) -> Iterator[Event]:
    """Yields a trace's events, without the host's annotations on a GPU.

    Those only say what the host called the events.
    """
    import torch

    for event in results.events():
        on_host = event.device_type() == torch.autograd.DeviceType.CPU
        if on_host or not event.is_user_annotation():
            yield Event(
                start=event.start_ns(),
                end=event.end_ns(),
                name=event.name(),
                node=event.sequence_nr(),
                number=event.correlation_id(),
                launched_by=event.linked_correlation_id(),
                on_host=on_host,
            )


def read_events(events: Sequence[Event]) -> Trace:
    """Reads a trace: what ran on GPUs, where anything did, else the operations of the host.

    Of operations that call others, the host's are the outermost: `aten::linear` for what
    `aten::addmm` does within.
    """
    host = sorted((one for one in events if one.on_host), key=lambda one: (one.start, -one.end))
    operations = [one for one in host if _OPERATION.fullmatch(one.name)]
    outermost = list(_find_outermost(operations))
    marks = list(_find_marks(host))
    of_gpu = [one for one in events if not one.on_host]
    launching = {one.number: one for one in operations}
    pairs = [(one, launching.get(one.launched_by)) for one in of_gpu] or [
        (one, one) for one in outermost
    ]
    return Trace(
        operations=[
            _traced(one, _find_part(marks, by.start) + by.name, by.name) for one, by in pairs if by
        ],
        others=[_traced(one, one.name, "") for one, by in pairs if not by],
        on_device=bool(of_gpu),
    )


def _traced(event: Event, name: str, kind: str) -> TracedOperation:
    return TracedOperation(1000 * event.start, 1000 * event.end, name, kind)


def _find_outermost(events: Sequence[Event]) -> Iterator[Event]:
    """Yields those of events in order that begin when the last one that was yielded is over."""
    end = 0
    for event in events:
        if event.start >= end:
            end = event.end
            yield event


class _Mark(NamedTuple):
    """A stretch of time in which the host is at a layer: "forward:3/dense", "backward:3/dense"."""

    start: int
    end: int
    part: str

    @property
    def is_backward(self) -> bool:
        return self.part.startswith("backward")


def _find_marks(host: Sequence[Event]) -> Iterator[_Mark]:
    """Yields brackets and nodes, in order; none where nothing is bracketed."""
    begun: list[tuple[int, str]] = []
    layer = ""
    for event in host:
        bracket = _BRACKET.fullmatch(event.name)
        if bracket and bracket[1] == "update":
            yield _Mark(event.start, event.end, _UPDATE)
        elif bracket:
            layer = f"{bracket[1]}/{bracket[3]}"
            begun.append((int(bracket[2]), layer))
            yield _Mark(event.start, event.end, f"forward:{layer}")
        elif begun and event.name.startswith(_NODE):
            # One that adds a gradient up has no number, and comes right after the one that it is
            # of.
            if event.node >= 0:
                layer = begun[bisect.bisect_right(begun, event.node, key=lambda one: one[0]) - 1][1]
            yield _Mark(event.start, event.end, f"backward:{layer}")


def _find_part(marks: Sequence[_Mark], time: int) -> str:
    """Returns where in a step a moment is, as the beginning of an operation's name; "".

    Nothing is bracketed.
    """
    position = bisect.bisect_right(marks, time, key=lambda mark: mark.start)
    before = marks[position - 1] if position else None
    after = marks[position] if position < len(marks) else None
    is_of_before = before and (
        time < before.end or before.part == _UPDATE or after is None or after.is_backward
    )
    nearest = before if is_of_before else after
    return f"{nearest.part}/" if nearest else ""
