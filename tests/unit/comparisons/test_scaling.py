"""How training scales with the number of replicas and by modes.

Figures, sentences, tables and the plot.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

import pytest

from kinds import Golden
from sweeps import build_briefs, build_plan
from tfbench.comparisons.comparison import Comparison, compare
from tfbench.comparisons.comparison_text import comparison_document, live_table
from tfbench.comparisons.failures import Failure
from tfbench.comparisons.plots import comparison_plots, corner_rows
from tfbench.comparisons.scaling import FigureWithInterval, find_scaling, scaling_section
from tfbench.comparisons.verdict import find_caveats, find_verdict
from tfbench.show.plot import Point
from tfbench.sweeps.plan import resolve_recipe
from tfbench.sweeps.planning import replica_setups

STRONG = {1: 960.0, 2: 1536.0, 4: 1920.0}  # samples/s: 1.6 and 2 times the speed of one replica
DRIFT = (1.0, 1.02, 1 / 1.02)  # of the machine, from round to round; it cancels out
MODES = ("data", "model", "hybrid")
MEBIBYTE = 2**20
MOVED = {"mirrored": 8.0, "model": 3.0, "hybrid": 4.5}  # MiB a step


def scaled(
    speeds: Mapping[int, float | tuple[float, ...]],
    *,
    is_weak: bool = False,
    kind: str = "gpu",
    headroom: float | tuple[float, ...] | None = 4.0,
    **options: Any,
) -> Comparison:
    """Compares numbers of replicas.

    Of 96 samples a step, or 48 for each replica, over 262,144 weights (1 MiB). The headroom of the
    input is that of all runs, or of each round.
    """
    briefs = []
    for count, speed in speeds.items():
        rounds = speed if isinstance(speed, tuple) else [speed * factor for factor in DRIFT]
        batch = 48 * count if is_weak else 96
        made = build_briefs({batch: [rounds]}, replica_setups(kind, [count]), parameters=2**18)
        for place, brief in enumerate(made):
            own = headroom[place] if isinstance(headroom, tuple) else headroom
            brief.metrics["input_headroom"] = own
        briefs += made
    values = {
        "keys": [],
        "configurations": [{}],
        "compared": ("global_batch_size",) if is_weak else (),
    }
    return compare(briefs, **values | options)


def by_modes() -> Comparison:
    """Compares modes on two and four devices with one, of 96 samples a step."""
    speeds = (960.0, 1536.0, 1440.0, 1728.0, 1920.0, 1440.0, 2880.0)
    setups = replica_setups("gpu", (1, 2, 4), MODES, "jax")
    rounds = [[speed * factor for factor in DRIFT] for speed in speeds]
    briefs = build_briefs(
        {96: rounds}, setups, parameters=2**21, settings={"training.backend": "jax"}
    )
    for brief in briefs:
        brief.metrics["num_replicas"] = 1 if brief.strategy == "model" else len(brief.devices)
        brief.metrics["input_headroom"] = 4.0
        if brief.strategy in MOVED:
            brief.metrics["collective_bytes_per_step"] = MOVED[brief.strategy] * MEBIBYTE
            brief.metrics["state_bytes_per_device"] = 2**24
            brief.metrics["transfer_share"] = 0.2
    return compare(briefs, keys=[], configurations=[{}], compared=("backend",))


def table_lines(comparison: Comparison, width: int = 120) -> list[str]:
    (table,) = scaling_section(find_scaling(comparison), comparison).tables
    return table.text(width)


@pytest.mark.parametrize(
    ("speeds", "is_weak", "kind", "batches", "step_seconds"),
    [
        # 96 samples at 960, 1536 and 1920 a second.
        (STRONG, False, "strong", [96, 48, 24], [0.1, 0.0625, 0.05]),
        ({1: 480.0, 2: 768.0, 4: 960.0}, True, "weak", [48, 48, 48], [0.1, 0.125, 0.2]),
    ],
)
def test_the_batch_is_divided_among_replicas_or_each_has_its_own(
    speeds: dict[int, float],
    is_weak: bool,
    kind: str,
    batches: list[int],
    step_seconds: list[float],
) -> None:
    found = find_scaling(scaled(speeds, is_weak=is_weak))
    assert (found.kind, found.batch_size, found.shares_cores) == (kind, batches[0], False)
    figures = []
    for point in found.points:
        figures.append(
            (
                point.num_replicas,
                point.per_replica_batch_size,
                point.speedup.value,
                point.efficiency.value,
                point.entry.step_seconds,
                point.exchanged_bytes,
                point.entry.input_share,
            )
        )
    assert figures == [
        pytest.approx((1, batches[0], 1.0, 1.0, step_seconds[0], 0.0, 0.25)),
        pytest.approx((2, batches[1], 1.6, 0.8, step_seconds[1], MEBIBYTE, 0.25)),
        pytest.approx((4, batches[2], 2.0, 0.5, step_seconds[2], MEBIBYTE, 0.25)),
    ]


@pytest.mark.parametrize(
    ("headroom", "rounds", "share", "gain"),
    [
        (1.25, DRIFT, "80 % (80 % to 80 %)", "1.25x at most"),
        (0.97, DRIFT, "103 % (103 % to 103 %)", "nothing"),
        ((1.2, 1.25, 1.3), DRIFT, "80 % (72 % to 88 %)", "1.38x at most"),  # 1 / 0.72
        (1.25, (1.0,), "80 %", "about 1.25x"),
        (1.6, DRIFT, "", ""),
        (0.42, DRIFT, "", ""),  # contradicts itself
        (None, DRIFT, "", ""),
    ],
)
def test_an_input_that_limits_every_device_is_told_from_a_small_network(
    headroom: float | tuple[float, ...] | None, rounds: tuple[float, ...], share: str, gain: str
) -> None:
    speeds = {
        1: tuple(960.0 * factor for factor in rounds),
        2: tuple(1056.0 * factor for factor in rounds),
    }
    told = []
    for text in find_verdict(scaled(speeds, headroom=headroom)):
        if "input pipeline" in text:
            told.append(text)
    start = f"The input pipeline alone takes {share} of a step of"
    end = f"a faster device would gain {gain}."
    expected = [f"{start} 1 replica: {end}", f"{start} 2 replicas: {end}"]
    assert told == (expected if share else [])


@pytest.mark.parametrize("is_weak", [False, True])
def test_of_replicas_that_share_cores_nothing_is_called_ideal_or_efficient(is_weak: bool) -> None:
    comparison = scaled({1: 960.0, 2: 480.0}, kind="cpu", is_weak=is_weak)
    lines = table_lines(comparison)
    columns = ["replicas", "batch/replica", "samples/s", "speed-up", "step", "exchanged", "input"]
    assert lines[0].split() == columns
    assert "Logical CPU devices share all cores: " in " ".join(find_caveats(comparison))
    (plot,) = comparison_plots(comparison)
    said = " ".join([*lines, *find_verdict(comparison), plot.alt]).lower()
    assert "replicas share cores: this shows overhead, not scaling" in plot.title
    assert "ideal" not in said and "efficien" not in said
    _, point = comparison_document(comparison, ())["scaling"]["points"]
    assert point["efficiency"] is None
    assert point["speedup"]["value"] == pytest.approx(0.5)


def test_the_interval_of_the_efficiency_is_that_of_the_speed_up() -> None:
    _, point = find_scaling(scaled({1: (100.0, 100.0), 2: (150.0, 180.0)})).points
    value, low, high = point.speedup
    assert low is not None and high is not None
    assert point.efficiency == FigureWithInterval(value / 2, low / 2, high / 2)
    _, single = find_scaling(scaled({1: (100.0,), 2: (150.0,)})).points
    assert single.speedup == (pytest.approx(1.5), None, None)
    assert single.efficiency == (pytest.approx(0.75), None, None)


def test_a_number_of_replicas_without_a_speed_is_told_by_the_verdict() -> None:
    setup = "mirrored gpu:0,gpu:1,gpu:2,gpu:3"
    reason = "out of memory: it took 9 GiB"
    failure = Failure(configuration={}, setup=setup, outcome="KILLED", reason=reason)
    comparison = scaled({1: 960.0, 2: 1536.0}, failures=[failure])
    assert [point.num_devices for point in find_scaling(comparison).points] == [1, 2]
    assert f"{setup} failed: KILLED, {reason}." in find_verdict(comparison)


def test_other_comparisons_tell_nothing_of_scaling() -> None:
    two = {1: 960.0, 2: 1536.0}
    assert comparison_document(scaled({1: 960.0}), ())["scaling"] is None
    assert find_scaling(scaled(two, baseline="mirrored gpu:0,gpu:1")) is None
    assert (
        find_scaling(scaled(two, configurations=[{}, {"training.intra_op_threads": 1}])) is None
    )  # several configurations
    assert find_scaling(compare([])) is None
    (row,) = scaled(two).rows
    one, more = (entry.runs for entry in row.entries.values())
    unlike = {"keys": [], "configurations": [{}], "allows_unequal": True}
    assert find_scaling(compare([*one, *more], **unlike)) is not None
    for fields in (
        {"hardware": ["Example CPU 3000", "A faster one"]},
        {"settings": more[0].settings | {"compiler": "xla"}},
        {"devices": ["gpu:0"], "strategy": "mirrored"},  # a second setup of one device
        {"devices": ["cpu:0", "cpu:1"]},
        {"strategy": "parameter_server"},
    ):
        other = [dataclasses.replace(run, **fields) for run in more]
        assert find_scaling(compare([*one, *other], **unlike)) is None


def test_batches_may_differ_between_setups_only_where_that_is_compared() -> None:
    weak = {1: 480.0, 2: 768.0}
    comparison = scaled(weak, is_weak=True, compared=())
    (row,) = comparison.rows
    assert [entry.speedup is None for entry in row.entries.values()] == [True, True]
    assert [one.name for one in row.entries["mirrored gpu:0,gpu:1"].unequal] == [
        "global_batch_size"
    ]
    assert find_scaling(comparison) is None
    assert find_scaling(scaled(weak, is_weak=True, compared=(), allows_unequal=True)) is None
    (row,) = scaled(weak, is_weak=True).rows
    assert row.global_batch_size is None  # of no one size
    assert [entry.global_batch_size for entry in row.entries.values()] == [48, 96]
    assert corner_rows(scaled(weak, is_weak=True)) == [row]


def test_the_verdict_says_what_replicas_give_and_only_what_the_intervals_show() -> None:
    assert find_verdict(scaled(STRONG)) == (
        "Use 4 replicas.",
        "2 replicas are faster than 1 replica: 1.60x [1.60, 1.60] (80 % efficiency).",
        "4 replicas are faster than 1 replica: 2.00x [2.00, 2.00] (50 % efficiency).",
    )
    weak = scaled({1: 480.0, 2: 384.0}, is_weak=True)
    assert find_verdict(weak) == (
        "2 replicas are slower than 1 replica: 0.80x [0.80, 0.80] (40 % efficiency).",
    )
    assert tuple(find_caveats(weak)) == (
        "Weak scaling: the global batch grows with the devices. Compare speed, not accuracy.",
    )
    single = "2 replicas are not judged (one run): 1.50x (75 % efficiency)."
    assert find_verdict(scaled({1: (100.0,), 2: (150.0,)})) == (single, "Try --repeats 3.")


def test_two_numbers_whose_intervals_overlap_are_not_told_apart() -> None:
    # In the second case 2 replicas are not shown to be faster than one, so that they are not called
    # fastest either.
    for two in ((150.0, 152.0, 154.0), (90.0, 110.0, 300.0)):
        verdict = find_verdict(scaled({1: (100.0,) * 3, 2: two, 4: (149.0, 153.0, 158.0)}))
        assert verdict[0] == "2 replicas and 4 replicas are too close to call."


def test_each_mode_is_a_line_over_the_devices_that_are_hardware() -> None:
    found = find_scaling(by_modes())
    assert (found.modes, found.kind, found.has_replicas) == (MODES, "strong", False)
    places = [(point.num_devices, point.mode) for point in found.points]
    assert places == [(1, None), *((number, mode) for number in (2, 4) for mode in MODES)]
    # Four devices hold one replica in mode model: its batch is whole, and four of them are hardware
    # all the same.
    model = found.line("model")[-1]
    assert (model.num_replicas, model.per_replica_batch_size, model.num_devices) == (1, 96, 4)
    assert model.efficiency is not None and model.efficiency.value == pytest.approx(1.5 / 4)
    moved = [point.exchanged_bytes for point in found.line("model")]
    assert moved == [0.0, 3 * MEBIBYTE, 3 * MEBIBYTE]
    (plot,) = comparison_plots(by_modes())
    assert (plot.name, plot.x_label) == ("scaling.png", "devices")
    *lines, ideal = plot.panels[0].series
    assert [line.name for line in lines] == [f"{mode} parallel" for mode in MODES]
    assert [point.y for point in lines[-1].points] == pytest.approx([1.0, 1.8, 3.0])
    assert (ideal.is_reference, ideal.points) == (True, (Point(1, 1), Point(4, 4)))


def test_the_table_and_the_verdict_have_modes(golden: Golden) -> None:
    comparison = by_modes()
    golden(
        "scaling_modes.txt",
        "\n".join([*table_lines(comparison, 160), "", *find_verdict(comparison), ""]),
    )


def test_while_it_is_measured_the_table_has_rounds_and_fits() -> None:
    lines = live_table(by_modes()).text(60)
    assert max(map(len, lines)) <= 60
    assert lines[0].split() == ["devices", "mode", "samples/s", "speed-up", "rounds"]
    assert [line.split()[0] for line in lines[1:8]] == list("1222444")
    assert [line.split()[-1] for line in lines[1:8]] == ["3"] * 7


def test_a_plan_of_modes_keeps_meshes_from_those_that_cut_nothing() -> None:
    setups = []
    for setup in replica_setups("cpu", (1, 2), MODES, "jax"):
        setups.append(dataclasses.replace(setup, values=(("training.backend", "jax"),)))
    plan = build_plan(variations=(), setups=tuple(setups))
    plan.tables["distribution"] |= {"strategy": "hybrid", "mesh": {"data": 2}}
    for place, mesh in ((0, {}), (1, {}), (3, {"data": 2})):
        assert resolve_recipe(plan, {}, setups[place]).distribution.mesh == mesh
