"""TensorFlow's own trace of its operations: what ran when, and to which part of a step it belongs.

It is read without any further program.
"""

import contextlib
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import tensorflow as tf

from tfbench.backends.profiling import PHASES, Call, Trace, TracedOperation
from tfbench.errors import MeasurementError

# "path/of/scopes/name:Kind": what TensorFlow calls an operation in a trace; functions and threads
# have other forms.
_OPERATION = re.compile(r"([^:\s][^:]*):([A-Za-z_]\w*)")
# What carries operations out on the host, those included that are too short to be recorded.
_EXECUTOR = "ExecutorState::Process"
# Lines of a GPU's plane on which it is at work. Others repeat that, by names that change from
# version to version, or hold what the tracer itself took.
_STREAM = "Stream #"
# Of a profiled step, whose layers have numbers.
_SCOPE = re.compile(r"tfbench_(forward|backward)_(\d+|loss)|tfbench_(update)")


def trace(work: Call, folder: Path | None = None) -> Trace:
    """Does something with TensorFlow's profiler on.

    Args:
        work: What is traced. It should have run before, and leave nothing running.
        folder: Where the trace is kept as TensorBoard and XProf read it; None: it is not kept.

    Returns:
        What ran.

    Raises:
        MeasurementError: TensorFlow recorded no operation.
    """
    with contextlib.ExitStack() as stack:
        target = folder or stack.enter_context(tempfile.TemporaryDirectory(prefix="tfbench-trace-"))
        # Python's own calls would be traced by another tracer, which is slow; device events are
        # needed on GPUs alone.
        options = tf.profiler.experimental.ProfilerOptions(
            host_tracer_level=2, python_tracer_level=0
        )
        tf.profiler.experimental.start(str(target), options=options)
        try:
            work()
        finally:
            tf.profiler.experimental.stop()
        # TensorFlow writes one file per host.
        traces = [read_trace(path) for path in Path(target).rglob("*.xplane.pb")]
    if not traces or not traces[0].operations:
        raise MeasurementError(
            "TensorFlow's profiler recorded no operation. Is another profiler attached to it?"
        )
    return traces[0]


def step_mark(number: int) -> Any:
    """Returns a context in which a step is traced, as TensorBoard sums steps up."""
    return tf.profiler.experimental.Trace("train", step_num=number, _r=1)


def part_of(name: str) -> tuple[int, str]:
    """Returns the number of the phase, and the part of it, of a step's operation.

    TensorFlow puts the gradient of an operation under "gradient_tape/" and the operation's own
    scope. A gradient that was written by hand stays in the scope in which it is computed.
    """
    scopes = _SCOPE.findall(name)
    if not scopes:
        return PHASES["update"], "other"
    direction, part, update = scopes[-1]
    if update:
        return PHASES["update"], "update"
    if "gradient_tape/" in name:
        direction = "backward"
    return PHASES[direction], f"{direction}/{part}"


def read_trace(path: Path) -> Trace:
    """Reads a trace: the operations of GPUs, where there are any, else those of the host.

    Args:
        path: A file *.xplane.pb.
    """
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    space = xplane_pb2.XSpace()
    space.ParseFromString(path.read_bytes())
    of_devices = list[TracedOperation]()
    of_host = list[TracedOperation]()
    for plane in space.planes:
        if plane.name.startswith("/device:GPU:"):
            of_devices += _read_plane(plane, is_device=True)
        else:
            of_host += _read_plane(plane, is_device=False)
    # The host's events of a GPU's operations are those of their launch.
    on_device = any(event.kind for event in of_devices)
    chosen = of_devices if on_device else of_host
    return Trace(
        operations=[event for event in chosen if event.kind],
        others=[event for event in chosen if not event.kind],
        on_device=on_device,
    )


def _read_plane(plane: Any, *, is_device: bool) -> Iterator[TracedOperation]:
    """Yields operations with their kind, and other events that matter without one."""
    names = {number: str(data.name) for number, data in plane.event_metadata.items()}
    for line in plane.lines:
        if is_device and not line.name.startswith(_STREAM):
            continue
        for event in line.events:
            start = line.timestamp_ns * 1000 + event.offset_ps
            end = start + event.duration_ps
            name = names[event.metadata_id]
            operation = _find_operation(plane, event) if is_device else name
            # An operation's own name may have a number sign in it; other events have details there.
            name = name.partition("#")[0]
            if match := _OPERATION.fullmatch(operation):
                yield TracedOperation(start, end, match[1], match[2])
            elif is_device or name == _EXECUTOR:
                yield TracedOperation(start, end, name, "")


def _find_operation(plane: Any, event: Any) -> str:
    """Returns the operation that a kernel was launched for: CUPTI names events after kernels."""
    for statistic in event.stats:
        if plane.stat_metadata[statistic.metadata_id].name == "tf_op":
            return statistic.str_value or str(plane.stat_metadata[statistic.ref_value].name)
    return ""
