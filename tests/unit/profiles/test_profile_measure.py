"""Where a step's time goes, against figures worked out by hand.

Tests/support/profiles.py says what was recorded.
"""

import dataclasses
import math
from operator import itemgetter

import pytest

from profiles import (
    MS,
    PEAK,
    build_call,
    build_partly_traced,
    build_profile,
    build_profiled,
    build_round,
)
from tfbench.profiles.estimate import KeptRounds, summarize_profile
from tfbench.profiles.readings import ProfileRound
from tfbench.profiles.step import StepProfile


def summarize(**fields: object) -> StepProfile:
    return summarize_profile(build_profiled(build_profile(**fields)))


def milliseconds(seconds: float) -> float:
    return round(1000 * seconds, 9)


def phases_of(profile: StepProfile) -> dict[str, float]:
    return {phase.name: milliseconds(phase.seconds) for phase in profile.phases}


def checks_of(profile: StepProfile, *names: str) -> list[tuple[float, ...]]:
    """Returns figures of the checks of forward, backward and update, in ms; None counts as 0."""
    found = []
    for check in profile.checks:
        assert check.sum_seconds == pytest.approx(check.phase_seconds)
        values = [getattr(check, f"{name}_seconds") for name in names]
        found.append(tuple(milliseconds(value or 0.0) for value in values))
    return found


def trace_again(one: ProfileRound, **calls: dict[str, float]) -> ProfileRound:
    """Returns the round with other milliseconds of some parts in some traced functions."""
    traced = {name: build_call(name, **parts) for name, parts in calls.items()}
    return dataclasses.replace(one, traced=one.traced | traced)


def test_a_phase_is_the_difference_of_two_functions_and_the_mean_of_the_rounds() -> None:
    profile = summarize()
    names = ["input", "dispatch", "forward", "backward", "update", "keras loop"]
    assert list(phases_of(profile)) == names
    assert list(phases_of(profile).values()) == [0.3, 0.2, 1.0, 3.0, 1.0, 0.4]
    assert milliseconds(profile.sum_seconds) == 5.9
    assert milliseconds(profile.full_seconds) == 6.0
    assert milliseconds(profile.pipeline_seconds) == 0.9


@pytest.mark.parametrize(("taken", "kept"), [(1, 1), (2, 2), (3, 3), (4, 3), (5, 4), (10, 8)])
def test_the_fifth_of_the_rounds_that_took_longest_is_left_out(taken: int, kept: int) -> None:
    # Those that are left out take a hundred times as long.
    factors = [100.0] * (taken - kept) + [1.0] * kept
    profile = summarize(rounds=tuple(map(build_round, factors)))
    assert (profile.num_rounds, profile.num_slow_rounds) == (kept, taken - kept)
    assert milliseconds(profile.full_seconds) == 6.0
    assert milliseconds(profile.layers[1].backward.seconds) == 1.8


def test_all_figures_rest_on_the_same_rounds_so_that_they_add_up() -> None:
    # 50 ms of one round are not of the network's: its forward pass, which takes 2 ms more, is left
    # out with them.
    slow = build_round(take=50.5, forward=3.2)
    rounds = (build_round(), build_round(forward=1.6), slow, build_round(), build_round())
    profile = summarize(rounds=rounds)
    phases = phases_of(profile)
    # Forward: 1, 1.4, 1 and 1. Backward: 3, 2.6, 3 and 3.
    assert (phases["input"], phases["forward"], phases["backward"]) == (0.3, 1.1, 2.9)
    assert milliseconds(profile.sum_seconds) == 5.9


def test_a_part_is_the_mean_of_the_functions_that_it_was_seen_in_without_the_update() -> None:
    # 0.4 and 0.6 ms. Beside the update it is 0.9, and the gradient 0.8 instead of 0.5.
    calls = {"backward": {"forward/0": 0.6}, "update": {"forward/0": 0.9, "backward/0": 0.8}}
    conv = summarize(rounds=(trace_again(build_round(), **calls),)).layers[0]
    assert (milliseconds(conv.forward.seconds), milliseconds(conv.backward.seconds)) == (0.5, 0.5)


def test_operations_and_host_overhead_are_held_against_each_phase() -> None:
    # Forward: 1.2 ms of which 0.8 are busy and 0.2 dispatch. Update: 0.7 of the optimizer, 0.1 of
    # nothing's.
    expected = [(0.8, 0.2, 1.0), (2.6, 0.4, 3.0), (0.8, 0.2, 1.0)]
    assert checks_of(summarize(), "operations", "overhead", "phase") == expected


def test_what_was_at_work_without_a_name_is_told_from_what_was_idle() -> None:
    profile = summarize(rounds=(build_partly_traced("at work"),))
    expected = [(0.1, 0.8, 0.1), (0.3, 2.4, 0.3), (0.1, 0.8, 0.1)]
    assert checks_of(profile, "named", "unnamed", "overhead") == expected
    assert [check.named_share for check in profile.checks] == pytest.approx([0.1] * 3)
    not_told = summarize(rounds=(build_partly_traced("not told"),))
    assert [check.unnamed_seconds for check in not_told.checks] == [None, None, None]
    assert checks_of(not_told, "overhead")[1] == (2.7,)


