"""What is said of a machine that disturbs or limits a run: each text, and each threshold from both sides."""

from typing import Any

import pytest

from builders import (
    build_environment,
    build_recipe,
    build_request,
    build_result,
    build_settings,
    build_usage,
)
from tfbench.analysis.run.machine_checks import check_machine


def check(**fields: Any) -> list[str]:
    return list(check_machine(build_result(**fields)))


def check_usage(**fields: Any) -> list[str]:
    """Checks 100 seconds of a machine with eight usable cores, four of them kept busy by the run itself."""
    return check(usage=build_usage(**{"seconds": 100.0, "own_cpu_seconds": 400.0, "busy_cpu_seconds": 400.0} | fields))


def check_settings(xla_flags: str, *, compiler: str = "graph", asked: str | None = None) -> list[str]:
    request = build_request(recipe=build_recipe(training={"compiler": asked}))
    return check(request=request, settings=build_settings(compiler=compiler, xla_flags=xla_flags))


def test_a_quiet_machine_needs_no_caution() -> None:
    assert check() == []
    assert check_usage() == []


def test_what_was_not_recorded_is_not_judged() -> None:
    assert check(usage=None, environment=None, settings=None) == []


@pytest.mark.parametrize(
    ("fields", "what"),
    [
        ({"niceness": 15, "scheduling_policy": "SCHED_OTHER"}, "niceness 15"),
        ({"niceness": 0, "scheduling_policy": "SCHED_IDLE"}, "policy SCHED_IDLE"),
        ({"niceness": 0, "scheduling_policy": "SCHED_FIFO 10"}, "policy SCHED_FIFO 10"),
        (
            {"niceness": 1, "autogroup_niceness": 5, "scheduling_policy": "SCHED_BATCH"},
            "niceness 1, niceness 5 of its session, policy SCHED_BATCH",
        ),
        ({"niceness": 0, "scheduling_policy": "SCHED_OTHER", "autogroup_niceness": 0, "cpuset": "0-7"}, ""),
        ({"niceness": -5, "scheduling_policy": "SCHED_OTHER"}, ""),
    ],
)
def test_an_unusual_priority_is_pointed_out(fields: dict[str, Any], what: str) -> None:
    found = check(environment=build_environment(**fields))
    assert [text.partition(": ")[0] for text in found] == (
        [f"the measuring process was scheduled with {what}"] if what else []
    )


@pytest.mark.parametrize(("mebibytes", "is_near"), [(900, False), (901, True), (2000, True)])
def test_memory_near_the_limit_of_the_control_group_is_pointed_out(mebibytes: int, is_near: bool) -> None:
    environment = build_environment(niceness=0, memory_limit_bytes=1000 * 2**20)
    found = check(environment=environment, usage=build_usage(peak_memory_bytes=mebibytes * 2**20))
    text = f"the process took {mebibytes:,} MiB of memory, and its control group allows 1,000"
    assert [one.partition(": ")[0] for one in found] == ([text] if is_near else [])


@pytest.mark.parametrize(
    ("fields", "beginning"),
    [
        # 150 s of processor time in 100 s: one and a half cores.
        (
            {"busy_cpu_seconds": 550.0},
            "other processes kept 1.5 of 8 processor cores busy during the training; the load average before was 0.10",
        ),
        ({"busy_cpu_seconds": 479.0}, ""),  # 0.79 of 8 cores, of which a tenth may be busy
        ({"busy_cpu_seconds": 481.0}, "other processes kept 0.8 of 8"),
        ({"busy_cpu_seconds": 481.0, "num_logical_cores": 16}, ""),
        ({"busy_cpu_seconds": 399.0}, ""),  # counters that were read apart
        # 100 s stolen where 400 s were given: a fifth of 500 s.
        ({"stolen_cpu_seconds": 100.0}, "the hypervisor gave 20.0 % of the processor time that was wanted (100 s)"),
        ({"stolen_cpu_seconds": 8.1}, ""),  # of 408.1 s, of which a fiftieth may be stolen
        ({"stolen_cpu_seconds": 8.2}, "the hypervisor gave 2.0 %"),
        ({"swapped_pages": 500}, ""),
        ({"swapped_pages": 501}, "the machine swapped 501 pages"),
        ({"major_page_faults": 500}, ""),
        ({"major_page_faults": 501}, "the training waited 501 times for the disk"),
    ],
)
def test_what_takes_time_from_the_run_is_pointed_out_beyond_a_threshold(fields: dict[str, Any], beginning: str) -> None:
    found = check_usage(**fields)
    assert [text[: len(beginning)] for text in found] == ([beginning] if beginning else [])


