import csv
import io
import math
from dataclasses import replace
from typing import Any

import pytest

from kinds import Fields, Golden
from sweeps import BATCH, DEFAULT, MIRRORED, TWO_SETUPS, build_brief
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


def sweep_of(speeds: dict[int, tuple[list[float], list[float]]], **options: Any) -> Comparison:
    """Compares a sweep: batch size to the speeds of both setups, round by round."""
    briefs = [
        build_brief(speed, setup=setup, batch=batch, round_number=number)
        for batch, of_setups in speeds.items()
        for setup, of_setup in zip(TWO_SETUPS, of_setups, strict=True)
        for number, speed in enumerate(of_setup, start=1)
    ]
    return compare(briefs, keys=[BATCH], **options)


def speedup_in(found: Comparison, row: int = 0) -> Speedup:
    return found.rows[row].entries[MIRRORED].speedup


@pytest.mark.parametrize(
    ("speeds", "ratio", "expected"),
    [
        # Ratios 1.5 in both rounds, although the speeds differ by a factor of two from round to
        # round.
        (([100.0, 200.0], [150.0, 300.0]), 1.5, (2, True, "faster")),
        # Ratios 0.5 and 4: log mean (log 2) / 2, and with one degree of freedom t = 12.7, far
        # beyond 1 on both sides.
        (([100.0, 100.0], [50.0, 400.0]), math.sqrt(2), (2, True, "no measurable difference")),
        # The baseline's other rounds are not there yet, so that these tell nothing.
        (([100.0], [150.0, 151.0, 149.0]), 1.5, (1, True, "not judged")),
        (([100.0], [150.0]), 1.5, (1, True, "not judged")),
    ],
)
def test_a_speed_up_is_compared_round_by_round(
    speeds: tuple[list[float], list[float]], ratio: float, expected: tuple[int, bool, str]
) -> None:
    found = speedup_in(sweep_of({32: speeds}))
    assert found.ratio == pytest.approx(ratio)
    assert (found.num, found.is_paired, found.judgement) == expected


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
        run
        for sweep, factor in (("monday", 1.0), ("friday", 3.0))
        for setup, speeds in ((one, (100.0, 100.0, 100.0)), (other, (150.0, 151.5, 148.5)))
        for run in in_rounds(setup, sweep, *(factor * speed for speed in speeds))
    ]
    speedup = speedup_in(compare(both))
    assert (speedup.is_paired, speedup.num, speedup.ratio) == (
        True,
        6,
        pytest.approx(1.5, rel=1e-3),
    )


def test_without_keys_rows_are_told_apart_by_what_the_runs_differ_in() -> None:
    briefs = [build_brief(parameters=size, batch=batch) for size in (10, 20) for batch in (64, 32)]
    found = compare(briefs)
    assert found.keys == ("model.hidden_units", BATCH)
    assert [tuple(row.configuration.values()) for row in found.rows] == [
        ([10], 32),
        ([10], 64),
        ([20], 32),
        ([20], 64),
    ]
    assert [row.num_parameters for row in found.rows] == [10, 10, 20, 20]


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


def test_a_point_without_a_speed_stands_as_what_it_is() -> None:
    failures = [
        Failure(configuration={BATCH: batch}, setup=setup, outcome=outcome, reason=reason)
        for batch, setup, outcome, reason in (
            (32, MIRRORED, "KILLED", "out of memory: it took 9 GiB"),
            (4096, DEFAULT, "KILLED", "timed out: it took longer"),
            (4096, MIRRORED, "MISSING", "not measured"),
        )
    ]
    briefs = [
        build_brief(round_number=1),
        build_brief(None, batch=64, round_number=1, status="FAILED", reason="NaN"),
    ]
    rows = [{BATCH: batch} for batch in (32, 64, 4096)]
    found = compare(
        briefs, keys=[BATCH], configurations=rows, setups=[DEFAULT, MIRRORED], failures=failures
    )
    lines = comparison_table(found).text(200)
    assert [line.split()[0] for line in lines] == ["batch", "32", "64", "4096"]
    assert ("out of memory" in lines[1], "failed" in lines[2]) == (True, True)
    assert "timed out" in lines[3] and "not measured" in lines[3]


def test_records_have_raw_figures_and_nothing_in_the_place_of_what_is_not_known() -> None:
    found = sweep_of({32: ([100.0, 101.0], [50.0, 50.5]), 64: ([1000.0, 1010.0], [2000.0, 2020.0])})
    rows = list(csv.DictReader(io.StringIO(comparison_records(found).csv())))
    assert [row["setup"] for row in rows] == [DEFAULT, MIRRORED] * 2
    assert (float(rows[1]["speedup"]), rows[0]["speedup"]) == (pytest.approx(0.5), "")
    assert float(rows[0]["samples_per_second"]) == pytest.approx(math.sqrt(100 * 101))
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