@pytest.mark.parametrize("rest", ["at work", "idle"])
def test_times_of_a_gpu_are_its_own_however_much_the_trace_slows_the_host(rest: str) -> None:
    # The host takes twice as long with the trace; the kernels as long as without.
    of_gpu = summarize(rounds=(build_partly_traced(rest, on_device=True),))
    of_host = summarize(rounds=(build_partly_traced(rest, on_device=False),))
    assert milliseconds(of_gpu.layers[0].forward.seconds) == 0.1
    figures = ("operations", "overhead", "unnamed")
    assert checks_of(of_gpu, *figures) == checks_of(of_host, *figures)


def test_phases_have_intervals_over_their_paired_rounds() -> None:
    # Forward 0.9, 1 and 1.1 ms: standard deviation 0.1, over the root of 3, by Student's t of two
    # degrees of freedom.
    profile = summarize()
    forward = profile.phases[2]
    half = 0.1 / 3**0.5 * 4.302653
    assert (forward.low, forward.high) == pytest.approx((1e-3 * (1 - half), 1e-3 * (1 + half)))
    assert profile.full_half_width == pytest.approx(6e-3 * half)
    assert profile.difference_half_width == pytest.approx(0.1e-3 * half)
    single = summarize(rounds=(build_round(),))
    assert {(phase.low, phase.high) for phase in single.phases} == {(None, None)}
    assert (single.full_half_width, single.difference_half_width) == (None, None)


def test_which_rounds_are_kept_is_part_of_what_is_uncertain() -> None:
    # The step is one function, of 1 to 10 ms: the two longest are left out. Its mean is 4.5, and at
    # the bound it is 8: influences are (x - 4.5 - 3.5 x 0.2) / 0.8 of those that are kept, and 3.5
    # of the others.
    kept = KeptRounds([ProfileRound(seconds={"full": MS * length}) for length in range(1, 11)])
    influences = [(length - 5.2) / 0.8 for length in range(1, 9)] + [3.5, 3.5]
    error = math.hypot(*influences) / 10 * (8 / 7) ** 0.5
    half = kept.half_width(itemgetter("full"))
    assert milliseconds(kept.mean(itemgetter("full"))) == 4.5
    assert 1000 * half == pytest.approx(2.364624 * error)
    assert error > 2.449490 / 8**0.5  # that of the mean of the eight, as if nothing had chosen them


def test_operations_that_take_longer_beside_the_update_are_its_cost() -> None:
    calls = {"update": {"forward/0": 0.5, "backward/1": 2.0}}  # 0.1 and 0.2 ms more
    profile = summarize(rounds=(trace_again(build_round(), **calls), build_round()))
    # The mean of 0.3 and nothing
    assert checks_of(profile, "slowdown") == [(0,), (0,), (0.15,)]
    # Of the first round's 5.2 ms 4.5 are busy, of its 4.2 up to there 3.4: -0.1 ms. Of the
    # second's: 0.2.
    assert checks_of(profile, "overhead", "sum")[2] == (0.05, 1.0)
    assert milliseconds(profile.layers[1].backward.seconds) == 1.8


def test_a_layer_is_bound_by_what_takes_longer_at_the_peaks() -> None:
    conv, pool = summarize().layers
    # Of 8 samples 16 MFLOP: 0.16 ms at 100 GFLOP/s; 1 MB is 0.1 ms at 10 GB/s; it took 0.4 ms.
    assert (conv.forward.flops, conv.forward.bound) == (16_000_000, "arithmetic")
    assert conv.forward.roof_share == pytest.approx(0.4)
    # Nothing before it is trained, so that the backward pass has as many; 3.2 MB are 0.32 ms of
    # 0.5.
    assert (conv.backward.flops, conv.backward.bound) == (16_000_000, "memory")
    assert conv.backward.roof_share == pytest.approx(0.64)
    # No operations; 0.9 MB are 0.09 ms of 1.8.
    assert (pool.backward.flops, pool.backward.bound) == (0, None)
    assert pool.backward.roof_share == pytest.approx(0.05)  # so that memory does not bound it


def test_nothing_is_bound_by_what_was_not_measured() -> None:
    without_bandwidth = summarize(bandwidth=None)
    assert without_bandwidth.bytes_per_second is None
    assert without_bandwidth.layers[0].forward.bound is None
    disturbed = dataclasses.replace(PEAK, other_share=0.5)
    profile = summarize_profile(build_profiled(peak_checks=(disturbed,)))
    assert profile.peak_flops_per_second is None
    assert profile.layers[0].forward.roof_share is None


def test_the_input_pipeline_holds_a_step_up_for_no_longer_than_it_takes_for_a_batch() -> None:
    assert summarize(rounds=(build_round(full=10.0),)).bottleneck.name == "backward of pool"
