"""Tables in terminals of 80, 100 and 120 columns: no line is longer, and nothing is lost without a word."""

from collections.abc import Callable

import pytest

from sweeps import TWO_ARMS, build_brief
from tfbench.analysis.comparison.comparison import Comparison, compare
from tfbench.report.comparison.comparison import comparison_lines, table_cells
from tfbench.report.formats import wrap_message
from tfbench.report.text_table import fitting_lines
from tfbench.sweeps.plan import parse_arm

Golden = Callable[[str, str], None]

BATCH, WIDTH = "training.global_batch_size", "model.hidden_units"
ARMS = (*TWO_ARMS, parse_arm("mirrored gpu:0,gpu:1,gpu:2,gpu:3"))


def compared(num_arms: int) -> Comparison:
    """Compares arms, each a half faster than the one before, over two networks and two batch sizes, in three rounds."""
    briefs = [
        build_brief(
            batch * 1.5**place * (1 + 0.01 * number * (place + 1)),
            arm=arm,
            batch=batch,
            parameters=parameters,
            round_number=number,
        )
        for parameters in (1000, 4_000_000)
        for batch in (32, 8192)
        for place, arm in enumerate(ARMS[:num_arms])
        for number in (1, 2, 3)
    ]
    return compare(briefs, keys=[WIDTH, BATCH])


@pytest.mark.parametrize("width", [80, 100, 120])
@pytest.mark.parametrize("num_arms", [2, 3])
def test_a_comparison_fits(golden: Golden, num_arms: int, width: int) -> None:
    comparison = compared(num_arms)
    lines = comparison_lines(comparison, width)
    assert max(map(len, lines)) <= width
    figures = [cell for row in table_cells(comparison)[1] for cell in row if "[" in cell or "+-" in cell]
    assert [figure for figure in figures if not any(figure in line for line in lines)] == []  # none is torn apart
    golden(f"comparison_{num_arms}_arms_{width}.txt", "\n".join(lines) + "\n")


def test_arms_too_long_for_a_line_have_their_figures_below_them() -> None:
    comparison = compared(3)
    lines = comparison_lines(comparison, 50)
    assert max(map(len, lines)) <= 50
    place = lines.index(f"  {ARMS[2].label}")
    assert lines[place + 1].startswith("    ") and lines[place + 1].endswith(" +")


def test_what_most_settings_share_stands_above_them_once() -> None:
    compiled = "training.compiler"
    briefs = [
        build_brief(arm=arm, batch=batch, settings={BATCH: batch, WIDTH: [1000], compiled: compiler})
        for batch, compiler in ((32, "graph"), (64, "graph"), (64, "xla"))
        for arm in ARMS
    ]
    lines = comparison_lines(compare(briefs, keys=[BATCH, compiled]), 80)
    assert lines[1] == "Unless said otherwise: compiler=graph"
    assert [line.partition(",")[0] for line in lines[2:] if not line.startswith(" ")] == [
        "global_batch_size=32",
        "global_batch_size=64",
        "global_batch_size=64 compiler=xla",
    ]


def test_empty_columns_are_left_out_first_and_nobody_misses_them() -> None:
    header, rows = ("name", "size", "kernel", "speed"), [("one", "1", "", "100.0")]
    assert fitting_lines(header, rows, 20, left=("name",), drop=("size", "kernel")) == [
        "name  size  speed",
        "one      1  100.0",
    ]


def test_columns_are_left_out_in_their_order_and_named() -> None:
    header, rows = ("name", "size", "speed"), [("one", "1", "100.0"), ("twentyone", "22", "7")]
    assert fitting_lines(header, rows, 80, left=("name",), drop=("size",)) == [
        "name       size  speed",
        "one           1  100.0",
        "twentyone    22      7",
    ]
    lines = fitting_lines(header, rows, 18, left=("name",), drop=("size", "speed"))
    assert lines[:3] == ["name       speed", "one        100.0", "twentyone      7"]
    assert " ".join(lines[3:]) == "Left out for want of room: size. A wider terminal shows them, and --format json."


def test_a_message_is_wrapped_between_words_and_its_commands_stay_whole() -> None:
    text = "Error: run 'abc': not in store x. `tfbench runs --store x` lists what is in it.\n  a short line"
    assert wrap_message(text, 40) == (
        "Error: run 'abc': not in store x.\n`tfbench runs --store x` lists what is\nin it.\n  a short line"
    )
