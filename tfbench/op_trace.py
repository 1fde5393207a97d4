"""TensorFlow's own trace of its operations, read without any further program: what ran when, and what it belongs to."""

import re
import shutil
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tfbench.errors import MeasurementError
from tfbench.profile_records import ProfiledOperation

_PS = 1e-12
# "path/of/scopes/name:Kind": what TensorFlow calls an operation in a trace; functions and threads have other forms.
_OPERATION = re.compile(r"([^:\s][^:]*):([A-Za-z_]\w*)")


class TracedOperation(NamedTuple):
    """An operation that ran, in picoseconds of the trace's clock."""

    start: int
    end: int
    name: str
    kind: str


def trace(work: Callable[[], None], folder: Path | None = None) -> list[TracedOperation]:
    """Does something with TensorFlow's profiler on.

    Args:
        work: What is traced. It should have run before, and leave nothing running.
        folder: Where the trace is kept as TensorBoard and XProf read it; None: it is not kept.

    Returns:
        The operations that ran.

    Raises:
        MeasurementError: TensorFlow recorded none.
    """
    import tensorflow as tf

    target = folder or Path(tempfile.mkdtemp(prefix="tfbench-trace-"))
    try:
        # Python's own calls would be traced by another tracer, which is slow; device events are needed on GPUs alone.
        options = tf.profiler.experimental.ProfilerOptions(host_tracer_level=2, python_tracer_level=0)
        tf.profiler.experimental.start(str(target), options=options)
        try:
            work()
        finally:
            tf.profiler.experimental.stop()
        found = [operation for path in sorted(target.rglob("*.xplane.pb")) for operation in read_operations(path)]
    finally:
        if folder is None:
            shutil.rmtree(target, ignore_errors=True)
    if not found:
        raise MeasurementError("TensorFlow's profiler recorded no operation. Is another profiler attached to it?")
    return found


def read_operations(path: Path) -> list[TracedOperation]:
    """Reads the operations of a trace: those of GPUs, where there are any, else those of the host.

    Args:
        path: A file *.xplane.pb.

    Raises:
        MeasurementError: This version of TensorFlow has no reader for its own format.
    """
    try:
        from tensorflow.tsl.profiler.protobuf import xplane_pb2
    except ImportError as error:
        raise MeasurementError(f"this version of TensorFlow cannot read its own traces: {error}.") from error
    space = xplane_pb2.XSpace()
    space.ParseFromString(path.read_bytes())
    devices = [plane for plane in space.planes if plane.name.startswith("/device:GPU:")]
    # The host's events of a GPU's operations are those of their launch.
    found = [operation for plane in devices for operation in _read_plane(plane, _name_by_statistic)]
    return found or [operation for plane in space.planes for operation in _read_plane(plane, _name_by_event)]


def apportion(operations: Iterable[TracedOperation], part_of: Callable[[str], tuple[int, str]]) -> dict[str, float]:
    """Says for how long each part ran, so that all parts add up to the time in which anything ran.

    What runs beside an operation of an earlier phase takes no time of its own; operations of one phase that run at the
    same time share it alike.

    Args:
        operations: What ran.
        part_of: From an operation's name to the number of its phase and the name of its part.

    Returns:
        Seconds by part.
    """
    edges = []
    for index, operation in enumerate(operations):
        phase, part = part_of(operation.name)
        edges += [(operation.start, True, index, phase, part), (operation.end, False, index, phase, part)]
    edges.sort(key=lambda edge: edge[0])
    running: dict[int, tuple[int, str]] = {}
    seconds: dict[str, float] = {}
    before = 0
    for time, begins, index, phase, part in edges:
        if running and time > before:
            first = min(running.values())[0]
            sharing = [name for number, name in running.values() if number == first]
            for name in sharing:
                seconds[name] = seconds.get(name, 0.0) + (time - before) * _PS / len(sharing)
        if begins:
            running[index] = (phase, part)
        else:
            running.pop(index, None)
        before = time
    return seconds


def sum_up(operations: Sequence[TracedOperation], num_steps: int) -> list[ProfiledOperation]:
    """Returns what each operation took in a step, the longest first.

    Args:
        operations: Of some steps.
        num_steps: How many.
    """
    own = apportion(operations, lambda name: (0, name))
    together: dict[str, list[TracedOperation]] = {}
    for operation in operations:
        together.setdefault(operation.name, []).append(operation)
    found = [
        ProfiledOperation(
            name=name,
            kind=same[0].kind,
            occurrences=len(same) / num_steps,
            seconds=sum(one.end - one.start for one in same) * _PS / num_steps,
            own_seconds=own.get(name, 0.0) / num_steps,
        )
        for name, same in together.items()
    ]
    return sorted(found, key=lambda one: -one.own_seconds)


def _read_plane(plane: Any, name_of: Callable[[Any, Any], str]) -> Sequence[TracedOperation]:
    found = []
    for line in plane.lines:
        for event in line.events:
            match = _OPERATION.fullmatch(name_of(plane, event))
            if match:
                start = line.timestamp_ns * 1000 + event.offset_ps
                found.append(TracedOperation(start, start + event.duration_ps, match[1], match[2]))
    return found


def _name_by_event(plane: Any, event: Any) -> str:
    return str(plane.event_metadata[event.metadata_id].name)


def _name_by_statistic(plane: Any, event: Any) -> str:
    """Returns the operation that a kernel was launched for: CUPTI's events are named after the kernel."""
    for statistic in event.stats:
        if plane.stat_metadata[statistic.metadata_id].name == "tf_op":
            return statistic.str_value or str(plane.stat_metadata[statistic.ref_value].name)
    return ""