def test_other_load_is_of_the_whole_machine_where_the_run_may_use_a_part_of_it() -> None:
    usage = build_usage(seconds=100.0, own_cpu_seconds=400.0, busy_cpu_seconds=2400.0, num_logical_cores=64)
    (caution,) = check(usage=usage, environment=build_environment(num_logical_cores=64, usable_cores=4))
    assert caution.startswith("other processes kept 20.0 of 64 processor cores busy")


def test_other_load_is_pointed_out_where_the_load_before_is_not_known() -> None:
    usage = build_usage(seconds=100.0, own_cpu_seconds=400.0, busy_cpu_seconds=550.0)
    (caution,) = check(usage=usage, environment=build_environment(load_average=None))
    assert "during the training: times may be too long" in caution
    assert check(usage=usage, environment=None) == []


@pytest.mark.parametrize(
    ("fields", "throttled", "parts"),
    [
        ({"cpu_quota_cores": 2.5}, 1.25, ("2.5 of 8", "1.25 s, added up", "training.intra_op_threads = 2 so")),
        ({"cpu_quota_cores": 0.5}, None, ("0.5 of 8", "training.intra_op_threads = 1 so")),
        ({"cpu_quota_cores": 7.9}, None, ("7.9 of 8", "training.intra_op_threads = 7 so")),
        ({"cpu_quota_cores": 8.0}, None, ()),
        ({"cpu_quota_cores": 7.9, "usable_cores": 4}, None, ()),
    ],
)
def test_a_quota_below_the_usable_cores_is_pointed_out_with_the_threads_that_fit(
    fields: dict[str, Any], throttled: float | None, parts: tuple[str, ...]
) -> None:
    found = check(environment=build_environment(**fields), usage=build_usage(throttled_seconds=throttled))
    assert len(found) == bool(parts)
    assert all(part in found[0] for part in parts)


@pytest.mark.parametrize(
    ("governor", "is_told"),
    [("powersave", True), ("performance, powersave", True), ("performance", False), (None, False)],
)
def test_another_governor_than_performance_is_pointed_out(governor: str | None, is_told: bool) -> None:
    found = check(environment=build_environment(cpu_governor=governor))
    assert [f"is governed by {governor}, not by performance" in text for text in found] == [True] * is_told


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        *((f"{flag} --tf_xla_cpu_global_jit", flag) for flag in ("--tf_xla_auto_jit=2", "--tf_xla_auto_jit=fusible")),
        ("--tf_xla_auto_jit --tf_xla_cpu_global_jit", "--tf_xla_auto_jit"),
        *((flags, "") for flags in ("", "--tf_xla_auto_jit=0", "--tf_xla_auto_jit=-1", "--tf_xla_cpu_global_jit")),
    ],
)
def test_automatic_xla_is_pointed_out(flags: str, told: str) -> None:
    found = check_settings(flags)
    assert [f"({told} in TF_XLA_FLAGS)" in text for text in found] == ([True] if told else [])


@pytest.mark.parametrize(
    ("compiler", "asked", "meant"), [("xla", None, "graph"), ("graph", "xla", "xla"), ("eager", "graph", "graph")]
)
def test_a_compiler_other_than_the_recipes_is_pointed_out(compiler: str, asked: str | None, meant: str) -> None:
    (caution,) = check_settings("", compiler=compiler, asked=asked)
    assert caution.startswith(f'the compiler was "{compiler}", where the recipe has training.compiler = "{meant}"')
    assert check_settings("", compiler=meant, asked=asked) == []


def test_flags_of_xla_are_pointed_out_where_it_compiled_something() -> None:
    flags = "--xla_gpu_autotune_level=0 --xla_cpu_enable_fast_math=true"
    beginning = f"XLA compiled with flags that the recipe does not have: {flags}."
    (caution,) = check_settings(flags, compiler="xla", asked="xla")
    assert caution.startswith(beginning)
    assert check_settings(f"{flags} --tf_xla_auto_jit=2")[-1].startswith(beginning)
    assert check_settings(flags) == []
