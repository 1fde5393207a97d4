"""TensorFlow's own trace of its operations, read without any further program: what ran when, and what it belongs to."""

import re
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tfbench.errors import MeasurementError
from tfbench.records.profile import ProfiledOperation

_PS = 1e-12
# "path/of/scopes/name:Kind": what TensorFlow calls an operation in a trace; functions and threads have other forms.
_OPERATION = re.compile(r"([^:\s][^:]*):([A-Za-z_]\w*)")


# What carries operations out on the host, those included that are too short to be recorded.
_EXECUTOR = "ExecutorState::Process"
# Copies from a GPU to the host, and calls that wait for a GPU, as CUDA, ROCm and their tracers name them.
_WAITS = re.compile(
    r"(cu|hip)?\w*Memcpy\w*(DtoH|D2H|DeviceToHost)\w*|(cu|cuda|hip)(Stream|Event|Ctx|Context|Device)Synchronize\w*"
)
# Lines of a GPU's plane on which it is at work. Others tell the same again, by names that change from version to
# version, or what the tracer itself took.
_STREAM = "Stream #"


class TracedOperation(NamedTuple):
    """An operation that ran, in picoseconds of the trace's clock."""

    start: int
    end: int
    name: str
    kind: str


class Trace(NamedTuple):
    """What a trace tells.

    `others` were at work without a name of an operation: TensorFlow's executor on the host, kernels and copies of no
    operation on a GPU. `waits`: copies from a GPU to the host, and calls of the host that wait for a GPU.
    """

    operations: list[TracedOperation]
    others: list[TracedOperation]
    waits: list[TracedOperation]
    on_device: bool  # operations are those of a GPU

    @property
    def active_seconds(self) -> float | None:
        """For how long anything was at work; None where the trace tells of nothing but operations."""
        if not self.others and not self.on_device:
            return None
        return sum(apportion([*self.operations, *self.others], lambda _: (0, "")).values())


def trace(work: Callable[[], None], folder: Path | None = None) -> Trace:
    """Does something with TensorFlow's profiler on.

    Args:
        work: What is traced. It should have run before, and leave nothing running.
        folder: Where the trace is kept as TensorBoard and XProf read it; None: it is not kept.

    Returns:
        What ran.

    Raises:
        MeasurementError: TensorFlow recorded no operation.
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
        found = [read_trace(path) for path in sorted(target.rglob("*.xplane.pb"))]
    finally:
        if folder is None:
            shutil.rmtree(target, ignore_errors=True)
    if not any(one.operations for one in found):
        raise MeasurementError("TensorFlow's profiler recorded no operation. Is another profiler attached to it?")
    (only,) = found  # TensorFlow writes one file a host
    return only


def read_trace(path: Path) -> Trace:
    """Reads a trace: the operations of GPUs, where there are any, else those of the host.

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
    of_devices, of_host = list[TracedOperation](), list[TracedOperation]()
    for plane in space.planes:
        is_device = plane.name.startswith("/device:GPU:")
        (of_devices if is_device else of_host).extend(_read_plane(plane, is_device=is_device))
    # The host's events of a GPU's operations are those of their launch.
    on_device = any(event.kind for event in of_devices)
    chosen = of_devices if on_device else of_host
    return Trace(
        operations=[event for event in chosen if event.kind],
        others=[event for event in chosen if not event.kind and (on_device or event.name == _EXECUTOR)],
        waits=[event for event in (*of_devices, *of_host) if not event.kind and _WAITS.fullmatch(event.name)],
        on_device=on_device,
    )


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


def _read_plane(plane: Any, *, is_device: bool) -> Iterator[TracedOperation]:
    """Yields the events of operations, with their kind, and others that matter, by their own name and of no kind."""
    names = {number: str(one.name).partition("#")[0] for number, one in plane.event_metadata.items()}
    for line in plane.lines:
        if is_device and not line.name.startswith(_STREAM):
            continue
        for event in line.events:
            start = line.timestamp_ns * 1000 + event.offset_ps
            end, name = start + event.duration_ps, names[event.metadata_id]
            # An operation's own name may have a number sign in it.
            whole = _find_operation(plane, event) if is_device else str(plane.event_metadata[event.metadata_id].name)
            if match := _OPERATION.fullmatch(whole):
                yield TracedOperation(start, end, match[1], match[2])
            # A GPU's copy to the host has an operation, too: the one that sends what it copies.
            is_wait = bool(_WAITS.fullmatch(name))
            if is_wait or (not match and (is_device or name == _EXECUTOR)):
                yield TracedOperation(start, end, name, "")


def _find_operation(plane: Any, event: Any) -> str:
    """Returns the operation that a kernel was launched for: CUPTI's events are named after the kernel."""
    for statistic in event.stats:
        if plane.stat_metadata[statistic.metadata_id].name == "tf_op":
            return statistic.str_value or str(plane.stat_metadata[statistic.ref_value].name)
    return ""
