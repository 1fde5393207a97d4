"""What a run's devices can compute and move at most: the backend's operations timed in rounds."""

import dataclasses
import math
import time
from collections.abc import Callable, Sequence
from typing import Any

from tfbench import backends
from tfbench.machine.facts import PeakCheck
from tfbench.machine.usage import read_counters
from tfbench.profiles.readings import BandwidthCheck

# rows and columns; larger products are no faster, smaller ones are
_CPU_SIZE = 2048
_GPU_SIZE = 4096
_SMALL_SIZE = 1024  # where one of the large products would take longer than a round may
_GPU_CHAIN = 8  # products in a row in a call on a GPU
# products; longer ones take long to trace, and their values grow out of a 16-bit float
_LONGEST_CHAIN = 64
_ROUND_SECONDS = 0.4  # longest that a round may take
# A round takes at least so long, and so many times as long as a call that computes nothing: what
# the host does before the device begins, and after it is done, is then less than a hundredth of it.
# A product of 4096 rows in 16 bits takes 0.2 ms on a fast GPU, a call as long: eight of them alone
# would be timed a tenth too long.
_MIN_ROUND_SECONDS = 0.05
_MIN_LAUNCHES = 100
_MOST_CALLS = 10_000
_MIN_ROUNDS = 3
# too large for caches
_CPU_ARRAY_BYTES = 64 * 2**20
_GPU_ARRAY_BYTES = 512 * 2**20
_ARRAYS_MOVED = 3  # of an addition in place: two are read, one is written
_ADDITIONS = 8  # in a call, whose own cost they share
_COMPUTE_DTYPES = {"float32": "float32", "mixed_float16": "float16", "mixed_bfloat16": "bfloat16"}


# of a product of matrices: rows, what both factors have in common, columns
Sizes = tuple[int, int, int]
Shape = tuple[int, int]
Run = Callable[[int], None]  # does so many calls, and waits for the devices
Devices = Sequence[str]  # as the backend names them: "/device:CPU:0", "gpu:0"


@dataclasses.dataclass(kw_only=True, slots=True)
class _Candidate:
    """Work that may be the fastest, as a function of a number of calls, after which it waits."""

    amount: int  # of a call, on all devices: FLOPs, or bytes
    run: Run
    sizes: Sizes = (0, 0, 0)  # of a product
    num_calls: int = 1  # of a round
    rounds: list[float] = dataclasses.field(default_factory=list)

    @property
    def amount_of_a_round(self) -> int:
        return self.num_calls * self.amount


def factor_shapes(sizes: Sizes) -> tuple[Shape, Shape, Shape]:
    """Returns the shapes of a product's factors, and of what leads back to the first one's."""
    num_rows, common, num_columns = sizes
    return (num_rows, common), (common, num_columns), (num_columns, common)


def multiply(factors: Sequence[Any], chain: int) -> Any:
    """Does so many products in a row, by the second factor and by the third in turns."""
    product, there, back = factors
    for index in range(chain):
        product = product @ (back if index % 2 else there)
    return product


def measure_peak(
    devices: Devices, precision: str, *, seconds: float, own_sizes: Sizes | None = None
) -> PeakCheck:
    """Times products of matrices on all devices at once; the fastest round of any counts.

    Square matrices and matrices like the network's own take turns, since devices differ in which
    they are faster at. Noise only ever makes a round slower, so that the fastest is nearest to what
    the devices can do.

    Args:
        devices: That compute.
        precision: Of the layers, as Keras names it; products are of what it computes in.
        seconds: After which no more rounds are begun, once there are three of each product.
        own_sizes: Of the product that does most of the network's work, on one device; None: not
            known.
    """
    dtype = _COMPUTE_DTYPES[precision]
    least = _find_least(devices)
    largest = _GPU_SIZE if _is_gpu(devices) else _CPU_SIZE
    candidates = [_choose_square(devices, dtype, largest)]
    if own_sizes:
        # Sizes are cut: such products are as fast, and take less memory.
        num_rows, common, num_columns = (min(size, largest) for size in own_sizes)
        candidates.append(_build_candidate(devices, (num_rows, common, num_columns), dtype))
    best, other_share = _find_fastest(candidates, least, seconds)
    return PeakCheck(
        size=best.sizes[0],
        sizes=best.sizes,
        precision=dtype,
        num_rounds=len(best.rounds),
        flops=best.amount_of_a_round,
        seconds=min(best.rounds),
        other_share=other_share,
    )


