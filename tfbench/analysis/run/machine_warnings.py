"""Warnings of what disturbs a run or limits it: other load, memory, quota and clock of the processor, XLA, GPUs."""

import re
import statistics
from collections.abc import Callable, Iterator, Sequence

from tfbench.analysis.run.evidence import Evidence, Values, WarningTable
from tfbench.records.energy import GpuState
from tfbench.wording import count, format_share

MAX_OTHER_LOAD = 0.1  # share of the machine's cores: what a training that uses all of them then loses of its speed
MAX_STOLEN = 0.02  # share of the wanted processor time: as much as repeats of a run on a quiet machine differ by
# Each waits for the disk, 0.1 ms (solid state) to 10 ms: 0.05 to 5 s together. A training whose libraries are in memory
# already has next to none; the kernel swaps a few pages of idle programs wherever there is swap space.
MAX_PAGE_FAULTS = MAX_SWAPPED_PAGES = 500
NEAR_MEMORY_LIMIT = 0.9  # of what a control group allows: files that were read, and other processes, count in it, too
_AUTO_JIT = re.compile(r"--tf_xla_auto_jit(?:=(\S+))?")

# Bits of the driver's reasons for a clock below the highest (nvml.h, nvmlClocksEventReasons); others, such as an idle
# GPU or a clock that was set, are no disturbance.
CLOCK_REASONS = {
    0x08: "by its hardware (heat, power or a brake from outside)",
    0x20: "by its driver (heat)",
    0x40: "by its hardware (heat)",
    0x80: "by a power brake from outside",
    0x04: "by its power limit",
}
MIN_SHARE = 0.02  # of the looks at a GPU, from which what held it back is told
MAX_CLOCK_FALL = 0.05  # of the clock over a run
_WARMED_CLOCK_FALL, _WARMED_CELSIUS = 0.02, 5.0  # a smaller fall counts where the GPU became warmer meanwhile

MACHINE = WarningTable()


@MACHINE.row(
    "{lines} of the journal could not be read: an epoch or step times may be missing.",
    "A killed process leaves one such line; if none was killed, check the disk.",
)
def _unreadable_lines(run: Evidence) -> Iterator[Values]:
    if number := run.result.num_unreadable_lines:
        yield {"lines": count(number, "line")}


@MACHINE.row(
    "Other processes used {others:.1f} of {cores} CPU cores. Results may be too slow.",
    "Stop them, or use an idle machine.",
)
def _other_load(run: Evidence) -> Iterator[Values]:
    if (usage := run.result.usage) and run.result.environment:
        others = (usage.busy_cpu_seconds - usage.own_cpu_seconds) / usage.seconds
        if others > MAX_OTHER_LOAD * usage.num_logical_cores:
            yield {"others": others, "cores": usage.num_logical_cores}


@MACHINE.row(
    "The hypervisor gave {share:.1f} % of the CPU time to other machines. Results may be too slow.",
    "Use a machine whose cores are not shared, or try later.",
)
def _stolen_time(run: Evidence) -> Iterator[Values]:
    if usage := run.result.usage:
        # Time is only stolen from a virtual core that has work to do, so that its share is of the time that was wanted.
        wanted = usage.busy_cpu_seconds + usage.stolen_cpu_seconds
        if usage.stolen_cpu_seconds > MAX_STOLEN * wanted:
            yield {"share": 100 * usage.stolen_cpu_seconds / wanted}


@MACHINE.row(
    "The machine swapped {pages:,} pages during training. Results may be too slow.",
    "Close other programs, or use a machine with more memory.",
)
def _swapping(run: Evidence) -> Iterator[Values]:
    if run.result.usage and run.result.usage.swapped_pages > MAX_SWAPPED_PAGES:
        yield {"pages": run.result.usage.swapped_pages}


@MACHINE.row(
    "Training waited {faults:,} times for the disk (major page faults).",
    "Run again, now that files are cached; if it persists, free memory.",
)
def _page_faults(run: Evidence) -> Iterator[Values]:
    if run.result.usage and run.result.usage.major_page_faults > MAX_PAGE_FAULTS:
        yield {"faults": run.result.usage.major_page_faults}


