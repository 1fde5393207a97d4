"""Tables and sections: what fits, what is hidden, and that nothing of others is obeyed."""

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfbench.metrics import METRICS
from tfbench.show.table import (
    Column,
    Section,
    Table,
    facts,
    format_metric,
    markdown,
    metric_title,
    short_warnings,
    text,
    warnings_section,
)

COLUMNS = (
    Column("name", "name", align="left"),
    Column("size", "size", rank=2),
    Column("speed", "speed", rank=1),
)
ROWS = [
    {"name": "one", "size": 1, "speed": 100.0},
    {"name": "twentyone", "size": 22, "speed": None},
]
TABLE = Table("speeds", COLUMNS, ROWS, notes=("Mean of 3 runs.",))
EVIL = "<b>|\x1b[31m"


def test_text_is_aligned_and_none_is_an_empty_cell() -> None:
    assert TABLE.text(80) == [
        "name       size  speed",
        "one           1  100.0",
        "twentyone    22",
        "Mean of 3 runs.",
    ]


def test_columns_are_hidden_by_rank_and_named() -> None:
    lines = TABLE.text(18)
    assert lines[:3] == ["name       speed", "one        100.0", "twentyone"]
    assert (
        " ".join(lines[3:])
        == "Mean of 3 runs. Hidden: size (use a wider terminal or --format json)"
    )


def test_a_hidden_column_comes_back_where_a_wider_one_made_room() -> None:
    columns = (
        Column("name", "name", align="left"),
        Column("short", "short", rank=2),
        Column("wide", "wide", rank=1),
    )
    table = Table("", columns, [{"name": "one", "short": "x", "wide": "w" * 30}])
    assert table.text(20) == [
        "name  short",
        "one       x",
        "Hidden: wide (use a",
        "wider terminal or",
        "--format json)",
    ]


def test_empty_columns_with_a_rank_are_left_out_and_nobody_misses_them() -> None:
    rows = [row | {"speed": None} for row in ROWS]
    assert Table("", COLUMNS, rows).text(80)[0] == "name       size"


def test_the_last_text_takes_several_lines() -> None:
    table = Table(
        "", (Column("a", "a"), Column("b", "why", align="left")), [{"a": 1, "b": "word " * 12}]
    )
    lines = table.text(40)
    assert max(map(len, lines)) <= 40 and lines[2].startswith("   word")


@given(
    st.lists(st.tuples(st.integers(0, 10**9), st.text("ab c", max_size=60)), max_size=4),
    st.integers(min_value=24, max_value=120),
)
def test_a_table_fits_any_width(values: list[tuple[int, str]], width: int) -> None:
    columns = (
        Column("a", "some number"),
        Column("a", "number", rank=1),
        Column("c", "said", align="left"),
    )
    rows = [{"a": number, "c": words} for number, words in values]
    lines = Table("", columns, rows).text(width)
    assert max(map(len, lines), default=0) <= max(width, 62)  # a single word may be longer


def test_facts_have_no_header_and_leave_out_what_is_not_known() -> None:
    assert facts([("Speed", "100 samples/s"), ("Energy", "")]).text(80) == [
        "  Speed       100 samples/s"
    ]


def test_csv_has_raw_values_under_their_keys() -> None:
    rows = list(csv.DictReader(io.StringIO(TABLE.csv())))
    assert rows == [
        {"name": "one", "size": "1", "speed": "100.0"},
        {"name": "twentyone", "size": "22", "speed": ""},
    ]


def test_markdown_keeps_to_its_cells() -> None:
    lines = Table("", COLUMNS[:1], [{"name": EVIL}]).markdown()
    assert lines == ["| name |", "| --- |", "| &lt;b>\\|\\\\u001b[31m |"]


def test_sections_are_told_apart_and_their_sentences_hang() -> None:
    sections = [
        Section("Title", ("One.",), (TABLE,)),
        Section("", ("! word " + "word " * 20,)),
        warnings_section(("a", "b")),
    ]
    lines = text(sections, 60)
    assert lines[:3] == ["Title", "One.", ""] and max(map(len, lines)) <= 60
    assert lines[lines.index("") :].count("") == 3
    assert lines[lines.index("Warnings") - 2].startswith("  word") and lines[-2:] == ["- a", "- b"]


def test_a_document_in_markdown_has_headings_sentences_and_tables() -> None:
    lines = markdown([Section("Speed", ("One.",), (TABLE,), code="tfbench runs")])
    assert (
        lines[:4] == ["## Speed", "", "One.", ""]
        and lines[4].startswith("| name |")
        and lines[-3:-1] == ["```", "tfbench runs"]
    )


@pytest.mark.parametrize(
    ("name", "title", "value", "shown"),
    [
        ("samples_per_second", "samples/s", 12_345.6, "12,346"),
        ("step_time_median_seconds", "step time median", 0.00367, "3.67 ms"),
        ("peak_memory_bytes", "peak memory", 2.0**30, "1.00 GiB"),
        ("val_accuracy", "val accuracy", 0.9689, "0.9689"),
    ],
)
def test_a_metric_has_its_title_and_format_from_its_unit(
    name: str, title: str, value: float, shown: str
) -> None:
    assert (metric_title(name), format_metric(name, value), format_metric(name, None)) == (
        title,
        shown,
        "-",
    )
    assert name in METRICS


def test_a_short_warning_begins_with_a_capital_but_for_files_and_keys() -> None:
    (section,) = short_warnings(
        ["no GPU found. Why?", "nets.py:build sets a seed. So?", "max_steps is 0."]
    )
    assert section.sentences == (
        "! No GPU found.",
        "! nets.py:build sets a seed.",
        "! max_steps is 0.",
    )
