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
    ],
)
def test_an_unusual_priority_is_pointed_out(fields: dict[str, Any], what: str) -> None:
    assert check(environment=build_environment(**fields)) == [
        f"the measuring process was scheduled with {what}: whatever else runs on the machine takes another share of "
        "its cores than beside a usual process. Start tfbench with niceness 0 and SCHED_OTHER, or compare only with "
        "runs that had the same."
    ]


@pytest.mark.parametrize("niceness", [0, -5])
def test_a_usual_priority_or_a_higher_one_needs_no_caution(niceness: int) -> None:
    usual = {"scheduling_policy": "SCHED_OTHER", "autogroup_niceness": 0, "cpuset": "0-7"}
    assert check(environment=build_environment(niceness=niceness, **usual)) == []


@pytest.mark.parametrize(("mebibytes", "is_near"), [(900, False), (901, True), (2000, True)])
def test_memory_near_the_limit_of_the_control_group_is_pointed_out(mebibytes: int, is_near: bool) -> None:
    environment = build_environment(niceness=0, memory_limit_bytes=1000 * 2**20)
    found = check(environment=environment, usage=build_usage(peak_memory_bytes=mebibytes * 2**20))
    text = (
        f"the process took {mebibytes:,} MiB of memory, and its control group allows 1,000: near its limit a group is "
        "slowed down to give memory back, and beyond it processes are killed. Raise the limit, or train with smaller "
        "batches."
    )
    assert found == ([text] if is_near else [])


def test_other_load_is_pointed_out_in_cores_with_the_load_before() -> None:
    # 150 s of processor time in 100 s: one and a half cores.
    assert check_usage(busy_cpu_seconds=550.0) == [
        "other processes kept 1.5 of 8 processor cores busy during the training; the load average before was 0.10: "
        "times may be too long. Stop them, or measure on a machine that nobody else uses."
    ]


def test_other_load_may_keep_a_tenth_of_the_cores_busy() -> None:
    assert check_usage(busy_cpu_seconds=479.0) == []  # 0.79 of 8 cores
    assert len(check_usage(busy_cpu_seconds=481.0)) == 1
    assert check_usage(busy_cpu_seconds=481.0, num_logical_cores=16) == []


def test_other_load_is_of_the_whole_machine_where_the_run_may_use_a_part_of_it() -> None:
    usage = build_usage(seconds=100.0, own_cpu_seconds=400.0, busy_cpu_seconds=2400.0, num_logical_cores=64)
    (caution,) = check(usage=usage, environment=build_environment(num_logical_cores=64, usable_cores=4))
    assert caution.startswith("other processes kept 20.0 of 64 processor cores busy")


def test_other_load_is_pointed_out_where_the_load_before_is_not_known() -> None:
    usage = build_usage(seconds=100.0, own_cpu_seconds=400.0, busy_cpu_seconds=550.0)
    (caution,) = check(usage=usage, environment=build_environment(load_average=None))
    assert "during the training: times may be too long" in caution
    assert check(usage=usage, environment=None) == []


def test_counters_that_were_read_apart_are_no_load() -> None:
    assert check_usage(busy_cpu_seconds=399.0) == []


def test_stolen_time_is_pointed_out_as_a_share_of_what_was_wanted() -> None:
    # 100 s stolen where 400 s were given: a fifth of 500 s.
    assert check_usage(stolen_cpu_seconds=100.0) == [
        "the hypervisor gave 20.0 % of the processor time that was wanted (100 s) to other machines: times may be too "
        "long. Measure on a machine whose cores are not shared, or at another hour."
    ]


def test_a_fiftieth_of_the_time_may_be_stolen() -> None:
    assert check_usage(stolen_cpu_seconds=8.1) == []  # of 408.1 s
    assert len(check_usage(stolen_cpu_seconds=8.2)) == 1  # of 408.2 s


def test_swapping_is_pointed_out() -> None:
    assert check_usage(swapped_pages=12_345) == [
        "the machine swapped 12,345 pages during the training: memory is short, and times may hold waiting for the "
        "disk. Close other programs, or use a machine with more memory."
    ]
    assert check_usage(swapped_pages=500) == []
    assert len(check_usage(swapped_pages=501)) == 1


