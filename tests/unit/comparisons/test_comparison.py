import csv
import io
import math
from dataclasses import replace
from typing import Any

import pytest

from kinds import Fields, Golden
from sweeps import BATCH, DEFAULT, MIRRORED, TWO_SETUPS, build_brief, build_briefs
from tfbench.comparisons.comparison import Comparison, compare
from tfbench.comparisons.comparison_text import (
    comparison_document,
    comparison_records,
    comparison_sections,
    comparison_table,
)
from tfbench.comparisons.failures import Failure
from tfbench.comparisons.intervals import log_interval
from tfbench.comparisons.judging import Speedup
from tfbench.comparisons.verdict import find_caveats, find_verdict
from tfbench.show.table import text
from tfbench.store.brief import RunBrief
from tfbench.sweeps.plan import Setup


def sweep_of(speeds: dict[int, tuple[list[float], list[float]]]) -> Comparison:
    """Compares a sweep: batch size to the speeds of both setups, round by round."""
    return compare(build_briefs(speeds), keys=[BATCH])


def speedup_in(found: Comparison, row: int = 0) -> Speedup:
    return found.rows[row].entries[MIRRORED].speedup


def in_rounds(setup: Setup, sweep: str, *speeds: float) -> list[RunBrief]:
    tags = {"tfbench.sweep": sweep, "tfbench.setup": setup.label}
    return [
        build_brief(
            speed,
            setup=setup,
            tags=tags | {"tfbench.round": str(number)},
            run_id=f"{sweep}{number}{setup.label}",
            created=86_400.0 * sum(sweep.encode()),  # each sweep is of another day
        )
        for number, speed in enumerate(speeds, start=1)
    ]


def test_rounds_pair_within_sweeps_and_those_of_several_sweeps_all_count() -> None:
    one, other = TWO_SETUPS
    apart = [*in_rounds(one, "monday", 100.0, 110.0), *in_rounds(other, "friday", 200.0, 180.0)]
    assert not speedup_in(compare(apart)).is_paired
    both = [
        *in_rounds(one, "monday", 100.0, 100.0, 100.0),
        *in_rounds(other, "monday", 150.0, 151.5, 148.5),
        *in_rounds(one, "friday", 300.0, 300.0, 300.0),
        *in_rounds(other, "friday", 450.0, 454.5, 445.5),
    ]
    speedup = speedup_in(compare(both))
    assert (speedup.is_paired, speedup.num) == (True, 6)
    assert speedup.ratio == pytest.approx(1.5, rel=1e-3)


def test_without_keys_rows_are_told_apart_by_what_the_runs_differ_in() -> None:
    briefs = [build_brief(parameters=size, batch=batch) for size in (10, 20) for batch in (64, 32)]
    found = compare(briefs)
    assert found.keys == ("model.hidden_units", BATCH)
    rows = [(*row.configuration.values(), row.num_parameters) for row in found.rows]
    assert rows == [([10], 32, 10), ([10], 64, 10), ([20], 32, 20), ([20], 64, 20)]


def test_runs_of_several_networks_are_told_apart_by_name_and_by_what_differs_within_one() -> None:
    briefs = []
    for name, options in (("mlp", {"activation": "relu"}), ("cnn", {"filters": 8})):
        for batch in (32, 64):
            settings = {f"model.{key}": value for key, value in options.items()}
            settings |= {"model.name": name, "training.loss": f"loss of {name}"}
            briefs.append(build_brief(batch=batch, settings=settings, run_id=f"{name}{batch}"))
    assert compare(briefs).keys == ("model.name", BATCH)
    wide = build_brief(settings={"model.name": "cnn", "model.filters": 9}, run_id="wide")
    assert compare([*briefs, wide]).keys[:3] == ("model.name", "model.filters", BATCH)


def unequal_runs(**settings: Any) -> list[RunBrief]:
    return [
        build_brief(),
        build_brief(200.0, setup=TWO_SETUPS[1], settings=settings or {"compiler": "xla"}),
    ]


def test_setups_that_differ_in_what_must_be_equal_get_no_speed_up_unless_it_is_allowed() -> None:
    entry = compare(unequal_runs()).rows[0].entries[MIRRORED]
    assert entry.speedup is None
    assert [(one.name, one.a, one.b) for one in entry.unequal] == [("compiler", "graph", "xla")]
    allowed = compare(unequal_runs(), allows_unequal=True)
    assert speedup_in(allowed) and allowed.rows[0].entries[MIRRORED].unequal
    fewer = compare(unequal_runs(**{"dataset.train_samples": 50_000}))
    assert len(fewer.rows) == 1
    assert find_verdict(fewer)[0] == "Not comparable: setups differ in number of training samples."