@MACHINE.row(
    "The control group allows {quota:g} of {cores} CPU cores{held}. This run does not show the speed of all cores.",
    "Lift the quota, or use --set training.intra_op_threads={threads}.",
)
def _cpu_quota(run: Evidence) -> Iterator[Values]:
    environment, usage = run.result.environment, run.result.usage
    quota = environment.cpu_quota_cores if environment else None
    if environment and quota is not None and quota < environment.usable_cores:
        throttled = usage.throttled_seconds if usage else None
        held = "" if throttled is None else f" and held threads back for {throttled:.3g} s"
        yield {"quota": quota, "cores": environment.usable_cores, "held": held, "threads": max(1, int(quota))}


@MACHINE.row("CPU governor is `{governor}`; clock speed may change during a run.", "Set it to `performance`.")
def _cpu_governor(run: Evidence) -> Iterator[Values]:
    governor = run.result.environment.cpu_governor if run.result.environment else None
    if governor not in (None, "performance"):
        yield {"governor": governor}


@MACHINE.row(
    "The measuring process ran with {found}, so it shares cores differently from a usual process.",
    "Use niceness 0 and SCHED_OTHER, or compare only with runs like this one.",
)
def _priority(run: Evidence) -> Iterator[Values]:
    if environment := run.result.environment:
        found = {
            f"niceness {environment.niceness}": (environment.niceness or 0) > 0,
            f"policy {environment.scheduling_policy}": environment.scheduling_policy not in (None, "SCHED_OTHER"),
        }
        if any(found.values()):
            yield {"found": ", ".join(name for name, holds in found.items() if holds)}


@MACHINE.row(
    "The process used {used:,.0f} of the {limit:,.0f} MiB that its control group allows. Near the limit it slows down.",
    "Raise the limit, or use smaller batches.",
)
def _memory_limit(run: Evidence) -> Iterator[Values]:
    limit = run.result.environment.memory_limit_bytes if run.result.environment else None
    if limit and run.result.usage and (used := run.result.usage.peak_memory_bytes) > NEAR_MEMORY_LIMIT * limit:
        yield {"used": used / 2**20, "limit": limit / 2**20}


@MACHINE.row(
    'XLA compiled parts of the network ({flag} in TF_XLA_FLAGS), but training.compiler is "{asked}".',
    "Unset TF_XLA_FLAGS.",
)
def _automatic_xla(run: Evidence) -> Iterator[Values]:
    if flag := _auto_jit(run):
        yield {"flag": flag, "asked": run.result.request.recipe.training.compiler_used}


@MACHINE.row(
    'The compiler was "{used}", but training.compiler is "{asked}".',
    "Do not compare this run with others of the recipe.",
)
def _other_compiler(run: Evidence) -> Iterator[Values]:
    settings, asked = run.result.settings, run.result.request.recipe.training.compiler_used
    if settings and settings.compiler != asked:
        yield {"used": settings.compiler, "asked": asked}


@MACHINE.row(
    "XLA used flags that the recipe does not have: {flags}.",
    "Unset XLA_FLAGS, or compare only with runs that have them.",
)
def _xla_flags(run: Evidence) -> Iterator[Values]:
    if settings := run.result.settings:
        flags = [flag for flag in settings.xla_flags.split() if flag.startswith("--xla_")]
        if flags and (settings.compiler == "xla" or _auto_jit(run)):
            yield {"flags": " ".join(flags)}


def _auto_jit(run: Evidence) -> str:
    found = _AUTO_JIT.finditer(run.result.settings.xla_flags) if run.result.settings else ()
    return next((flag[0] for flag in found if flag[1] not in ("-1", "0")), "")


def _gpus(run: Evidence) -> Iterator[tuple[str, list[GpuState]]]:
    """Yields the GPUs in use, each with what was seen of it."""
    looks = run.result.machine_states
    for name in dict.fromkeys(name for look in looks for name in look.gpus):
        yield name, [look.gpus[name] for look in looks if name in look.gpus]


