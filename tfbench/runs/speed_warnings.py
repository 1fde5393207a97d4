"""Warnings that a speed may be wrong.

The machine was disturbed or limited, or the measurement was too short or unsteady.
"""

import math
from collections.abc import Iterator

from tfbench.machine.energy_readings import GpuState
from tfbench.runs.record import StepSpan
from tfbench.runs.spans import (
    RunView,
    StepTimes,
    Values,
    WarningTable,
    count_steps,
    cut_by_time,
    mean_step_time,
    sum_seconds,
    trend_deviations,
    without_beginnings,
)
from tfbench.tags import SWEEP_TAG
from tfbench.wording import count, format_share

# share of the machine's cores: what a training that uses all of them then loses of its speed
MAX_OTHER_LOAD = 0.1
# share of the wanted processor time: as much as repeats of a run on a quiet machine differ by
MAX_STOLEN = 0.02
# Each takes 0.1 to 10 ms: 0.05 to 5 s together. A few pages of idle programs are swapped wherever
# there is swap space.
MAX_DISK_PAGES = 500
_READ_BACK = ("compiler", "precision", "tensor_float_32", "deterministic")

# Bits of the driver's reasons for a clock below the highest (nvml.h, nvmlClocksEventReasons);
# others, such as an idle GPU or a clock that was set, are no disturbance.
CLOCK_REASONS = {
    0x08: "by its hardware (heat, power or an external power brake)",
    0x20: "by its driver (heat)",
    0x40: "by its hardware (heat)",
    0x80: "by an external power brake",
    0x04: "by its power limit",
}
MIN_SHARE = 0.02  # of the checks of a GPU: a cause that is seen less often is left out
# fewer: a 90th percentile is but the slowest of them, and one span in ten moves any measure of
# spread
MIN_SPANS = 10
# Median distance from the median over the median: normal times then have a standard deviation of 15
# %.
MAX_SPREAD = 0.1
# 90th percentile over median, if less than half of the steps are slow. Normal times with a spread
# of 10 % reach 1.19.
MAX_TAIL = 1.5
# of the time, what the beginnings of epochs take beyond other steps: as much as repeats differ by
MAX_BEGINNINGS = 0.1
# change of the step time from the first third to the last: what is often quoted as a gain
MAX_DRIFT = 0.05
# that trends are tested over: many spans together hide what is only common to neighbours
NUM_STRETCHES = 20
# of a normal distribution: spans that know nothing of each other go beyond in 1 run of 100
TREND_DEVIATIONS = 2.58

MACHINE = WarningTable()
SPEED = WarningTable()  # of a training, not of a profile


@MACHINE.row(
    "{lines} of the journal could not be read: an epoch or step times may be missing.",
    "A killed process leaves one such line; if none was killed, check the disk.",
)
def _unreadable_lines(run: RunView) -> Iterator[Values]:
    if number := run.result.num_unreadable_lines:
        yield {"lines": count(number, "line")}


@MACHINE.row(
    "Other processes used {others:.1f} of {cores} CPU cores. Measured speed may be too low.",
    "Stop them, or use an idle machine.",
)
def _other_load(run: RunView) -> Iterator[Values]:
    usage = run.result.usage
    if usage and run.result.environment:
        others = (usage.busy_cpu_seconds - usage.own_cpu_seconds) / usage.seconds
        if others > MAX_OTHER_LOAD * usage.num_logical_cores:
            yield {"others": others, "cores": usage.num_logical_cores}


@MACHINE.row(
    "The hypervisor gave {share:.1f} % of the CPU time to other machines. Measured speed may be too"
    " low.",
    "Use a machine whose cores are not shared, or try later.",
)
def _stolen_time(run: RunView) -> Iterator[Values]:
    if usage := run.result.usage:
        # Time is only stolen from a virtual core that has work to do, so that its share is of the
        # time that was wanted.
        wanted = usage.busy_cpu_seconds + usage.stolen_cpu_seconds
        if usage.stolen_cpu_seconds > MAX_STOLEN * wanted:
            yield {"share": 100 * usage.stolen_cpu_seconds / wanted}


@MACHINE.row(
    "Training waited for the disk: {swapped:,} pages were swapped, {faults:,} read (major page"
    " faults).",
    "Run again, now that files are cached; if it persists, close other programs or use a machine"
    " with more memory.",
)
def _waiting_for_disk(run: RunView) -> Iterator[Values]:
    usage = run.result.usage
    if usage and max(usage.swapped_pages, usage.major_page_faults) > MAX_DISK_PAGES:
        yield {"swapped": usage.swapped_pages, "faults": usage.major_page_faults}


