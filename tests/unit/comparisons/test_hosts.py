"""Runs of one setup on several machines: which of them count, and what is said of the others."""

import math
from typing import Any

import pytest

from sweeps import BATCH, DEFAULT, MIRRORED, TWO_SETUPS, build_brief, on_machine
from tfbench.comparisons.comparison import Comparison, compare
from tfbench.comparisons.verdict import find_caveats, find_verdict
from tfbench.store.brief import RunBrief, choose_hosts
from tfbench.sweeps.plan import Setup

ON_A = Setup(strategy="default", devices=("cpu:0",), machine="a")
ON_B = Setup(strategy="default", devices=("cpu:0",), machine="b")


def of_sweep(speeds: dict[Setup, dict[str, tuple[float, ...]]], batch: int = 32) -> list[RunBrief]:
    """Builds the runs of a configuration.

    Speeds by setup and host, in rounds that count on from one host to the next.
    """
    found = []
    for setup, of_hosts in speeds.items():
        listed = [(host, speed) for host, own in of_hosts.items() for speed in own]
        for number, (host, speed) in enumerate(listed, start=1):
            run = build_brief(
                speed, setup=setup, batch=batch, round_number=number, created=1e9 + number
            )
            found.append(on_machine(run, host))
    return found


def compared(runs: list[RunBrief], *setups: Setup, **options: Any) -> Comparison:
    return compare(
        runs, keys=[BATCH], setups=[setup.label for setup in setups or TWO_SETUPS], **options
    )


def test_rounds_of_two_machines_are_not_pooled_into_one_speed() -> None:
    # 100 on one machine and 900 on the other: pooled, their mean would be the speed of neither.
    one, other = TWO_SETUPS
    runs = of_sweep(
        {
            one: {"fast": (100.0, 101.0), "slow": (900.0,)},
            other: {"fast": (200.0, 202.0), "slow": (1800.0,)},
        }
    )
    found = compared(runs)
    entries = found.rows[0].entries
    assert entries[DEFAULT].speed == pytest.approx(math.sqrt(100 * 101))
    assert [len(entry.left_out) for entry in entries.values()] == [1, 1]
    speedup = entries[MIRRORED].speedup
    assert (speedup.ratio, speedup.num, speedup.is_paired) == (pytest.approx(2.0), 2, True)
    assert any(text.startswith("2 runs left out: another machine") for text in find_caveats(found))
    entry = (
        compared(runs, allows_unequal=True).rows[0].entries[DEFAULT]
    )  # nor where setups may be unequal
    assert (len(entry.runs), len(entry.left_out)) == (2, 1)


def test_setups_are_compared_on_the_machine_that_most_of_them_ran_on() -> None:
    # The newest run of the one setup is of another machine than all runs of the other.
    runs = of_sweep(
        {
            TWO_SETUPS[0]: {"x": (100.0,), "y": (50.0, 50.0)},
            TWO_SETUPS[1]: {"x": (200.0, 201.0, 202.0)},
        }
    )
    entries = compared(runs).rows[0].entries
    assert [entry.host for entry in entries.values()] == ["x", "x"]
    assert entries[MIRRORED].speedup is not None
    assert entries[MIRRORED].speedup.ratio == pytest.approx(2.0)  # in the round that they share


def test_a_setup_that_ran_elsewhere_alone_keeps_its_speed_and_is_not_comparable() -> None:
    runs = of_sweep({TWO_SETUPS[0]: {"x": (100.0, 101.0)}, TWO_SETUPS[1]: {"y": (200.0, 201.0)}})
    found = compared(runs)
    entry = found.rows[0].entries[MIRRORED]
    assert (entry.host, entry.speedup, entry.left_out) == ("y", None, ())
    assert [one.name for one in entry.unequal] == ["hostname"]
    assert find_verdict(found)[-1] == "Not comparable: setups differ in machine."


def test_each_machine_that_setups_name_has_a_host_of_its_own() -> None:
    runs = of_sweep({ON_A: {"n1": (1.0, 1.0), "n2": (2.0,)}, ON_B: {"n3": (3.0,), "n2": (4.0,)}})
    by_setup = {
        setup.label: [run for run in runs if run.tags["tfbench.setup"] == setup.label]
        for setup in (ON_A, ON_B)
    }
    assert choose_hosts(by_setup) == {
        ON_A.label: "n1",
        ON_B.label: "n2",
    }  # of as many runs, the newer one's
    assert choose_hosts({DEFAULT: []}) == {DEFAULT: ""}


def test_rounds_of_two_machines_do_not_pair() -> None:
    # Both setups grow by 20 % from round to round, each on its own machine: that is chance, and no
    # drift in common.
    speeds = (100.0, 120.0, 144.0)
    for host, expected in (("n2", (False, "no measurable difference")), ("n1", (True, "faster"))):
        runs = of_sweep(
            {ON_A: {"n1": speeds}, ON_B: {host: tuple(1.1 * speed for speed in speeds)}}
        )
        speedup = (
            compared(runs, ON_A, ON_B, compared=("hostname",)).rows[0].entries[ON_B.label].speedup
        )
        assert speedup is not None and speedup.ratio == pytest.approx(1.1)
        assert (speedup.is_paired, speedup.judgement) == expected


def test_the_scatter_of_one_machine_is_not_that_of_another() -> None:
    # On the noisy machine runs differ by half, on the quiet one by a thousandth: 2 % there is a
    # difference.
    noisy = of_sweep(
        {TWO_SETUPS[0]: {"noisy": (100.0, 150.0)}, TWO_SETUPS[1]: {"noisy": (150.0, 100.0)}}
    )
    quiet = of_sweep(
        {
            TWO_SETUPS[0]: {"quiet": (100.0, 100.1, 99.9)},
            TWO_SETUPS[1]: {"quiet": (102.0, 102.1, 101.9)},
        },
        batch=64,
    )
    rows = compared(noisy + quiet).rows
    speedups = [row.entries[MIRRORED].speedup for row in rows]
    assert [speedup and speedup.judgement for speedup in speedups] == [
        "no measurable difference",
        "faster",
    ]
    degrees = [speedup.degrees_of_freedom for speedup in speedups if speedup]
    assert degrees == pytest.approx([1, 2])  # of their own rounds


def test_settings_of_several_machines_are_named() -> None:
    speeds = ((100.0, 101.0), (200.0, 201.0))
    rows = []
    for batch, host in ((32, "n1"), (64, "n2"), (128, "n1")):
        of_host = [{host: own} for own in speeds]
        rows.append(of_sweep(dict(zip(TWO_SETUPS, of_host, strict=True)), batch=batch))
    found = compared([run for row in rows for run in row])
    where = "Configurations ran on several machines, which may explain differences: n1 and n2."
    assert where in find_caveats(found)
    # There is no recommendation across machines.
    assert not any(text.startswith("Use ") for text in find_verdict(found))
    assert not any("several machines" in text for text in find_caveats(compared(rows[0])))