@MACHINE.row(
    "The clock of GPU {gpu} was held back {told}. A cooler GPU of its kind may be faster.",
    "Check its cooling and power limit: `nvidia-smi -q -d PERFORMANCE,POWER`.",
)
def _gpu_held_back(run: Evidence) -> Iterator[Values]:
    for gpu, states in _gpus(run):
        reasons = [state.clock_reasons for state in states if state.clock_reasons is not None]
        shares = {text: sum(bool(bits & bit) for bits in reasons) for bit, text in CLOCK_REASONS.items()}
        told = [
            f"{text} in {format_share(number / len(reasons))} of {count(len(reasons), 'look')}"
            for text, number in shares.items()
            if number and number >= MIN_SHARE * len(reasons)
        ]
        if told:
            yield {"gpu": gpu, "told": "; ".join(told)}


@MACHINE.row(
    "The power limit of GPU {gpu} is {limit:.0f} W; its default is {default:.0f} W.",
    "Restore it with `nvidia-smi -pl {default:.0f}`, or compare only with runs at this limit.",
)
def _gpu_power_limit(run: Evidence) -> Iterator[Values]:
    for gpu, states in _gpus(run):
        known = ((state.power_limit_watts, state.default_power_limit_watts) for state in states)
        lowered = next((pair for pair in known if None not in pair and (pair[0] or 0) < (pair[1] or 0) - 0.5), None)
        if lowered:
            yield {"gpu": gpu, "limit": lowered[0], "default": lowered[1]}


@MACHINE.row(
    "Other processes used GPU {gpu} in {share} of {looks}. Results may be too slow, and energy includes theirs.",
    "Stop them (`nvidia-smi` lists them), or use another GPU.",
)
def _gpu_shared(run: Evidence) -> Iterator[Values]:
    for gpu, states in _gpus(run):
        numbers = [state.num_other_processes for state in states if state.num_other_processes is not None]
        if any(numbers):
            shared = sum(number > 0 for number in numbers)
            yield {"gpu": gpu, "share": format_share(shared / len(numbers)), "looks": count(len(numbers), "look")}


@MACHINE.row(
    "The clock of GPU {gpu} fell by {fall}, from {first:.0f} to {last:.0f} MHz{warmed}. Longer runs are slower.",
    "Warm it up first, check its cooling, or lock its clock (`nvidia-smi -lgc`).",
)
def _gpu_clock_fell(run: Evidence) -> Iterator[Values]:
    for gpu, states in _gpus(run):
        first, last = _thirds(states, lambda state: state.clock_mhz)
        cold, warm = _thirds(states, lambda state: state.temperature_celsius)
        is_warmer, fall = warm - cold >= _WARMED_CELSIUS, 1 - last / first if first else 0.0
        if fall > MAX_CLOCK_FALL or (fall > _WARMED_CLOCK_FALL and is_warmer):
            warmed = f" while it warmed from {cold:.0f} to {warm:.0f} °C" if is_warmer else ""
            yield {"gpu": gpu, "fall": format_share(fall), "first": first, "last": last, "warmed": warmed}


@MACHINE.row("GPU {gpu} had {errors} (ECC) during training. Do not trust this run.", "Details: `nvidia-smi -q -d ECC`.")
def _gpu_memory_errors(run: Evidence) -> Iterator[Values]:
    for gpu, states in _gpus(run):
        errors = [state.ecc_errors for state in states if state.ecc_errors is not None]
        if errors and (more := max(errors) - errors[0]) > 0:
            yield {"gpu": gpu, "errors": count(more, "memory error")}


@MACHINE.row("GPU {gpu} stopped answering before training ended. It may have fallen off the bus.")
def _gpu_lost(run: Evidence) -> Iterator[Values]:
    yield from ({"gpu": gpu} for gpu, _ in _gpus(run) if gpu not in run.result.machine_states[-1].gpus)


def _thirds(states: Sequence[GpuState], read: Callable[[GpuState], float | None]) -> tuple[float, float]:
    """Returns the medians of the first and of the last third of what was seen; 0 twice: of too little."""
    values = [value for state in states if (value := read(state)) is not None]
    third = len(values) // 3
    return (statistics.median(values[:third]), statistics.median(values[-third:])) if third > 1 else (0.0, 0.0)
