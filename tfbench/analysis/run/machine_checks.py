"""What of the machine disturbs a run or limits it: other load, memory, quota and clock of the processor, XLA flags."""

import re
from collections.abc import Iterator

from tfbench.records.machine import Environment, Usage
from tfbench.records.run import RunResult

MAX_OTHER_LOAD = 0.1  # share of the machine's cores: what a training that uses all of them then loses of its speed
MAX_STOLEN = 0.02  # share of the wanted processor time: as much as repeats of a run on a quiet machine differ by
# Each waits for the disk, 0.1 ms (solid state) to 10 ms: 0.05 to 5 s together. A training whose libraries are in memory
# already has next to none.
MAX_PAGE_FAULTS = 500
# The kernel takes a few from idle programs wherever there is swap space; each is waited for as long as a page fault.
MAX_SWAPPED_PAGES = 500
NEAR_MEMORY_LIMIT = 0.9  # of what a control group allows: files that were read, and other processes, count in it, too
_USUAL_POLICY = "SCHED_OTHER"
_AUTO_JIT = re.compile(r"--tf_xla_auto_jit(?:=(\S+))?")
_AUTO_JIT_OFF = ("-1", "0")


def check_machine(result: RunResult) -> Iterator[str]:
    """Yields what the machine did beside the training, and what it kept from it; nothing of what was not recorded."""
    if result.usage and result.environment:
        yield from _check_other_load(result.usage, result.environment)
    if result.usage:
        yield from _check_stolen_time(result.usage)
        yield from _check_memory(result.usage)
    if result.environment:
        yield from _check_quota(result.environment, result.usage)
        yield from _check_governor(result.environment)
        yield from _check_priority(result.environment)
        yield from _check_memory_limit(result.environment, result.usage)
    yield from _check_xla(result)


def _check_other_load(usage: Usage, environment: Environment) -> Iterator[str]:
    others = (usage.busy_cpu_seconds - usage.own_cpu_seconds) / usage.seconds
    if others > MAX_OTHER_LOAD * usage.num_logical_cores:
        load = environment.load_average
        before = "" if load is None else f"; the load average before was {load:.2f}"
        yield (
            f"other processes kept {others:.1f} of {usage.num_logical_cores} processor cores busy during the "
            f"training{before}: times may be too long. Stop them, or measure on a machine that nobody else uses."
        )


def _check_stolen_time(usage: Usage) -> Iterator[str]:
    # Time is only stolen from a virtual core that has work to do, so that its share is of the time that was wanted.
    wanted = usage.busy_cpu_seconds + usage.stolen_cpu_seconds
    if usage.stolen_cpu_seconds > MAX_STOLEN * wanted:
        share = 100 * usage.stolen_cpu_seconds / wanted
        yield (
            f"the hypervisor gave {share:.1f} % of the processor time that was wanted "
            f"({usage.stolen_cpu_seconds:.3g} s) to other machines: times may be too long. Measure on a machine whose "
            "cores are not shared, or at another hour."
        )


def _check_memory(usage: Usage) -> Iterator[str]:
    if usage.swapped_pages > MAX_SWAPPED_PAGES:
        yield (
            f"the machine swapped {usage.swapped_pages:,} pages during the training: memory is short, and times may "
            "hold waiting for the disk. Close other programs, or use a machine with more memory."
        )
    if usage.major_page_faults > MAX_PAGE_FAULTS:
        yield (
            f"the training waited {usage.major_page_faults:,} times for the disk to bring memory back (major page "
            "faults). Run it again, now that files are in memory; if it stays so, memory is short: close other "
            "programs, or use a machine with more."
        )


def _check_quota(environment: Environment, usage: Usage | None) -> Iterator[str]:
    quota = environment.cpu_quota_cores
    if quota is None or quota >= environment.usable_cores:
        return
    throttled = usage.throttled_seconds if usage else None
    held = "" if throttled is None else f" (which held threads back for {throttled:.3g} s, added up)"
    yield (
        f"the control group allows {quota:g} of {environment.usable_cores} processor cores{held}: this run says "
        "nothing of the speed of all of them. Lift the quota, or set training.intra_op_threads = "
        f"{max(1, int(quota))} so that no thread is held back."
    )


def _check_governor(environment: Environment) -> Iterator[str]:
    governor = environment.cpu_governor
    if governor not in (None, "performance"):
        yield (
            f"the processor's clock is governed by {governor}, not by performance, and may change within a run: times "
            "may be too long, and differ. Use performance (cpupower frequency-set --governor performance)."
        )


def _check_priority(environment: Environment) -> Iterator[str]:
    """Points out a process that others go before, or that goes before all others."""
    found = []
    if (environment.niceness or 0) > 0:
        found.append(f"niceness {environment.niceness}")
    if (environment.autogroup_niceness or 0) > 0:
        found.append(f"niceness {environment.autogroup_niceness} of its session")
    if environment.scheduling_policy not in (None, _USUAL_POLICY):
        found.append(f"policy {environment.scheduling_policy}")
    if found:
        yield (
            f"the measuring process was scheduled with {', '.join(found)}: whatever else runs on the machine takes "
            "another share of its cores than beside a usual process. Start tfbench with niceness 0 and "
            f"{_USUAL_POLICY}, or compare only with runs that had the same."
        )


def _check_memory_limit(environment: Environment, usage: Usage | None) -> Iterator[str]:
    limit = environment.memory_limit_bytes
    if limit and usage and usage.peak_memory_bytes > NEAR_MEMORY_LIMIT * limit:
        yield (
            f"the process took {usage.peak_memory_bytes / 2**20:,.0f} MiB of memory, and its control group allows "
            f"{limit / 2**20:,.0f}: near its limit a group is slowed down to give memory back, and beyond it processes "
            "are killed. Raise the limit, or train with smaller batches."
        )


def _check_xla(result: RunResult) -> Iterator[str]:
    settings, asked = result.settings, result.request.recipe.training.compiler_used
    if settings is None:
        return
    automatic = [flag for flag in _AUTO_JIT.finditer(settings.xla_flags) if flag[1] not in _AUTO_JIT_OFF]
    if automatic:
        yield (
            f"XLA was switched on behind the recipe's back, for parts of the network ({automatic[-1][0]} in "
            f'TF_XLA_FLAGS), where the recipe has training.compiler = "{asked}". Unset TF_XLA_FLAGS; '
            'training.compiler = "xla" compiles all of it.'
        )
    if settings.compiler != asked:
        yield (
            f'the compiler was "{settings.compiler}", where the recipe has training.compiler = "{asked}". '
            "Do not compare this run with others of the recipe."
        )
    others = [flag for flag in settings.xla_flags.split() if flag.startswith("--xla_")]
    if others and (settings.compiler == "xla" or automatic):
        yield (
            f"XLA compiled with flags that the recipe does not have: {' '.join(others)}. Unset XLA_FLAGS, or compare "
            "only with runs that had the same."
        )
