"""What the GPUs did while a run trained that speaks against its speed: held back, shared, or slower than before."""

import statistics
from collections.abc import Callable, Iterator, Sequence

from tfbench.records.energy import GpuState
from tfbench.records.run import RunResult
from tfbench.wording import count, format_share

# Bits of the driver's reasons for a clock below the highest (nvml.h, nvmlClocksEventReasons); others, such as an idle
# GPU or a clock that was set, are no disturbance.
CLOCK_REASONS = {
    0x08: "by its hardware (too hot, too much power drawn, or a brake from outside)",
    0x20: "by its driver, since it was too hot",
    0x40: "by its hardware, since it was too hot",
    0x80: "by a power brake from outside, such as its power supply's",
    0x04: "by its power limit",
}
MIN_SHARE = 0.02  # of the looks at a GPU, from which what held it back is told
MAX_CLOCK_FALL = 0.05  # of the clock over a run
_WARMED_CLOCK_FALL = 0.02  # that is told where the GPU became warmer meanwhile
_WARMED_CELSIUS = 5.0
_MIN_LOOKS = 6  # from which the first third of them can be held against the last


def check_gpus(result: RunResult) -> Iterator[str]:
    """Yields what was seen of each GPU in use beside the training; nothing where nothing was seen."""
    names = list(dict.fromkeys(name for state in result.machine_states for name in state.gpus))
    for address in names:
        states = [state.gpus[address] for state in result.machine_states if address in state.gpus]
        who = f"GPU {address}"
        yield from _check_reasons(who, states)
        yield from _check_power_limit(who, states)
        yield from _check_others(who, states)
        yield from _check_clock(who, states)
        yield from _check_errors(who, states)
        if len(states) < len(result.machine_states) and address not in result.machine_states[-1].gpus:
            yield f"{who} did not answer any more before the training ended: it may have fallen off the bus."


def _check_reasons(who: str, states: Sequence[GpuState]) -> Iterator[str]:
    reasons = [state.clock_reasons for state in states if state.clock_reasons is not None]
    held = {text: sum(bool(bits & bit) for bits in reasons) for bit, text in CLOCK_REASONS.items()}
    told = [
        f"{text} in {format_share(number / len(reasons))} of {count(len(reasons), 'look')}"
        for text, number in held.items()
        if number and number >= MIN_SHARE * len(reasons)
    ]
    if told:
        yield (
            f"the clock of {who} was held back {'; '.join(told)}: another GPU of its kind, cooler or with a higher "
            "limit, may be faster. Look at its cooling and its limit (`nvidia-smi -q -d PERFORMANCE,POWER`)."
        )


def _check_power_limit(who: str, states: Sequence[GpuState]) -> Iterator[str]:
    for state in states:
        limit, default = state.power_limit_watts, state.default_power_limit_watts
        if limit is not None and default is not None and limit < default - 0.5:
            yield (
                f"the power limit of {who} was {limit:.0f} W, below its default of {default:.0f} W: times are those of "
                f"this limit. `nvidia-smi -pl {default:.0f}` sets the default, or compare only with runs at this limit."
            )
            return


def _check_others(who: str, states: Sequence[GpuState]) -> Iterator[str]:
    numbers = [state.num_other_processes for state in states if state.num_other_processes is not None]
    shared = sum(number > 0 for number in numbers)
    if shared:
        yield (
            f"another process computed on {who}, or several, in {format_share(shared / len(numbers))} of "
            f"{count(len(numbers), 'look')}: times may be too long, and its "
            "energy is of all. Stop them (`nvidia-smi` lists them), or use another GPU."
        )


def _check_clock(who: str, states: Sequence[GpuState]) -> Iterator[str]:
    clocks = _thirds(states, lambda state: state.clock_mhz)
    if clocks is None:
        return
    first, last = clocks
    fall = 1 - last / first if first else 0.0
    warmed = _thirds(states, lambda state: state.temperature_celsius)
    is_warmer = warmed is not None and warmed[1] - warmed[0] >= _WARMED_CELSIUS
    if fall > MAX_CLOCK_FALL or (fall > _WARMED_CLOCK_FALL and is_warmer):
        meanwhile = (
            f" while it became warmer, from {warmed[0]:.0f} to {warmed[1]:.0f} °C" if warmed and is_warmer else ""
        )
        yield (
            f"the clock of {who} fell by {format_share(fall)}, from {first:.0f} to {last:.0f} MHz, from the first "
            f"third of the training to the last{meanwhile}: longer runs are slower. Let it warm up before, look at its "
            "cooling, or lock its clock (`nvidia-smi -lgc`)."
        )


def _check_errors(who: str, states: Sequence[GpuState]) -> Iterator[str]:
    errors = [state.ecc_errors for state in states if state.ecc_errors is not None]
    if errors and (more := max(errors) - errors[0]) > 0:
        yield (
            f"the memory of {who} had {count(more, 'error')} (ECC), corrected or not, during the training: its speed "
            "is not to be trusted, nor are its results if one was not corrected. `nvidia-smi -q -d ECC` tells."
        )


def _thirds(states: Sequence[GpuState], read: Callable[[GpuState], float | None]) -> tuple[float, float] | None:
    """Returns the medians of the first and of the last third of what was seen; None: of too little."""
    values = [value for state in states if (value := read(state)) is not None]
    if len(values) < _MIN_LOOKS:
        return None
    third = len(values) // 3
    return statistics.median(values[:third]), statistics.median(values[-third:])