def failing(
    batch: int, setup: str = DEFAULT, outcome: str = "MISSING", reason: str = "not measured"
) -> Failure:
    return Failure(configuration={BATCH: batch}, setup=setup, outcome=outcome, reason=reason)


def test_a_point_without_a_speed_stands_as_what_it_is() -> None:
    failures = [
        failing(32, MIRRORED, "KILLED", "out of memory: it took 9 GiB"),
        failing(4096, DEFAULT, "KILLED", "timed out: it took longer"),
        failing(4096, MIRRORED),
    ]
    failed = build_brief(None, batch=64, round_number=1, status="FAILED", reason="NaN")
    rows = [{BATCH: batch} for batch in (32, 64, 4096)]
    found = compare(
        [build_brief(round_number=1), failed],
        keys=[BATCH],
        configurations=rows,
        setups=[DEFAULT, MIRRORED],
        failures=failures,
    )
    lines = comparison_table(found).text(200)
    assert [line.split()[0] for line in lines] == ["batch", "32", "64", "4096"]
    assert "out of memory" in lines[1] and "failed" in lines[2]
    assert "timed out" in lines[3] and "not measured" in lines[3]


def records_of(comparison: Comparison) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(comparison_records(comparison).csv())))


def test_records_have_raw_figures_and_nothing_in_the_place_of_what_is_not_known() -> None:
    found = sweep_of({32: ([100.0, 101.0], [50.0, 50.5])})
    baseline, other = records_of(found)
    assert (baseline["setup"], other["setup"]) == (DEFAULT, MIRRORED)
    assert (float(other["speedup"]), baseline["speedup"]) == (pytest.approx(0.5), "")
    assert float(baseline["samples_per_second"]) == pytest.approx(math.sqrt(100 * 101))
    first, _ = comparison_document(found, ())["rows"][0]["entries"]
    assert [run["samples_per_second"] for run in first["runs"]] == [100.0, 101.0]


def test_a_setting_that_is_not_set_is_marked() -> None:
    found = compare(
        [build_brief(), build_brief(setup=TWO_SETUPS[1])], keys=["training.intra_op_threads"]
    )
    assert comparison_table(found).text(200)[1].split()[0] == "none"


def test_a_speed_has_the_interval_of_its_own_runs_of_one_session() -> None:
    # Both setups are slow in the second of three rounds: that is in both speeds, and in no ratio.
    rounds = ([100.0, 50.0, 101.0], [200.0, 100.0, 203.0])
    found = sweep_of({32: rounds})
    for setup, speeds in zip((DEFAULT, MIRRORED), rounds, strict=True):
        assert found.rows[0].entries[setup].interval == log_interval(speeds)
    assert speedup_in(found).noise_limit < 0.05
    one, _ = TWO_SETUPS
    sessions = [*in_rounds(one, "monday", 100.0, 101.0), *in_rounds(one, "friday", 80.0, 81.0)]
    (entry,) = compare(sessions).all_entries()
    assert entry.interval is None
    assert entry.session_speeds == pytest.approx((math.sqrt(80 * 81), math.sqrt(100 * 101)))
    (row,) = comparison_table(compare(sessions)).text(80)[1:]
    assert row.split()[-3:] == ["80.5", "to", "100.5"]


@pytest.mark.parametrize(
    ("speeds", "verdict"),
    [
        (
            dict.fromkeys((32, 64), ([100.0, 100.0], [50.0, 90.0])),
            [
                (
                    "Inconclusive at both batch sizes after 2 runs each: the runs vary too much to"
                    f" compare {MIRRORED} with {DEFAULT}."
                ),
                "Try longer runs (--seconds 5) or more rounds (--repeats 3..20).",
            ],
        ),
        (
            {32: ([100.0], [50.0]), 64: ([100.0], [300.0])},
            [
                f"{MIRRORED} is not judged at both batch sizes (one run): 0.50x and 3.00x.",
                "Try --repeats 3.",
            ],
        ),
    ],
)
def test_the_verdict_claims_nothing_that_the_intervals_do_not_support(
    speeds: dict[int, tuple[list[float], list[float]]], verdict: list[str]
) -> None:
    assert list(find_verdict(sweep_of(speeds))) == verdict


