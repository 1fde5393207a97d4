"""What the devices of a run can compute and move at most, with the same threads."""

import time
from collections.abc import Callable, Sequence
from typing import Any

from tfbench.machine import PeakCheck
from tfbench.profile_records import BandwidthCheck
from tfbench.usage import read_counters

_CPU_SIZE, _GPU_SIZE = 2048, 4096  # rows and columns; larger products are no faster, smaller ones are
_SMALL_SIZE = 1024  # where one of the large products would take longer than a round may
_GPU_CHAIN = 8  # products in a row on a GPU, where a single one is too short for the clock
_ROUND_SECONDS = 0.4  # longest that a round may take
_MIN_ROUNDS = 3
_CPU_ARRAY_BYTES, _GPU_ARRAY_BYTES = 64 * 2**20, 512 * 2**20  # too large for caches
_ARRAYS_MOVED = 3  # of an addition in place: two are read, one is written
_COMPUTE_DTYPES = {"float32": "float32", "mixed_float16": "float16", "mixed_bfloat16": "bfloat16"}


def measure_peak(devices: Sequence[str], precision: str, *, seconds: float) -> PeakCheck:
    """Times products of square matrices on all devices at once; the fastest of several rounds counts.

    Noise only ever makes a round slower, so that the fastest is nearest to what the devices can do.

    Args:
        devices: As TensorFlow numbers them: "/device:CPU:0".
        precision: Of the layers, as Keras names it; products are of what it computes in.
        seconds: After which no more rounds are begun, once there are three.
    """
    is_gpu = "GPU" in devices[0]
    chain = _GPU_CHAIN if is_gpu else 1
    size = _GPU_SIZE if is_gpu else _CPU_SIZE
    dtype = _COMPUTE_DTYPES[precision]
    small = _build_product(devices, _SMALL_SIZE, dtype, chain)
    small()  # the first call traces
    if _time(small) * (size / _SMALL_SIZE) ** 3 > _ROUND_SECONDS:
        size, multiply = _SMALL_SIZE, small
    else:
        multiply = _build_product(devices, size, dtype, chain)
        multiply()
    before, rounds = read_counters(), list[float]()
    while len(rounds) < _MIN_ROUNDS or sum(rounds) < seconds:
        rounds.append(_time(multiply))
    return PeakCheck(
        size=size,
        precision=dtype,
        num_rounds=len(rounds),
        flops=2 * size**3 * chain * len(devices),
        seconds=min(rounds),
        other_share=read_counters().other_share(before),
    )


def measure_bandwidth(devices: Sequence[str], *, seconds: float) -> BandwidthCheck:
    """Times the addition of one large array to another, in place, on all devices at once; the fastest round counts.

    Nothing is allocated meanwhile: new memory has to be cleared by the system first, which would be timed, too.

    Args:
        devices: As TensorFlow numbers them: "/device:CPU:0".
        seconds: After which no more rounds are begun, once there are three.
    """
    num_bytes = _GPU_ARRAY_BYTES if "GPU" in devices[0] else _CPU_ARRAY_BYTES
    add = _build_addition(devices, num_bytes // 4)
    add()  # the first call traces
    rounds = list[float]()
    while len(rounds) < _MIN_ROUNDS or sum(rounds) < seconds:
        rounds.append(_time(add))
    return BandwidthCheck(
        num_bytes=_ARRAYS_MOVED * num_bytes * len(devices), num_rounds=len(rounds), seconds=min(rounds)
    )


def _build_addition(devices: Sequence[str], size: int) -> Callable[[], None]:
    import tensorflow as tf

    pairs = []
    for device in devices:
        with tf.device(device):
            pairs.append((tf.Variable(tf.ones([size])), tf.Variable(tf.ones([size]))))

    @tf.function(jit_compile=False)  # type: ignore[untyped-decorator]  # TensorFlow has no types
    def add() -> None:
        for device, (total, summand) in zip(devices, pairs, strict=True):
            with tf.device(device):
                total.assign_add(summand)

    def run() -> None:
        add()
        tf.test.experimental.sync_devices()

    return run


def _build_product(devices: Sequence[str], size: int, dtype: str, chain: int) -> Callable[[], None]:
    import tensorflow as tf

    factors = []
    for device in devices:
        with tf.device(device):
            # Random, since products of equal numbers take less power, and so run at a higher clock. With this variance
            # a product's values are as large as its factors'.
            factors.append(tf.cast(tf.random.stateless_normal([size, size], [0, 0]) * size**-0.5, dtype))

    @tf.function(jit_compile=False)  # type: ignore[untyped-decorator]  # TensorFlow has no types
    def multiply() -> Any:
        corners = []
        for device, factor in zip(devices, factors, strict=True):
            with tf.device(device):
                product = factor
                for _ in range(chain):
                    product = tf.linalg.matmul(product, factor)
                corners.append(product[0, 0])
        return corners

    def run() -> None:
        for corner in multiply():
            corner.numpy()  # waits for the device

    return run


def _time(work: Callable[[], None]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start
