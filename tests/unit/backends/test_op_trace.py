"""Operations of a trace: read from TensorFlow's own format, and their time shared among parts."""

from pathlib import Path
from typing import Any

import pytest

from tfbench.backends.profiling import TracedOperation, apportion, sum_up
from tfbench.backends.tensorflow.op_trace import read_trace, trace
from tfbench.errors import MeasurementError
from tfbench.profiles.readings import ProfiledOperation

SECOND = 10**12  # of a trace, in picoseconds


def operation(start: float, end: float, name: str) -> TracedOperation:
    return TracedOperation(round(start * SECOND), round(end * SECOND), name, "Kind")


def part_of(name: str) -> tuple[int, str]:
    """Takes "1/conv" for the part "conv" of phase 1."""
    phase, part = name.split("/")
    return int(phase), part


# Operations as (begin, end, phase/part), and for how many seconds each part ran.
SHARES = {
    "gaps belong to no part": ([(0, 1, "0/a"), (3, 5, "0/b"), (7, 8, "0/a")], {"a": 2, "b": 2}),
    "parts of one phase share the time in which both run": (
        [(0, 4, "0/a"), (2, 6, "0/b")],
        {"a": 3, "b": 3},
    ),
    "two of one part count the time once": ([(0, 4, "0/a"), (1, 3, "0/a")], {"a": 4}),
    "an update that begins while the backward pass runs": (
        [(0, 4, "1/back"), (2, 7, "2/up")],
        {"back": 4, "up": 3},
    ),
    "any order, and one without length": (
        [(5.5, 7, "1/a"), (5.2, 5.2, "0/c"), (5, 6, "0/b")],
        {"b": 1, "a": 1},
    ),
    "nothing": ([], {}),
}


@pytest.mark.parametrize(("operations", "expected"), SHARES.values(), ids=SHARES)
def test_time_is_shared_among_parts(operations: list[Any], expected: dict[str, float]) -> None:
    found = apportion([operation(*one) for one in operations], part_of)
    assert found == {part: pytest.approx(seconds) for part, seconds in expected.items()}


def add_event(plane: Any, line: Any, name: str, offset: int, duration: int, **of: Any) -> None:
    """Adds an event, in picoseconds from the begin of its line, `of` an operation."""
    number = len(plane.event_metadata) + 1
    plane.event_metadata[number].id = number
    plane.event_metadata[number].name = name
    event = line.events.add(metadata_id=number, offset_ps=offset, duration_ps=duration)
    event.stats.add(metadata_id=2, str_value="1:1")
    if of:
        event.stats.add(metadata_id=1, **of)


def write_trace(folder: Path, *, with_gpu: bool) -> Path:
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    space = xplane_pb2.XSpace()
    host = space.planes.add(name="/host:CPU")
    line = host.lines.add(timestamp_ns=3)
    add_event(host, line, "model/dense/MatMul:MatMul", 500, 2000)
    add_event(host, line, "ThreadpoolListener::Record", 0, 9000)
    add_event(host, line, "train_function", 0, 9000)
    add_event(host, line, "ExecutorState::Process#id=7#", 400, 3000)
    add_event(host, host.lines.add(timestamp_ns=4), "loop body/Sum:Sum", 0, 100)
    if with_gpu:
        gpu = space.planes.add(name="/device:GPU:0")
        names = {1: "tf_op", 2: "grid", 3: "model/dense/BiasAdd:BiasAdd"}
        for number, name in names.items():
            gpu.stat_metadata[number].id = number
            gpu.stat_metadata[number].name = name
        line = gpu.lines.add(timestamp_ns=10, name="Stream #13(Kernel,MemcpyH2D,MemcpyD2H)")
        add_event(gpu, line, "ampere_sgemm", 100, 700, str_value="model/dense/MatMul:MatMul")
        add_event(gpu, line, "bias_kernel", 900, 50, ref_value=3)
        add_event(gpu, line, "MemcpyH2D", 950, 10)  # belongs to no operation
        add_event(gpu, line, "MemcpyD2H", 1000, 20)
        # CUPTI gives a copy the operation that asked for it.
        add_event(gpu, line, "MemcpyD2H", 2000, 5, str_value="div_no_nan/_7:_Send")
        # What the streams tell, summed up; and what CUPTI itself took, which it notes as the
        # device's.
        for name in ("Steps", "Framework Ops", "CUPTI overhead"):
            line = gpu.lines.add(timestamp_ns=10, name=name)
            add_event(gpu, line, "a:MatMul", 0, 9000)
    path = folder / "machine.xplane.pb"
    path.write_bytes(space.SerializeToString())
    return path