@MACHINE.row(
    "The control group allows {quota:g} of {cores} CPU cores{held}. This run does not show the"
    " speed of all cores.",
    "Lift the quota, or use --set training.intra_op_threads={threads}.",
)
def _cpu_quota(run: RunView) -> Iterator[Values]:
    environment = run.result.environment
    usage = run.result.usage
    if environment is None or environment.cpu_quota_cores is None:
        return
    quota = environment.cpu_quota_cores
    if quota < environment.usable_cores:
        held = ""
        if usage and usage.throttled_seconds is not None:
            held = f" and held threads back for {usage.throttled_seconds:.3g} s"
        yield {
            "quota": quota,
            "cores": environment.usable_cores,
            "held": held,
            "threads": max(1, int(quota)),
        }


@MACHINE.row(
    "CPU governor is `{governor}`; clock speed may change during a run.", "Set it to `performance`."
)
def _cpu_governor(run: RunView) -> Iterator[Values]:
    environment = run.result.environment
    if environment and environment.cpu_governor not in (None, "performance"):
        yield {"governor": environment.cpu_governor}


@MACHINE.row(
    "training.{name} was {used}, but the recipe asks for {asked}.",
    "Do not compare this run with others of the recipe.",
)
def _not_as_asked(run: RunView) -> Iterator[Values]:
    settings = run.result.settings
    if settings is None:
        return
    training = run.result.request.recipe.training
    asked = {name: getattr(training, name) for name in _READ_BACK}
    asked["compiler"] = training.compiler_used
    for name, value in asked.items():
        used = getattr(settings, name)
        if used != value:
            yield {"name": name, "used": used, "asked": value}


def _states_by_gpu(run: RunView) -> dict[str, list[GpuState]]:
    """Returns the states in which each GPU in use was seen."""
    states_by_gpu: dict[str, list[GpuState]] = {}
    for machine in run.result.machine_states:
        for gpu, state in machine.gpus.items():
            states_by_gpu.setdefault(gpu, []).append(state)
    return states_by_gpu


@MACHINE.row(
    "XLA used flags that the recipe does not have: {flags}.",
    "Unset XLA_FLAGS and TF_XLA_FLAGS, or compare only with runs that have them.",
)
def _xla_flags(run: RunView) -> Iterator[Values]:
    settings = run.result.settings
    if settings is None:
        return
    effective = []
    for flag in settings.xla_flags.split():
        # With this one XLA compiles parts of a network whatever training.compiler says.
        is_auto = flag.startswith("--tf_xla_auto_jit") and not flag.endswith(("=0", "=-1"))
        if is_auto or (settings.compiler == "xla" and flag.startswith("--xla_")):
            effective.append(flag)
    if effective:
        yield {"flags": " ".join(effective)}


@MACHINE.row(
    "GPU {gpu} was throttled {causes}. Measured speed may be too low.",
    "Check its cooling and power limit: `nvidia-smi -q -d PERFORMANCE,POWER`.",
)
def _gpu_held_back(run: RunView) -> Iterator[Values]:
    for gpu, states in _states_by_gpu(run).items():
        checks = [state.clock_reasons for state in states if state.clock_reasons is not None]
        causes = []
        for bit, cause in CLOCK_REASONS.items():
            number = sum(bool(reasons & bit) for reasons in checks)
            if number and number >= MIN_SHARE * len(checks):
                share = format_share(number / len(checks))
                causes.append(f"{cause} in {share} of {count(len(checks), 'check')}")
        if causes:
            yield {"gpu": gpu, "causes": "; ".join(causes)}


@MACHINE.row(
    "Other processes used GPU {gpu} in {share} of {checks}. Measured speed may be too low, and"
    " energy includes theirs.",
    "Stop them (`nvidia-smi` lists them), or use another GPU.",
)
def _gpu_shared(run: RunView) -> Iterator[Values]:
    for gpu, states in _states_by_gpu(run).items():
        numbers = [
            state.num_other_processes for state in states if state.num_other_processes is not None
        ]
        num_shared = sum(number > 0 for number in numbers)
        if num_shared:
            yield {
                "gpu": gpu,
                "share": format_share(num_shared / len(numbers)),
                "checks": count(len(numbers), "check"),
            }


@SPEED.row("No training step was measured: there is no speed, loss or accuracy.")
def _nothing_measured(run: RunView) -> Iterator[Values]:
    if not run.result.spans:
        yield {}


@SPEED.row(
    "No steady steps: {steps} belong to the warm-up, so there is no speed.",
    "Train longer ({longer}).",
)
def _only_warmup(run: RunView) -> Iterator[Values]:
    if run.result.spans and not run.steady:
        steps = count(count_steps(run.result.spans), "measured step")
        yield {"steps": f"all {steps}", "longer": _lasting(run, 5)}


@SPEED.row(
    "Too short: {spans} in {seconds:.3g} s. At least {least} are needed to show how much the speed"
    " varies.",
    "Train longer ({longer}).",
)
def _few_spans(run: RunView) -> Iterator[Values]:
    if SWEEP_TAG in run.result.request.tags:
        return  # whose runs show together how much the speed varies
    if 0 < len(run.steady) < MIN_SPANS:
        yield {
            "spans": count(len(run.steady), "timing"),
            "seconds": run.steady_seconds,
            "least": MIN_SPANS,
            "longer": _lasting(run, 1.2 * run.steady_seconds * MIN_SPANS / len(run.steady)),
        }


