"""PyTorch's own trace of its operations: what ran when, and to which layer of a step it belongs.

Brackets mark the forward pass of each layer and of the loss, and the update of the weights, while a
trace is taken. What runs between two brackets belongs to the next one, since Keras casts a layer's
inputs before it calls it; what comes after the update is metrics. A node of the backward pass has a
number, and numbers follow the order of the forward pass, so that a node belongs to the bracket that
had begun last by then.
"""

import bisect
import functools
import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tfbench.backends.profiling import PHASES, Call, Trace, TracedOperation
from tfbench.errors import MeasurementError

TRACE_FILE = "trace.json"
# a layer's use, "loss" or "update"; its first node; its name
_BRACKET = re.compile(r"tfbench:(\w+):(\d+)/(.*)")
_NODE = "autograd::engine::evaluate_function: "
_OPERATION = re.compile(r"(?!autograd::|profiler::)\w+::.+")  # "aten::addmm"
_UPDATE = "update/update and metrics"


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
        # A bracket takes as long as a small operation.
        if not torch.autograd.profiler._is_profiler_enabled:
            return call(*args, **kwargs)
        node = torch.autograd._get_sequence_nr()
        with torch.profiler.record_function(f"tfbench:{number}:{node}/{name}"):
            return call(*args, **kwargs)

    return bracketed


def trace(work: Call, folder: Path | None = None) -> Trace:
    """Does something with PyTorch's profiler on.

    Args:
        work: What is traced. It should have run before, and leave nothing running.
        folder: Where the trace is kept, as browsers read it; None: it is not kept.

    Raises:
        MeasurementError: PyTorch recorded no operation, or none of the GPU that it uses.
    """
    import torch

    # Without the tables of `torch.profiler`, which take longer than the work.
    device = "cuda" if torch.cuda.is_initialized() else None
    with torch.autograd.profiler.profile(use_kineto=True, use_device=device) as profiler:
        work()
    if folder is not None:
        profiler.export_chrome_trace(str(folder / TRACE_FILE))
    result = read_events(list(_read(profiler.kineto_results)))
    if not result.operations:
        raise MeasurementError(
            "PyTorch's profiler recorded no operation. Is another profiler attached to it?"
        )
    if device and not result.on_device:  # what the host did is no time of a GPU's
        raise MeasurementError(
            "PyTorch's profiler recorded nothing of the GPU. Is another profiler attached to it, or"
            " is CUPTI, NVIDIA's library for it, not allowed to?"
        )
    return result


def step_mark(number: int) -> Any:
    """Returns a context in which a step is traced."""
    import torch

    return torch.profiler.record_function(f"ProfilerStep#{number}")


def part_of(name: str) -> tuple[int, str]:
    """Returns the number of the phase, and the part of it, of a step's traced operation."""
    place, _, _ = name.partition("/")
    direction, _, layer = place.partition(":")
    if direction not in PHASES:
        return PHASES["update"], "other"
    if not layer:
        return PHASES[direction], direction
    return PHASES[direction], f"{direction}/{layer}"


def _read(results: Any) -> Iterator[Event]:
    """Yields a trace's events, without a GPU's annotations, which repeat names of the host's."""
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

    Of the host's operations that call others, the outermost are taken: `aten::linear` for what
    `aten::addmm` does within.
    """
    host = [event for event in events if event.on_host]
    host.sort(key=lambda event: (event.start, -event.end))
    called = [event for event in host if _OPERATION.fullmatch(event.name)]
    marks = list(_find_marks(host))
    of_gpu = [event for event in events if not event.on_host]
    by_number = {event.number: event for event in called}
    operations = []
    others = []
    for event in of_gpu or _find_outermost(called):
        caller = event if event.on_host else by_number.get(event.launched_by)
        start = 1000 * event.start
        end = 1000 * event.end
        if caller:
            name = _find_part(marks, caller.start) + caller.name
            operations.append(TracedOperation(start, end, name, caller.name))
        else:
            others.append(TracedOperation(start, end, event.name, ""))
    return Trace(operations=operations, others=others, on_device=bool(of_gpu))


def _find_outermost(events: Sequence[Event]) -> Iterator[Event]:
    """Yields those of ordered events that begin once the last event that was yielded is over."""
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


def _find_marks(host: Sequence[Event]) -> Iterator[_Mark]:
    """Yields brackets and nodes, in order; none where nothing is bracketed."""
    first_nodes: list[int] = []
    layers: list[str] = []
    layer = ""
    for event in host:
        bracket = _BRACKET.fullmatch(event.name)
        if bracket and bracket[1] == "update":
            yield _Mark(event.start, event.end, _UPDATE)
        elif bracket:
            layer = f"{bracket[1]}/{bracket[3]}"
            first_nodes.append(int(bracket[2]))
            layers.append(layer)
            yield _Mark(event.start, event.end, f"forward:{layer}")
        elif layers and event.name.startswith(_NODE):
            # A node that adds a gradient up has no number, and comes right after the gradient's.
            if event.node >= 0:
                layer = layers[bisect.bisect_right(first_nodes, event.node) - 1]
            yield _Mark(event.start, event.end, f"backward:{layer}")


def _find_part(marks: Sequence[_Mark], time: int) -> str:
    """Returns where in a step a moment is, as the beginning of an operation's name.

    "" where nothing is bracketed.
    """
    if not marks:
        return ""
    position = bisect.bisect_right(marks, time, key=lambda mark: mark.start)
    before = marks[max(0, position - 1)]
    after = marks[min(position, len(marks) - 1)]
    is_last = position == len(marks)
    precedes_backward = is_last or after.part.startswith("backward")
    is_of_before = time < before.end or before.part == _UPDATE or precedes_backward
    if position > 0 and is_of_before:
        return f"{before.part}/"
    return f"{after.part}/"