def test_operations_of_the_host_are_named_by_their_events(tmp_path: Path) -> None:
    found = read_trace(write_trace(tmp_path, with_gpu=False))
    assert not found.on_device
    assert found.operations == [
        TracedOperation(3500, 5500, "model/dense/MatMul", "MatMul"),
        TracedOperation(4000, 4100, "loop body/Sum", "Sum"),
    ]
    # The executor from 3.4 to 6.4 ns, with an operation of 2 ns in it; that of the other thread is
    # within that.
    assert [(one.start, one.end) for one in found.others] == [(3400, 6400)]
    assert found.active_seconds == pytest.approx(3e-9)


def test_operations_of_a_gpu_are_named_by_what_launched_their_kernels_and_the_launches_left_out(
    tmp_path: Path,
) -> None:
    found = read_trace(write_trace(tmp_path, with_gpu=True))
    assert found.on_device
    assert found.operations == [
        TracedOperation(10_100, 10_800, "model/dense/MatMul", "MatMul"),
        TracedOperation(10_900, 10_950, "model/dense/BiasAdd", "BiasAdd"),
        TracedOperation(12_000, 12_005, "div_no_nan/_7", "_Send"),
    ]
    # Kernels of 700 and 50 ps and copies of 10, 20 and 5; the executor launches them.
    assert [one.name for one in found.others] == ["MemcpyH2D", "MemcpyD2H"]
    assert found.active_seconds == pytest.approx(785e-12)


def test_a_trace_of_a_product_has_it_and_can_be_kept(tmp_path: Path) -> None:
    import tensorflow as tf

    @tf.function
    def product(matrix: Any) -> Any:
        with tf.name_scope("here"):
            return tf.linalg.matmul(matrix, matrix, name="square")

    matrix = tf.ones((64, 64))
    product(matrix)
    # Many times over: the executor's own event of the last may come when the trace has been
    # stopped.
    found = trace(lambda: [product(matrix).numpy() for _ in range(20)], tmp_path / "kept")
    assert found.active_seconds is not None  # TensorFlow tells when its executor is at work
    square = next(one for one in found.operations if one.name.endswith("here/square"))
    assert square.kind in ("MatMul", "_MklMatMul")  # the latter where oneDNN computes it
    assert square.end > square.start
    assert list((tmp_path / "kept").rglob("*.xplane.pb"))


def test_a_trace_without_an_operation_is_an_error_and_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(
        MeasurementError, match=r"recorded no operation\. Is another profiler attached"
    ):
        trace(lambda: None)
    assert list(tmp_path.iterdir()) == []


def test_operations_of_the_same_name_are_summed_to_what_a_step_took_of_them() -> None:
    # Two steps. The product runs in both, alone for 1 s and then beside the sum for 1 s of its 3.
    operations = [
        operation(0, 2, "scope/product"),
        operation(1, 4, "scope/sum"),
        operation(5, 7, "scope/product"),
    ]
    assert sum_up(operations, 2) == [
        ProfiledOperation(
            name="scope/product", kind="Kind", occurrences=1.0, seconds=2.0, own_seconds=1.75
        ),
        ProfiledOperation(
            name="scope/sum", kind="Kind", occurrences=0.5, seconds=1.5, own_seconds=1.25
        ),
    ]