def networks(speeds: dict[int, dict[int, tuple[float, float]]]) -> Comparison:
    """Compares a sweep over two keys.

    Units to batch sizes to the speeds of both setups, in three rounds.
    """
    briefs = []
    for units, of_batches in speeds.items():
        for batch, (one, other) in of_batches.items():
            rounds = ((one, 1.01 * one, 0.99 * one), (other,) * 3)
            briefs += build_briefs({batch: rounds}, parameters=units)
    return compare(briefs, keys=["model.hidden_units", BATCH])


def test_two_varied_keys_have_three_sentences(golden: Golden) -> None:
    found = networks(
        {units: {32: (100, 50), 64: (100, 100), 128: (100, 200)} for units in (100, 2000)}
    )
    lines = text(comparison_sections(found, find_verdict(found), report="tfbench report --all"), 80)
    golden("two_keys_80.txt", "\n".join(lines) + "\n")
    unlike = networks({100: {32: (100, 50), 64: (100, 200)}, 2000: {32: (100, 50), 64: (100, 50)}})
    assert find_verdict(unlike)[:2] == (
        f"With hidden_units=[100]: use {DEFAULT} at batch 32 and {MIRRORED} at batch 64.",
        f"With hidden_units=[2000]: use {DEFAULT} at batch 32 to 64.",
    )
    assert f"{MIRRORED} is slower than {DEFAULT} at 3 of 4 configurations: 0.50x." in find_verdict(
        unlike
    )


def test_each_kind_of_warning_stands_once_below_the_verdict_and_of_many_those_that_most_runs_have() -> (
    None
):
    kinds = ["swapped", "drifting", "unsteady", "throttled"]
    briefs = [build_brief(round_number=6, warnings=["synthetic data"])]
    for number in range(5):
        warnings = [*kinds[number:], f"others kept {number} cores busy"]
        briefs.insert(number, build_brief(round_number=number, warnings=warnings))
    found = compare(briefs, keys=[BATCH])
    lines = text(comparison_sections(found, (), report="tfbench report --all"), 120)
    assert "Verdict" in lines
    assert lines[-3:] == [
        "! 5 of 6 runs, for example: others kept 0 cores busy",
        "! 5 more kinds of warning",
        "  All warnings  tfbench report --all",
    ]


def test_a_setting_that_stands_out_by_itself_alone_is_named_as_suggested() -> None:
    # Ten configurations that spread by 3 %, and one of them differs by 5 %: t of 7.5 degrees of
    # freedom gives p = 0.008, of which Holm leaves 0.08.
    same = [100.0, 100.0, 100.0]
    speeds = {2**n: (same, [97.0, 98.5, 103.0]) for n in range(3, 12)}
    speeds[4096] = (same, [103.5, 104.5, 108.5])
    found = sweep_of(speeds)
    speedup = speedup_in(found, -1)
    assert speedup.is_suggested and speedup.judgement == "no measurable difference"
    assert comparison_table(found).text(200)[-1].endswith("1.05x [1.00, 1.11] ~")
    assert find_verdict(found) == (
        (
            f"Inconclusive at 9 of 10 batch sizes after 3 runs each: {MIRRORED} may be 0.94x to"
            f" 1.06x as fast as {DEFAULT}."
        ),
        (
            f"{MIRRORED} may differ at batch 4096: 1.05x [1.00, 1.11], not significant among 10"
            " comparisons after 3 runs each."
        ),
        "Try longer runs (--seconds 5) or more rounds (--repeats 3..20).",
    )
    # A turning point of which one side is only suggested is none.
    verdict = find_verdict(sweep_of(speeds | {8: (same, [49.0, 50.0, 51.0])}))
    assert verdict[0] == f"Use {DEFAULT} at batch 8. Undecided at batch 16 to 4,096."


def test_the_verdict_says_what_was_not_measured_and_what_is_not_like_with_like() -> None:
    failures = [
        failing(4096, DEFAULT, "KILLED", "timed out: it took longer than 60 s"),
        failing(32),
    ]
    runs = [build_brief(is_synthetic=True), *unequal_runs()[1:]]
    found = compare(runs, keys=[BATCH], failures=failures)
    assert find_verdict(found) == (
        "Not comparable: setups differ in compiler.",
        f"{DEFAULT} failed at batch 4096: KILLED, timed out: it took longer than 60 s.",
        "Incomplete: 1 of 4 results are without runs.",
    )
    assert "Synthetic data: compare speed, ignore accuracy." in find_caveats(found)


