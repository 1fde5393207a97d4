"""Tables in terminals of 80 and 120 columns.

No line is longer, and nothing is lost without a word.
"""

import dataclasses
import itertools
import re

import pytest

from kinds import Golden
from sweeps import BATCH, TWO_SETUPS, build_brief
from tfbench.comparisons.comparison import Comparison, compare
from tfbench.comparisons.comparison_text import comparison_table, loss_table, speedup_bars
from tfbench.comparisons.speeds import legend
from tfbench.show.formats import wrap_message
from tfbench.show.table import Table, text
from tfbench.store.history_table import HistoryEntry, history_section
from tfbench.sweeps.arguments import parse_setup

WIDTH = "model.hidden_units"
SETUPS = (*TWO_SETUPS, parse_setup("mirrored gpu:0,gpu:1,gpu:2,gpu:3"))


def compared(num_setups: int) -> Comparison:
    """Compares setups, each 1.5 times as fast as the one before.

    There are two networks, two batch sizes and three rounds.
    """
    briefs = [
        build_brief(
            batch * 1.5**place * (1 + 0.01 * number * (place + 1)),
            setup=setup,
            batch=batch,
            parameters=parameters,
            round_number=number,
        )
        for parameters in (1000, 4_000_000)
        for batch in (32, 8192)
        for place, setup in enumerate(SETUPS[:num_setups])
        for number in (1, 2, 3)
    ]
    return compare(briefs, keys=[WIDTH, BATCH])


def test_validation_losses_stand_below_the_speeds_of_precisions_and_only_there() -> None:
    places = list(itertools.product((32, 64), enumerate(SETUPS), (1, 2)))
    bare = [
        build_brief(setup=setup, batch=batch, round_number=number)
        for batch, (_, setup), number in places
    ]
    briefs = [
        dataclasses.replace(brief, metrics=brief.metrics | {"val_loss": place + 0.1 * number})
        for brief, (_, (place, _), number) in zip(bare, places, strict=True)
    ]
    found = loss_table(compare(briefs, keys=[BATCH], compared=("precision",)))
    assert [line.split() for line in found.text(80)] == [
        ["batch", "A", "B", "C"],
        ["32", "0.15", "1.15", "2.15"],
        ["64", "0.15", "1.15", "2.15"],
    ]
    assert loss_table(compare(briefs, keys=["training.precision"]))
    assert loss_table(compare(briefs, keys=[BATCH])) is None
    assert loss_table(compare(bare, keys=[BATCH], compared=("precision",))) is None


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("num_setups", [2, 3])
def test_a_comparison_fits(golden: Golden, num_setups: int, width: int) -> None:
    found = compared(num_setups)
    table = comparison_table(found, [legend(found, is_full=False)])
    lines = table.text(width)
    assert max(map(len, lines)) <= width
    figures = [
        cell for row in table.rows for cell in row.values() if "[" in str(cell) and "]" in str(cell)
    ]
    assert [
        figure for figure in figures if not any(str(figure) in line for line in lines)
    ] == []  # none is torn apart
    golden(f"comparison_{num_setups}_setups_{width}.txt", "\n".join(lines) + "\n")


def bars(speeds: dict[int, tuple[float, ...]]) -> Table | None:
    """Draws speed-ups over a setup that does 100 samples/s, about."""
    briefs = [
        build_brief(speed, setup=setup, batch=batch, round_number=number)
        for batch, own in speeds.items()
        for setup, all_speeds in zip(TWO_SETUPS, ((100.0, 101.0, 99.0), own), strict=True)
        for number, speed in enumerate(all_speeds, start=1)
    ]
    return speedup_bars(compare(briefs, keys=[BATCH]))


def test_speedups_of_two_setups_are_drawn_as_intervals_where_there_is_something_to_see(
    golden: Golden,
) -> None:
    slower = (50.0, 52.0, 51.0)
    table = bars({32: slower, 64: (80.0, 110.0, 95.0), 128: (118.0, 121.0, 120.0)})
    golden("speedup_bars_80.txt", "\n".join(table.text(80)) + "\n")
    assert bars({32: slower}) is None
    assert (
        bars({32: (100.0, 101.0, 99.0), 64: (100.0, 101.0, 99.0)}) is None
    )  # as fast, and it does not scatter
    assert bars({32: slower, 64: (1.0, 900.0, 30.0)}) is None
    assert speedup_bars(compared(3)) is None


def test_a_message_is_wrapped_between_words_and_its_commands_stay_whole() -> None:
    message = (
        "Error: run 'abc': not in store x. `tfbench runs --store x` lists what is in it.\n  a short"
        " line"
    )
    assert (
        wrap_message(message, 40)
        == "Error: run 'abc': not in store x.\n`tfbench runs --store x` lists what is\nin it.\n  a"
        " short line"
    )


def test_a_list_of_runs_fits_and_says_why_some_ended() -> None:
    fields = {
        "created": 1.0,
        "recipe": "two",
        "setups": ("default cpu:0 backend=tensorflow", "mirrored gpu:0,gpu:1"),
    }
    trained = HistoryEntry(
        id="1" * 32, kind="run", status="FINISHED", samples_per_second=2241.0, **fields
    )
    others = [
        HistoryEntry(id="2" * 32, kind="run", status="FINISHED", **fields),
        HistoryEntry(id="3" * 32, kind="sweep", status="FAILED", reason="no memory", **fields),
    ]
    _, first, second, third, reason = text([history_section([trained, *others])], 120)
    assert re.search(r"^1970-01-01  1{12}  two     2,241 samples/s  default cpu.*\.\.\.$", first)
    assert "  no speed  " in second and "  sweep, FAILED  " in third
    assert reason == "  333333333333  no memory"
    lines = text([history_section([trained, *others])], 80)
    assert max(map(len, lines)) <= 80 and lines[0].split() == [
        "date",
        "id",
        "recipe",
        "result",
    ]
