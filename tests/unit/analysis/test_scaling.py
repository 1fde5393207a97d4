"""How training scales with the number of replicas: figures, sentences, tables and the plot."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import pytest

from sweeps import build_brief, build_plan
from tfbench.analysis.comparison.comparison import Comparison, Failure, compare
from tfbench.analysis.comparison.scaling import Estimate, Scaling, find_scaling
from tfbench.analysis.comparison.verdict import find_caveats, find_verdict
from tfbench.records.scaling import find_scaling_setups, replica_setups
from tfbench.records.sweep import resolve_recipe
from tfbench.report.comparison.comparison import comparison_document, comparison_records
from tfbench.report.comparison.plots import comparison_plots, corner_rows
from tfbench.report.comparison.scaling import scaling_table
from tfbench.report.comparison.sweep import result_lines

STRONG = {1: 960.0, 2: 1536.0, 4: 1920.0}  # samples/s: 1.6 and 2 times the speed of one replica
DRIFT = (1.0, 1.02, 1 / 1.02)  # of the machine, from round to round; it cancels out


def scaled(
    speeds: Mapping[int, float | tuple[float, ...]],
    *,
    is_weak: bool = False,
    kind: str = "gpu",
    headroom: float | None = 4.0,
    drift: tuple[float, ...] = DRIFT,
    **options: Any,
) -> Comparison:
    """Compares numbers of replicas: of 96 samples a step, or 48 for each replica, over 262,144 weights (1 MiB)."""
    briefs = []
    for count, speed in speeds.items():
        (setup,) = replica_setups(kind, [count])
        rounds = speed if isinstance(speed, tuple) else tuple(speed * factor for factor in drift)
        for number, one in enumerate(rounds, 1):
            batch = 48 * count if is_weak else 96
            brief = build_brief(one, setup=setup, batch=batch, round_number=number, parameters=2**18)
            briefs.append(dataclasses.replace(brief, metrics=brief.metrics | {"input_headroom": headroom}))
    values = {"keys": [], "settings": [{}], "compared": ("global_batch_size",) if is_weak else ()} | options
    return compare(briefs, **values)


def scaling_of(*args: Any, **options: Any) -> Scaling:
    found = find_scaling(scaled(*args, **options))
    assert found is not None
    return found


def test_the_same_batch_divided_among_more_replicas_is_strong_scaling() -> None:
    found = scaling_of(STRONG)
    assert (found.kind, found.batch_size, found.shares_cores, found.missing) == ("strong", 96, False, {})
    assert [point.num_replicas for point in found.points] == [1, 2, 4]
    assert [point.per_replica_batch_size for point in found.points] == [96, 48, 24]
    assert [point.speedup.value for point in found.points] == pytest.approx([1.0, 1.6, 2.0])
    assert [point.efficiency.value for point in found.points] == pytest.approx([1.0, 0.8, 0.5])
    # 96 samples at 960, 1536 and 1920 a second.
    assert [point.step_seconds for point in found.points] == pytest.approx([0.1, 0.0625, 0.05])
    assert [point.exchanged_bytes for point in found.points] == [0.0, 2.0**20, 2.0**20]
    assert [point.input_share for point in found.points] == [0.25, 0.25, 0.25]


def test_the_same_batch_for_each_replica_is_weak_scaling() -> None:
    found = scaling_of({1: 480.0, 2: 768.0, 4: 1920.0}, is_weak=True)
    assert (found.kind, found.batch_size) == ("weak", 48)
    assert [point.global_batch_size for point in found.points] == [48, 96, 192]
    assert [point.efficiency.value for point in found.points] == pytest.approx([1.0, 0.8, 1.0])
    assert [point.step_seconds for point in found.points] == pytest.approx([0.1, 0.125, 0.1])


def test_speeds_divided_are_the_speed_up_beside_them() -> None:
    # Rounds as uneven as those of two shared cores: by medians 0.263 of the speed, by geometric means 0.273.
    found = scaling_of({1: (4631.0, 5400.0, 3600.0), 2: (1219.0, 1200.0, 1252.0)})
    one, two = found.points
    assert one.entry.speed is not None and two.entry.speed is not None
    assert two.speedup.value == pytest.approx(two.entry.speed / one.entry.speed, rel=1e-9)
    assert two.step_seconds == pytest.approx(96 / two.entry.speed)
    rows = [line.split() for line in scaling_table(found).text(200)[1:3]]
    first, second = (float(row[2].replace(",", "")) for row in rows)
    assert f"{second / first:.2f}x" in rows[1]


@pytest.mark.parametrize("is_weak", [False, True])
def test_of_replicas_that_share_cores_nothing_is_called_ideal_lost_or_efficient(is_weak: bool) -> None:
    comparison = scaled({1: 960.0, 2: 480.0}, kind="cpu", is_weak=is_weak)
    found = find_scaling(comparison)
    assert found is not None
    lines = scaling_table(found).text(120)
    assert lines[0].split() == ["replicas", "batch", "samples/s", "speed-up", "step", "exchanged", "input"]
    assert "The devices of mirrored cpu:0,cpu:1 share cores: " in " ".join(find_caveats(comparison))
    (plot,) = comparison_plots(comparison)
    said = " ".join([*lines, *find_verdict(comparison), plot.alt]).lower()
    assert "replicas share cores: this shows overhead, not scaling" in plot.title
    for word in ("ideal", "lost", "efficien", "expected:", "at best"):
        assert word not in said
    (_, point) = comparison_document(comparison, ())["scaling"]["points"]
    for name in ("expected_speedup", "efficiency"):
        assert point[name] is None
    assert point["speedup"]["value"] == pytest.approx(0.5)


def test_the_interval_of_the_efficiency_is_that_of_the_speed_up() -> None:
    (_, point) = scaling_of({1: (100.0, 100.0), 2: (150.0, 180.0)}).points
    speedup = point.speedup
    assert speedup.low is not None and speedup.high is not None
    assert point.efficiency == Estimate(speedup.value / 2, speedup.low / 2, speedup.high / 2)
    (_, single) = scaling_of({1: (100.0,), 2: (150.0,)}).points
    assert single.speedup == (pytest.approx(1.5), None, None)
    assert single.efficiency == (pytest.approx(0.75), None, None)


def test_a_number_of_replicas_without_a_speed_is_kept_as_missing() -> None:
    failure = Failure(
        setting={}, setup="mirrored gpu:0,gpu:1,gpu:2,gpu:3", outcome="KILLED", reason="out of memory: it took 9 GiB"
    )
    comparison = scaled({1: 960.0, 2: 1536.0}, failures=[failure])
    found = find_scaling(comparison)
    assert found is not None
    assert {count: entry.outcome for (count, _), entry in found.missing.items()} == {4: "KILLED"}
    assert scaling_table(found).text(120)[3].split() == ["4", "out", "of", "memory"]
    place = {"num_devices": 4, "mode": "data", "setup": failure.setup}
    told = {"status": "KILLED", "reason": failure.reason}
    assert comparison_document(comparison, ())["scaling"]["missing"] == [place | told]
    assert "4 replicas failed: KILLED, out of memory: it took 9 GiB." in find_verdict(comparison)


def test_other_comparisons_tell_nothing_of_scaling() -> None:
    two = {1: 960.0, 2: 1536.0}
    assert comparison_document(scaled({1: 960.0}), ())["scaling"] is None
    assert find_scaling(scaled(two, baseline="mirrored gpu:0,gpu:1")) is None
    assert find_scaling(scaled(two, settings=[{}, {"threads": 1}])) is None  # several settings
    assert find_scaling(compare([])) is None
    # A setup of one replica, too; other devices; the only other setup failed.
    for setup, speeds in (
        ("one_device gpu:1", two),
        ("mirrored cpu:0,cpu:1,cpu:2", two),
        ("mirrored gpu:0,gpu:1", {1: 9.0}),
    ):
        failure = Failure(setting={}, setup=setup, outcome="FAILED", reason="")
        assert find_scaling(scaled(speeds, failures=[failure])) is None


def test_batches_may_differ_between_setups_only_where_that_is_compared() -> None:
    weak = {1: 480.0, 2: 768.0}
    comparison = scaled(weak, is_weak=True, compared=())
    (row,) = comparison.rows
    assert [entry.speedup is None for entry in row.entries.values()] == [True, True]
    assert [one.name for one in row.entries["mirrored gpu:0,gpu:1"].unequal] == ["global_batch_size"]
    assert find_scaling(comparison) is None
    assert find_scaling(scaled(weak, is_weak=True, compared=(), allows_unequal=True)) is None
    (row,) = scaled(weak, is_weak=True).rows
    assert row.global_batch_size is None  # of no one size
    assert [entry.global_batch_size for entry in row.entries.values()] == [48, 96]
    assert corner_rows(scaled(weak, is_weak=True)) == [row]


def test_runs_that_differ_in_more_than_their_replicas_tell_nothing_of_scaling() -> None:
    (row,) = scaled({1: 960.0, 2: 1536.0}).rows
    one, two = (entry.runs for entry in row.entries.values())
    unlike = {"keys": [], "settings": [{}], "allows_unequal": True}
    assert find_scaling(compare([*one, *two], **unlike)) is not None
    for fields in (
        {"hardware": ["Example CPU 3000", "A faster one"]},
        {"settings": two[0].settings | {"compiler": "xla"}},
    ):
        other = [dataclasses.replace(run, **fields) for run in two]
        assert find_scaling(compare([*one, *other], **unlike)) is None


def test_the_verdict_says_what_replicas_give_and_only_what_the_intervals_show() -> None:
    assert find_verdict(scaled(STRONG)) == (
        "Use 4 replicas.",
        "2 replicas are faster than 1 replica: 1.60x [1.60, 1.60] (80 % efficiency).",
        "4 replicas are faster than 1 replica: 2.00x [2.00, 2.00] (50 % efficiency).",
    )
    weak = scaled({1: 480.0, 2: 384.0}, is_weak=True)
    assert find_verdict(weak) == ("2 replicas are slower than 1 replica: 0.80x [0.80, 0.80] (40 % efficiency).",)
    assert find_caveats(weak) == (
        "Weak scaling: the global batch grows with the devices. Compare speed, not accuracy.",
    )
    single = "2 replicas are not judged (one run): 1.50x (75 % efficiency)."
    assert find_verdict(scaled({1: (100.0,), 2: (150.0,)})) == (single, "Try --repeats 3.")
    for headroom, share in ((4.0, ""), (1.25, "80 %"), (0.42, "")):  # most of a step; the last contradicts itself
        cause = find_verdict(scaled({1: 960.0, 2: 480.0}, headroom=headroom))[0].partition(" The input pipeline ")[2]
        assert cause == (f"alone takes {share} of a step." if share else "")


def test_two_numbers_whose_intervals_overlap_are_not_told_apart() -> None:
    verdict = find_verdict(scaled({1: (100.0,) * 3, 2: (150.0, 152.0, 154.0), 4: (149.0, 153.0, 158.0)}))
    assert verdict[0] == "2 replicas and 4 replicas are too close to call."
    # 2 replicas are not shown to be faster than one, so that they are not called fastest either
    verdict = find_verdict(scaled({1: (100.0,) * 3, 2: (90.0, 110.0, 300.0), 4: (149.0, 153.0, 158.0)}))
    assert verdict[0] == "2 replicas and 4 replicas are too close to call."
    assert verdict[2].startswith("Inconclusive: 2 replicas may be ") or verdict[1].startswith("Inconclusive: 2 ")


def test_the_table_has_a_row_a_number_of_replicas() -> None:
    lines = [" ".join(line.split()) for line in scaling_table(scaling_of(STRONG)).text(120)]
    assert lines[0] == "replicas batch samples/s speed-up efficiency step exchanged input"
    assert lines[3] == "4 24 1,920 ± 0.00 % 2.00x [2.00, 2.00] + 50 % 50 ms 1 MiB 25 %"
    shown = result_lines(scaled(STRONG), 120)
    assert "\n".join(shown).count("Strong scaling") == 1
    assert shown[shown.index("Verdict") + 1].startswith("- Use 4 replicas")
    assert not any("default gpu:0, samples/s" in line for line in shown)


def test_json_and_csv_have_what_the_table_has() -> None:
    comparison = scaled({1: 480.0, 2: 768.0}, is_weak=True)
    document = comparison_document(comparison, find_verdict(comparison))
    scaling = document["scaling"]
    assert (scaling["kind"], scaling["batch_size"], scaling["shares_cores"]) == ("weak", 48, False)
    point, unknown = scaling["points"][1], {"state_bytes", "transfer_share", "waiting_share"}
    assert {name for name, value in point.items() if value is None} == unknown
    place = {"num_devices": 2, "mode": "data", "num_replicas": 2, "setup": "mirrored gpu:0,gpu:1"}
    figures = {"samples_per_second": 768.0, "expected_speedup": 2, "step_seconds": 0.125}
    figures |= {"global_batch_size": 96, "per_replica_batch_size": 48, "input_share": 0.25}
    figures |= {"exchanged_bytes": 2**20}
    assert {name: point[name] for name in place} == place
    assert {name: point[name] for name in figures} == pytest.approx(figures)
    for name, value in (("speedup", 1.6), ("efficiency", 0.8)):
        assert point[name] == pytest.approx({"value": value, "low": value, "high": value})
    assert [entry["global_batch_size"] for entry in document["rows"][0]["entries"]] == [48, 96]
    rows = [line.split(",")[1] for line in comparison_records(comparison).csv().splitlines()]
    assert rows == ["global_batch_size", "48", "96"]


def test_the_plot_holds_the_ideal_and_the_measured_speed_up() -> None:
    failure = Failure(setting={}, setup="mirrored gpu:0,gpu:1,gpu:2", outcome="FAILED", reason="")
    (plot,) = comparison_plots(scaled(STRONG, failures=[failure]))
    assert plot.name == "scaling.png"
    assert plot.title.splitlines()[1] == "Strong scaling: 96 samples per step in total"
    measured, ideal = plot.panels[0].series
    assert [(x, pytest.approx(y)) for x, y, *_ in measured.points] == [(1, 1.0), (2, 1.6), (4, 2.0)]
    assert (ideal.is_reference, ideal.points) == (True, ((1, 1, None, None), (4, 4, None, None)))
    assert plot.x_label == "replicas"


def test_a_plan_of_weak_scaling_multiplies_the_batch_by_the_devices_of_a_setup() -> None:
    plan = build_plan(variations=(), setups=replica_setups("cpu", (1, 2, 4)), per_replica_batch_size=16)
    sizes = [resolve_recipe(plan, {}, setup).training.global_batch_size for setup in plan.setups]
    assert sizes == [16, 32, 64]
    assert find_scaling_setups(plan) == ("cpu", (1, 2, 4), ("data",))
    assert find_scaling_setups(build_plan()) is None  # batch sizes are varied
    assert find_scaling_setups(build_plan(variations=(), setups=replica_setups("cpu", (1, 2))[::-1])) is None
    assert find_scaling_setups(build_plan(variations=(), setups=replica_setups("cpu", (2,)))) is None