def test_a_row_with_a_speed_is_not_missing() -> None:
    found = compare(
        [build_brief(round_number=1)],
        keys=[BATCH],
        configurations=[{BATCH: 32}, {BATCH: 64}],
        failures=[failing(32), failing(64)],
    )
    assert [row["status"] for row in records_of(found)] == ["INCOMPLETE", "MISSING"]
    entries = [row["entries"][0] for row in comparison_document(found, ())["rows"]]
    assert [entry["status"] for entry in entries] == ["INCOMPLETE", "MISSING"]


@pytest.mark.parametrize("old", [{"tensorflow": "2.20"}, {"device_kinds": ["gpu"]}])
def test_runs_of_an_older_version_or_other_devices_are_left_out_of_their_point(
    old: Fields,
) -> None:
    tags = {"tfbench.setup": "default"}
    older = build_brief(50.0, run_id="old", created=1.0, settings=old, tags=tags)
    newer = [build_brief(100.0, tags=tags), build_brief(102.0, run_id="second", tags=tags)]
    found = compare([older, *newer])
    entry = found.rows[0].entries[DEFAULT]
    assert ([run.run_id for run in entry.left_out], entry.speed) == (
        ["old"],
        pytest.approx(math.sqrt(100 * 102)),
    )
    assert any(text.startswith("1 run left out") for text in find_caveats(found))
    assert len(compare([older, *newer], allows_unequal=True).rows[0].entries[DEFAULT].runs) == 3


def test_one_setup_that_cannot_be_compared_leaves_the_others_in_the_verdict() -> None:
    setups = [*TWO_SETUPS, Setup(strategy="one_device", devices=("cpu:0",))]
    other = Setup(strategy="mirrored", devices=("cpu:0", "cpu:1", "cpu:2"))
    briefs = build_briefs({32: ((100.0,) * 3, (50.0,) * 3, (200.0,) * 3)}, setups)
    briefs += build_briefs({32: ((300.0,) * 3,)}, [other], settings={"precision": "float16"})
    verdict = find_verdict(compare(briefs, keys=[BATCH]))
    assert verdict[0] == "Not comparable: setups differ in precision."
    assert "slower" in " ".join(verdict) and "faster" in " ".join(verdict)
    # Where it is allowed, it is a caveat, and no part of the answer.
    allowed = compare(briefs, keys=[BATCH], allows_unequal=True)
    assert "Not comparable" not in " ".join(find_verdict(allowed))
    assert "Compared although setups differ in precision." in find_caveats(allowed)


def test_setups_of_which_none_has_a_speed_are_told_by_their_failures() -> None:
    setups = [*TWO_SETUPS, Setup(strategy="one_device", devices=("cpu:0",))]
    failures = [failing(32, setup.label, "FAILED", "NaN") for setup in setups]
    verdict = find_verdict(compare([], keys=[BATCH], failures=failures))
    assert verdict == tuple(f"{setup.label} failed at batch 32: FAILED, NaN." for setup in setups)


def test_of_many_failures_the_verdict_tells_a_few_and_how_many_more() -> None:
    failures = []
    for size in range(9):
        failures.append(failing(64 << size, MIRRORED, "FAILED", f"out of memory: {size} GiB"))
    verdict = find_verdict(compare([build_brief(round_number=1)], keys=[BATCH], failures=failures))
    assert sum("out of memory" in sentence for sentence in verdict) == 4
    assert "5 more results failed." in verdict


def test_the_largest_difference_by_chance_may_be_a_slow_down() -> None:
    once = TWO_SETUPS[0]
    again = replace(once, again=True)
    first = (101.0, 102.0, 103.0)
    speeds = {32: (first, (108.9, 107.8, 106.7)), 64: (first, (79.2, 78.4, 77.6))}
    briefs = build_briefs(speeds, [once, again])
    briefs = [replace(run, run_id=str(place)) for place, run in enumerate(briefs)]
    setups = [once.label, again.label]
    sentence = find_verdict(compare(briefs, keys=[BATCH], setups=setups))[0]
    assert sentence.startswith("Largest difference by chance: 0.7")


def test_runs_of_several_lengths_are_not_pooled_in_silence() -> None:
    lengths = ({"measurement.seconds": 0.5}, {"measurement.seconds": 5.0}, {})
    briefs = [build_brief(round_number=n, settings=length) for n, length in enumerate(lengths)]
    sentence = "Runs of different lengths count alike: 0.5 s, 5 s and whole epochs."
    assert sentence in list(find_caveats(compare(briefs, keys=[BATCH])))
    assert sentence not in list(find_caveats(compare(briefs[:1], keys=[BATCH])))