def _find_fastest(
    candidates: Sequence[_Candidate], least: float, seconds: float
) -> tuple[_Candidate, float]:
    """Times candidates in turns, in rounds that take at least `least` seconds.

    Returns the fastest candidate, and the share of the machine that others used meanwhile.
    """
    for candidate in candidates:
        candidate.run(1)  # the first call traces
        candidate.num_calls = _count_calls(candidate.run, least)
    before = read_counters()
    num_rounds = 0
    total_seconds = 0.0
    while num_rounds < _MIN_ROUNDS or total_seconds < seconds:
        for candidate in candidates:
            round_seconds = _time(candidate.run, candidate.num_calls)
            candidate.rounds.append(round_seconds)
            total_seconds += round_seconds
        num_rounds += 1
    best = max(candidates, key=lambda each: each.amount_of_a_round / min(each.rounds))
    return best, read_counters().other_share(before)


def _is_gpu(devices: Devices) -> bool:
    return "gpu" in devices[0].lower()


def _find_least(devices: Devices) -> float:
    """Returns how long a round must take at least, in seconds."""
    tiny = _build_candidate(devices, (1, 1, 1), "float32", chain=1)
    return max(_MIN_ROUND_SECONDS, _MIN_LAUNCHES * _time_call(tiny.run))


def _choose_square(devices: Devices, dtype: str, size: int) -> _Candidate:
    """Returns a product of two large square matrices, or of smaller ones if that is slow."""
    small = _build_candidate(devices, (_SMALL_SIZE,) * 3, dtype, chain=1)
    large_seconds = _time_call(small.run) * (size / _SMALL_SIZE) ** 3
    if large_seconds > _ROUND_SECONDS:
        return small
    return _build_candidate(devices, (size,) * 3, dtype)


def _time_call(run: Run) -> float:
    """Returns the seconds of the fastest of a few calls."""
    run(1)  # the first call traces
    return min(_time(run, 1) for _ in range(_MIN_ROUNDS))


def _count_calls(run: Run, least: float) -> int:
    """Returns how many calls in a row take so many seconds at least."""
    num = 1
    seconds = _time(run, num)
    while seconds < least and num < _MOST_CALLS:
        # A little more than it takes, but not much: most of a short time is the launch.
        needed = math.ceil(1.1 * num * least / max(seconds, 1e-9))
        num = min(_MOST_CALLS, max(num + 1, min(10 * num, needed)))
        seconds = _time(run, num)
    return num


def measure_bandwidth(devices: Devices, *, seconds: float) -> BandwidthCheck:
    """Times the addition of one large array to another, in place, on all devices at once.

    The fastest round counts. Nothing is allocated meanwhile: the system has to clear new memory
    first, which would be timed, too.

    Args:
        devices: That add.
        seconds: After which no more rounds are begun, once there are three.
    """
    num_bytes = _GPU_ARRAY_BYTES if _is_gpu(devices) else _CPU_ARRAY_BYTES
    add = backends.current().build_additions(devices, num_bytes // 4, _ADDITIONS)
    moved = _ARRAYS_MOVED * num_bytes * _ADDITIONS * len(devices)
    best, _ = _find_fastest([_Candidate(amount=moved, run=add)], _find_least(devices), seconds)
    return BandwidthCheck(
        num_bytes=best.amount_of_a_round, num_rounds=len(best.rounds), seconds=min(best.rounds)
    )


def _build_candidate(
    devices: Devices, sizes: Sizes, dtype: str, *, chain: int | None = None
) -> _Candidate:
    """Builds a product, chained within a call where it takes less time than a large square one."""
    flops = 2 * math.prod(sizes)
    if chain is None:
        wanted = 2 * _CPU_SIZE**3
        if _is_gpu(devices):
            wanted = _GPU_CHAIN * 2 * _GPU_SIZE**3
        chain = max(1, min(_LONGEST_CHAIN, wanted // flops))
    run = backends.current().build_products(devices, sizes, dtype, chain)
    return _Candidate(sizes=sizes, amount=flops * chain * len(devices), run=run)


def _time(run: Run, num_calls: int) -> float:
    start = time.perf_counter()
    run(num_calls)
    return time.perf_counter() - start