def test_waiting_for_the_disk_is_pointed_out() -> None:
    assert check_usage(major_page_faults=500) == []
    assert check_usage(major_page_faults=501) == [
        "the training waited 501 times for the disk to bring memory back (major page faults). Run it again, now that "
        "files are in memory; if it stays so, memory is short: close other programs, or use a machine with more."
    ]


def test_a_quota_below_the_usable_cores_is_pointed_out_with_the_time_it_took() -> None:
    environment = build_environment(cpu_quota_cores=2.5)
    usage = build_usage(throttled_seconds=1.25)
    assert check(environment=environment, usage=usage) == [
        "the control group allows 2.5 of 8 processor cores (which held threads back for 1.25 s, added up): this run "
        "says nothing of the speed of all of them. Lift the quota, or set training.intra_op_threads = 2 so that no "
        "thread is held back."
    ]


@pytest.mark.parametrize(("quota", "threads"), [(0.5, 1), (1.0, 1), (7.9, 7)])
def test_the_threads_that_fit_a_quota_are_named(quota: float, threads: int) -> None:
    (caution,) = check(environment=build_environment(cpu_quota_cores=quota), usage=None)
    assert caution.startswith(f"the control group allows {quota:g} of 8 processor cores: this run says nothing")
    assert f"training.intra_op_threads = {threads} so that" in caution


def test_a_quota_of_all_usable_cores_limits_nothing() -> None:
    assert check(environment=build_environment(cpu_quota_cores=8.0)) == []
    assert check(environment=build_environment(cpu_quota_cores=7.9, usable_cores=4)) == []


@pytest.mark.parametrize("governor", ["powersave", "performance, powersave"])
def test_another_governor_than_performance_is_pointed_out(governor: str) -> None:
    assert check(environment=build_environment(cpu_governor=governor)) == [
        f"the processor's clock is governed by {governor}, not by performance, and may change within a run: times may "
        "be too long, and differ. Use performance (cpupower frequency-set --governor performance)."
    ]


@pytest.mark.parametrize("governor", ["performance", None])
def test_performance_or_an_unknown_governor_needs_no_caution(governor: str | None) -> None:
    assert check(environment=build_environment(cpu_governor=governor)) == []


@pytest.mark.parametrize("flag", ["--tf_xla_auto_jit=2", "--tf_xla_auto_jit=fusible", "--tf_xla_auto_jit"])
def test_automatic_xla_is_pointed_out(flag: str) -> None:
    assert check_settings(f"{flag} --tf_xla_cpu_global_jit") == [
        f"XLA was switched on behind the recipe's back, for parts of the network ({flag} in TF_XLA_FLAGS), where the "
        'recipe has training.compiler = "graph". Unset TF_XLA_FLAGS; training.compiler = "xla" compiles all of it.'
    ]


@pytest.mark.parametrize("flags", ["", "--tf_xla_auto_jit=0", "--tf_xla_auto_jit=-1", "--tf_xla_cpu_global_jit"])
def test_automatic_xla_that_is_off_needs_no_caution(flags: str) -> None:
    assert check_settings(flags) == []


@pytest.mark.parametrize(
    ("compiler", "asked", "meant"), [("xla", None, "graph"), ("graph", "xla", "xla"), ("eager", "graph", "graph")]
)
def test_a_compiler_other_than_the_recipes_is_pointed_out(compiler: str, asked: str | None, meant: str) -> None:
    assert check_settings("", compiler=compiler, asked=asked) == [
        f'the compiler was "{compiler}", where the recipe has training.compiler = "{meant}". Do not compare this run '
        "with others of the recipe."
    ]
    assert check_settings("", compiler=meant, asked=asked) == []


def test_flags_of_xla_are_pointed_out_where_it_compiled_something() -> None:
    flags = "--xla_gpu_autotune_level=0 --xla_cpu_enable_fast_math=true"
    text = (
        f"XLA compiled with flags that the recipe does not have: {flags}. Unset XLA_FLAGS, or compare only with runs "
        "that had the same."
    )
    assert check_settings(flags, compiler="xla", asked="xla") == [text]
    assert check_settings(f"{flags} --tf_xla_auto_jit=2")[-1] == text
    assert check_settings(flags) == []
