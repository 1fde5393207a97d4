"""Tables in terminals of 80 and 120 columns.

No line is longer, and nothing is lost without a word.
"""

import re
from typing import Any

import pytest

from kinds import Golden
from sweeps import BATCH, TWO_SETUPS, build_briefs
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
    briefs = []
    for parameters in (1000, 4_000_000):
        for batch in (32, 8192):
            speeds = []
            for place in range(num_setups):
                factors = [1 + 0.01 * number * (place + 1) for number in (1, 2, 3)]
                speeds.append([batch * 1.5**place * factor for factor in factors])
            briefs += build_briefs({batch: speeds}, SETUPS, parameters=parameters)
    return compare(briefs, keys=[WIDTH, BATCH])


def test_validation_losses_stand_below_the_speeds_of_precisions_and_only_there() -> None:
    briefs = build_briefs(dict.fromkeys((32, 64), ((100.0, 100.0),) * 3), SETUPS)
    assert loss_table(compare(briefs, keys=[BATCH], compared=("precision",))) is None
    for place, brief in enumerate(briefs):
        brief.metrics["val_loss"] = place // 2 % 3 + (0.1, 0.2)[place % 2]
    found = loss_table(compare(briefs, keys=[BATCH], compared=("precision",)))
    assert [line.split() for line in found.text(80)] == [
        ["batch", "A", "B", "C"],
        ["32", "0.15", "1.15", "2.15"],
        ["64", "0.15", "1.15", "2.15"],
    ]
    assert loss_table(compare(briefs, keys=["training.precision"]))
    assert loss_table(compare(briefs, keys=[BATCH])) is None


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("num_setups", [2, 3])
def test_a_comparison_fits(golden: Golden, num_setups: int, width: int) -> None:
    found = compared(num_setups)
    table = comparison_table(found, legend(found, is_full=False))
    lines = table.text(width)
    assert max(map(len, lines)) <= width
    for row in table.rows:
        for name, figure in row.items():
            is_ratio = name.startswith("ratio") and figure
            assert not is_ratio or any(figure in line for line in lines)  # none is torn apart
    golden(f"comparison_{num_setups}_setups_{width}.txt", "\n".join(lines) + "\n")


def bars(speeds: dict[int, tuple[float, ...]]) -> Table | None:
    """Draws speed-ups over a setup that does 100 samples/s, about."""
    both = {batch: ((100.0, 101.0, 99.0), own) for batch, own in speeds.items()}
    return speedup_bars(compare(build_briefs(both), keys=[BATCH]))


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
    setups = ("default cpu:0 backend=tensorflow", "mirrored gpu:0,gpu:1")

    def entry(digit: str, **fields: Any) -> HistoryEntry:
        known = {"kind": "run", "status": "FINISHED", "recipe": "two", "setups": setups}
        return HistoryEntry(id=digit * 32, created=1.0, **known | fields)

    entries = [
        entry("1", samples_per_second=2241.0),
        entry("2"),
        entry("3", kind="sweep", status="FAILED", reason="no memory"),
    ]
    _, first, second, third, reason = text([history_section(entries)], 120)
    assert re.search(r"^1970-01-01  1{12}  two     2,241 samples/s  default cpu.*\.\.\.$", first)
    assert "  no speed  " in second and "  sweep, FAILED  " in third
    assert reason == "  333333333333  no memory"
    lines = text([history_section(entries)], 80)
    assert max(map(len, lines)) <= 80
    assert lines[0].split() == ["date", "id", "recipe", "result"]
