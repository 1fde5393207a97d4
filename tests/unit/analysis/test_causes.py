"""What is said of a slower setup: what was measured, from the estimator that the table has, and nothing else."""

import dataclasses
from typing import Any

from sweeps import build_brief
from tfbench.analysis.comparison.comparison import Comparison, compare
from tfbench.analysis.comparison.verdict import find_caveats, find_verdict
from tfbench.records.sweep import Setup

BATCH = "training.global_batch_size"
GPUS = (Setup(strategy="one_device", devices=("gpu:0",)), Setup(strategy="mirrored", devices=("gpu:0", "gpu:1")))
# 32 samples at 2667, 3472 and 3540 a second: steps of 12, 9.2 and 9.0 ms, their geometric mean one of 10.0 ms.
SPEEDS = (32 / 0.012, 32 / 0.0092, 32 / 0.009045)


def compared(setups: tuple[Setup, Setup] = GPUS, headroom: float | None = None, **fields: Any) -> Comparison:
    """Compares two settings of two setups, the second slower by 1.5 and 2 times; steps as uneven as the speeds."""
    briefs = []
    for number, speed in enumerate(SPEEDS, 1):
        for batch, factor in ((32, 1.5), (64, 2.0)):
            for setup, faster in zip(setups, (factor, 1.0), strict=True):
                brief = build_brief(
                    faster * speed, setup=setup, batch=batch, round_number=number, parameters=2**18, **fields
                )
                briefs.append(dataclasses.replace(brief, metrics=brief.metrics | {"input_headroom": headroom}))
    return compare(briefs, keys=[BATCH])


def slower(comparison: Comparison) -> str:
    (sentence,) = (text for text in find_verdict(comparison) if " is slower than " in text)
    return sentence


def test_an_input_that_was_measured_to_take_most_of_a_step_is_a_cause_that_is_named() -> None:
    told = " The input pipeline alone takes 80 % of a step."
    assert "input pipeline" not in slower(compared(headroom=4.0))
    assert "input pipeline" not in slower(compared(headroom=0.42))  # which contradicts itself
    assert slower(compared(headroom=1.25)).endswith(told)
    one = (Setup(strategy="default", devices=("gpu:0",)), Setup(strategy="one_device", devices=("gpu:0",)))
    assert slower(compared(one)).endswith(": 0.50x to 0.67x.")  # of one replica nothing else is known
    assert slower(compared(one, headroom=1.25)).endswith(told)


def test_speeds_of_more_runs_than_a_speed_up_has_rounds_are_said_to_be_so() -> None:
    comparison = compared()
    assert not any("common rounds" in text for text in find_caveats(comparison))
    row, other = comparison.rows
    entry = row.entries[GPUS[1].label]
    assert entry.speedup is not None and entry.speedup.is_paired
    fewer = dataclasses.replace(entry, speedup=dataclasses.replace(entry.speedup, num=2))
    changed = dataclasses.replace(row, entries=row.entries | {entry.setup: fewer})
    caveats = find_caveats(dataclasses.replace(comparison, rows=(changed, other)))
    assert (
        "mirrored gpu:0,gpu:1: speed-ups use common rounds only, speeds use all runs, so their quotient differs."
    ) in caveats