def _lasting(run: RunView, seconds: float) -> str:
    """Returns the option by which a run lasts so long after its warm-up.

    It replaces --steps, since the first limit that is reached ends a run.
    """
    option = f"--seconds {math.ceil(seconds)}"
    if run.result.request.recipe.measurement.steps is None:
        return option
    return f"{option} instead of --steps"


@SPEED.row(
    "Slower from step {step:,} on (epoch {epoch}): {later} a step instead of {earlier}.",
    "Look for what began then: another program, heat, a full disk. Then rerun.",
)
def _slower_from_on(run: RunView) -> Iterator[Values]:
    place = run.slow_down
    if place is None:
        return
    span = run.steady[place]
    yield {
        "step": span.first_step,
        "epoch": span.epoch,
        "earlier": _in_words(mean_step_time(run.steady[:place])),
        "later": _in_words(mean_step_time(run.steady[place:])),
    }


def _in_words(seconds: float | None) -> str:
    """Returns the time of a step: "812 ms", "58.7 s"."""
    if seconds is None:
        return "no time"
    if seconds < 1:
        return f"{1e3 * seconds:.3g} ms"
    return f"{seconds:.3g} s"


@SPEED.row(
    "Step times vary around {median}: {findings}.",
    "Check for background load, then rerun with --repeats 5.",
)
def _unsteady(run: RunView) -> Iterator[Values]:
    times = StepTimes(_within_epochs(run))
    median = times.quantile(0.5)
    if not median or len(run.steady) < MIN_SPANS or run.slow_down is not None:
        return
    spread = (times.mad or 0.0) / median
    tail = (times.quantile(0.9) or 0.0) / median
    findings = []
    if spread > MAX_SPREAD:
        findings.append(f"half of the steps differ by {100 * spread:.0f} % or more")
    if tail > MAX_TAIL:
        findings.append(f"10 % of steps take at least {tail:.2g}x as long")
    if findings:
        yield {"findings": ", and ".join(findings), "median": _in_words(median)}


def _within_epochs(run: RunView) -> tuple[StepSpan, ...]:
    """Returns the steady spans but for those with which `fit` begins an epoch.

    All, where too few others are left, or less than an epoch was measured, of which `run.steady`
    has no beginning.
    """
    if run.result.request.recipe.training.feed != "fit":
        return run.steady
    if count_steps(run.steady) < (run.result.steps_per_epoch or 0):
        return run.steady
    others = without_beginnings(run.steady)
    return others if len(others) >= MIN_SPANS else run.steady


@SPEED.row(
    "The first steps of {epochs} took {share} of the time: {first} a step, others {others}.",
    "Keras' `fit` makes its iterator anew for each epoch. To leave them out, use"
    " --set training.feed=pipeline.",
)
def _slow_beginnings(run: RunView) -> Iterator[Values]:
    others = _within_epochs(run)
    usual = mean_step_time(others)
    if not usual or len(others) == len(run.steady):
        return
    kept = {span.first_step for span in others}
    beginnings = [span for span in run.steady if span.first_step not in kept]
    longer = sum_seconds(beginnings) - usual * count_steps(beginnings)
    share = longer / run.steady_seconds
    if share > MAX_BEGINNINGS:
        yield {
            "epochs": count(len(beginnings), "epoch"),
            "share": format_share(share),
            "first": _in_words(mean_step_time(beginnings)),
            "others": _in_words(usual),
        }


@SPEED.row(
    "Steps became {change} during the run: {last} in the last third, {first} in the first.",
    "{action}",
)
def _drifting(run: RunView) -> Iterator[Values]:
    if not run.step_times.quantile(0.5) or len(run.steady) < MIN_SPANS:
        return
    if run.slow_down is not None:
        return
    thirds = cut_by_time(run.steady, 3)
    first = mean_step_time(thirds[0])
    last = mean_step_time(thirds[2])
    if not first or not last:
        return
    change = last / first - 1
    times = map(mean_step_time, cut_by_time(run.steady, NUM_STRETCHES))
    trend = trend_deviations([time for time in times if time is not None])
    is_trend = trend * math.copysign(1, change) > TREND_DEVIATIONS
    if abs(change) <= MAX_DRIFT or not is_trend:
        return
    if change > 0:
        direction = "slower"
        action = "Check for background load and heat, then rerun."
    else:
        direction = "faster"
        measurement = run.result.request.recipe.measurement
        warmup = 10 * measurement.warmup_steps
        longer = f"--set measurement.warmup_steps={warmup}"
        if warmup * first > measurement.warmup_seconds:
            longer += f" --set measurement.warmup_seconds={math.ceil(2 * warmup * first)}"
        action = f"Lengthen the warm-up ({longer}, with {_lasting(run, run.steady_seconds)})."
    yield {
        "change": f"{100 * abs(change):.0f} % {direction}",
        "action": action,
        "first": _in_words(first),
        "last": _in_words(last),
    }