def test_the_verdict_says_which_setup_to_use_from_which_batch_on() -> None:
    steady = ([100.0, 101.0, 100.5], [50.0, 50.5, 50.2])
    found = sweep_of({32: steady, 64: steady, 128: (steady[1], steady[0])})
    assert find_verdict(found) == (
        f"Use {DEFAULT} at batch 32 to 64 and {MIRRORED} at batch 128.",
        f"{MIRRORED} is faster than {DEFAULT} at batch 128: 2.00x [2.00, 2.00].",
        f"{MIRRORED} is slower than {DEFAULT} at batch 32, 64: 0.50x.",
    )
    assert list(find_caveats(found)) == [
        "Logical CPU devices share all cores: this shows overhead, not scaling."
    ]


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
    briefs = [
        build_brief(speed * jitter, setup=setup, batch=batch, round_number=number, parameters=units)
        for units, of_batches in speeds.items()
        for batch, of_setups in of_batches.items()
        for setup, speed in zip(TWO_SETUPS, of_setups, strict=True)
        for number, jitter in enumerate(
            (1.0, 1.01, 0.99) if setup == TWO_SETUPS[0] else (1.0, 1.0, 1.0), start=1
        )
    ]
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
    kinds = ["swapped", "drifting", "unsteady", "throttled", "others kept 9 cores busy"]
    briefs = [
        build_brief(round_number=n, warnings=[*kinds[n:4], f"others kept {n} cores busy"])
        for n in range(5)
    ]
    briefs.append(build_brief(round_number=6, warnings=["synthetic data"]))
    lines = text(
        comparison_sections(compare(briefs, keys=[BATCH]), (), report="tfbench report --all"), 120
    )
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
    found = sweep_of(speeds | {4096: (same, [103.5, 104.5, 108.5])})
    speedup = speedup_in(found, -1)
    assert (speedup.excludes_one, speedup.is_suggested, speedup.judgement) == (
        True,
        True,
        "no measurable difference",
    )
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
    verdict = find_verdict(
        sweep_of(speeds | {8: (same, [49.0, 50.0, 51.0]), 4096: (same, [103.5, 104.5, 108.5])})
    )
    assert verdict[0] == f"Use {DEFAULT} at batch 8. Undecided at batch 16 to 4,096."


def test_the_verdict_says_what_was_not_measured_and_what_is_not_like_with_like() -> None:
    failure = Failure(
        configuration={BATCH: 4096},
        setup=DEFAULT,
        outcome="KILLED",
        reason="timed out: it took longer than 60 s",
    )
    stopped = Failure(
        configuration={BATCH: 32}, setup=DEFAULT, outcome="MISSING", reason="not measured"
    )
    runs = [build_brief(is_synthetic=True), *unequal_runs()[1:]]
    found = compare(runs, keys=[BATCH], failures=[failure, stopped])
    assert find_verdict(found) == (
        "Not comparable: setups differ in compiler.",
        f"{DEFAULT} failed at batch 4096: KILLED, timed out: it took longer than 60 s.",
        "Incomplete: 1 of 4 results are without runs.",
    )
    assert "Synthetic data: compare speed, ignore accuracy." in find_caveats(found)


def test_a_row_with_a_speed_is_not_missing() -> None:
    missing = [
        Failure(
            configuration={BATCH: size}, setup=DEFAULT, outcome="MISSING", reason="not measured"
        )
        for size in (32, 64)
    ]
    configurations = [{BATCH: 32}, {BATCH: 64}]
    found = compare(
        [build_brief(round_number=1)], keys=[BATCH], configurations=configurations, failures=missing
    )
    rows = list(csv.DictReader(io.StringIO(comparison_records(found).csv())))
    outcomes = [(bool(row["samples_per_second"]), row["status"]) for row in rows]
    assert outcomes == [(True, "INCOMPLETE"), (False, "MISSING")]
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
    setups = [
        *TWO_SETUPS,
        *(Setup(strategy="default", devices=(f"cpu:{place}",)) for place in (2, 3)),
    ]
    settings = [{}, {}, {}, {"precision": "mixed_bfloat16"}]
    briefs = [
        build_brief(
            speed + number,
            setup=setup,
            settings=own,
            round_number=number,
            run_id=f"{speed}{number}",
        )
        for setup, speed, own in zip(setups, (100.0, 50.0, 200.0, 300.0), settings, strict=True)
        for number in (1, 2, 3)
    ]
    verdict = find_verdict(compare(briefs, keys=[BATCH]))
    assert verdict[0] == "Not comparable: setups differ in precision."
    assert "slower" in " ".join(verdict) and "faster" in " ".join(verdict)
    allowed = compare(
        briefs, keys=[BATCH], allows_unequal=True
    )  # and then it is a caveat, and no part of the answer
    assert "Not comparable" not in " ".join(find_verdict(allowed))
    assert "Compared although setups differ in precision." in find_caveats(allowed)


def test_of_many_failures_the_verdict_tells_a_few_and_how_many_more() -> None:
    failures = [
        Failure(
            configuration={BATCH: 64 << size},
            setup=MIRRORED,
            outcome="FAILED",
            reason=f"out of memory: {size} GiB",
        )
        for size in range(9)
    ]
    verdict = find_verdict(compare([build_brief(round_number=1)], keys=[BATCH], failures=failures))
    assert sum("out of memory" in sentence for sentence in verdict) == 4
    assert "5 more results failed." in verdict


def test_the_largest_difference_by_chance_may_be_a_slow_down() -> None:
    once = TWO_SETUPS[0]
    again = replace(once, again=True)
    briefs = []
    for batch, ratio in ((32, 1.1), (64, 0.8)):
        for number in (1, 2, 3):
            names = {"batch": batch, "round_number": number}
            briefs.append(build_brief(100.0 + number, setup=once, **names))
            other = build_brief(ratio * (100.0 - number), setup=again, **names)
            briefs.append(replace(other, run_id=f"{other.run_id}-again"))
    setups = [once.label, again.label]
    sentence = find_verdict(compare(briefs, keys=[BATCH], setups=setups))[0]
    assert sentence.startswith("Largest difference by chance: 0.7")


def test_runs_of_several_lengths_are_not_pooled_in_silence() -> None:
    lengths = ({"measurement.seconds": 0.5}, {"measurement.seconds": 5.0}, {})
    briefs = [build_brief(round_number=n, settings=length) for n, length in enumerate(lengths)]
    sentence = "Runs of different lengths count alike: 0.5 s, 5 s and whole epochs."
    assert sentence in list(find_caveats(compare(briefs, keys=[BATCH])))
    assert sentence not in list(find_caveats(compare(briefs[:1], keys=[BATCH])))
