"""What a run's devices can compute and move at most, timed in rounds.

What is timed are operations that the backend offers.
"""

import dataclasses
import math
import time
from collections.abc import Callable, Sequence

from tfbench import backends
from tfbench.machine.usage import read_counters
from tfbench.records.machine import PeakCheck
from tfbench.records.profile import BandwidthCheck

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


Sizes = tuple[
    int, int, int
]  # of a product of matrices: rows, what both factors have in common, columns
Run = Callable[[int], None]  # does so many calls, and waits for the devices


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


def measure_peak(
    devices: Sequence[str], precision: str, *, seconds: float, own_sizes: Sizes | None = None
) -> PeakCheck:
    """Times products of matrices on all devices at once; the fastest round of any counts.

    They are square ones, and such as the network's own, in turns: which of them a device is faster
    at depends on it. Noise only ever makes a round slower, so that the fastest is nearest to what
    the devices can do.

    Args:
        devices: As the backend names them: "/device:CPU:0", "gpu:0".
        precision: Of the layers, as Keras names it; products are of what it computes in.
        seconds: After which no more rounds are begun, once there are three of each product.
        own_sizes: Of the product that most of the network's work is in, on one device; None: not
            known.
    """
    dtype = _COMPUTE_DTYPES[precision]
    least = _find_least(devices)
    largest = _GPU_SIZE if _is_gpu(devices) else _CPU_SIZE
    candidates = [_choose_square(devices, dtype, largest)]
    if own_sizes:
        num_rows, common, num_columns = (
            min(size, largest) for size in own_sizes
        )  # as fast, and with less memory
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
    """Times candidates in turns, in rounds that take so long at least.

    Says how busy others were meanwhile.
    """
    for one in candidates:
        one.run(1)  # the first call traces
        one.num_calls = _count_calls(one.run, least)
    before = read_counters()
    while (
        len(candidates[0].rounds) < _MIN_ROUNDS
        or sum(sum(one.rounds) for one in candidates) < seconds
    ):
        for one in candidates:
            one.rounds.append(_time(one.run, one.num_calls))
    best = max(candidates, key=lambda one: one.amount_of_a_round / min(one.rounds))
    return best, read_counters().other_share(before)


def _is_gpu(devices: Sequence[str]) -> bool:
    return "gpu" in devices[0].lower()


def _find_least(devices: Sequence[str]) -> float:
    """Returns how long a round must take at least, in seconds."""
    launch = _build_candidate(
        devices, (1, 1, 1), "float32", chain=1
    ).run  # computes next to nothing
    launch(1)  # the first call traces
    return max(
        _MIN_ROUND_SECONDS, _MIN_LAUNCHES * min(_time(launch, 1) for _ in range(_MIN_ROUNDS))
    )


def _choose_square(devices: Sequence[str], dtype: str, size: int) -> _Candidate:
    """Returns a product of two large square matrices, or of smaller ones if slow."""
    small = _build_candidate(devices, (_SMALL_SIZE,) * 3, dtype, chain=1)
    small.run(1)  # the first call traces
    if (
        min(_time(small.run, 1) for _ in range(_MIN_ROUNDS)) * (size / _SMALL_SIZE) ** 3
        > _ROUND_SECONDS
    ):
        return small
    return _build_candidate(devices, (size,) * 3, dtype)


def _count_calls(run: Run, least: float) -> int:
    """Returns how many calls in a row take so many seconds at least."""
    num = 1
    while (seconds := _time(run, num)) < least and num < _MOST_CALLS:
        # A little more than it takes, unless the time is so short that most of it is the launch.
        num = min(
            _MOST_CALLS,
            max(num + 1, min(10 * num, math.ceil(1.1 * num * least / max(seconds, 1e-9)))),
        )
    return num


def measure_bandwidth(devices: Sequence[str], *, seconds: float) -> BandwidthCheck:
    """Times the addition of one large array to another, in place, on all devices at once.

    The fastest round counts.

    Nothing is allocated meanwhile: new memory has to be cleared by the system first, which would be
    timed, too.

    Args:
        devices: As the backend names them.
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
    devices: Sequence[str], sizes: Sizes, dtype: str, *, chain: int | None = None
) -> _Candidate:
    """Builds a product, chained within a call where it takes little time.

    That is less time than a large square product takes.
    """
    num_rows, common, num_columns = sizes
    flops = 2 * num_rows * common * num_columns
    if chain is None:
        is_gpu = _is_gpu(devices)
        wanted = _GPU_CHAIN * 2 * _GPU_SIZE**3 if is_gpu else 2 * _CPU_SIZE**3
        chain = max(1, min(_LONGEST_CHAIN, wanted // flops))
    run = backends.current().build_products(devices, sizes, dtype, chain)
    return _Candidate(sizes=sizes, amount=flops * chain * len(devices), run=run)


def _time(run: Run, num_calls: int) -> float:
    start = time.perf_counter()
    run(num_calls)
    return time.perf_counter() - start
