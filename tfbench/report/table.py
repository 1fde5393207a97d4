"""Tables and sections, and what writes them: plain text, Markdown, CSV and HTML."""

import csv
import functools
import html as escaping
import io
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from tfbench.metrics import CURVE_METRICS, METRICS, PROFILE_METRICS
from tfbench.records.sweep import format_value
from tfbench.report import formats
from tfbench.report.figures import svg
from tfbench.report.plot import Plot
from tfbench.wording import clean, count, markdown_text, one_line, without_secrets

_GAP = "  "
_MAX_WARNINGS = 4
_WARNING_CHARACTERS = 150
_LEAST_ROOM = 24  # characters of a last column whose texts take several lines
_CLASSES = {" +": "faster", " -": "slower", " faster": "faster", " slower": "slower"}
_BY_UNIT: dict[str, Callable[[float], str]] = {
    "s": formats.format_time,
    "bytes": formats.format_bytes,
    "FLOP/s": functools.partial(formats.format_si, unit="FLOP/s"),
    "samples/s": formats.format_speed,
    "J": functools.partial(formats.format_si, unit="J"),
}
MARKERS = ("! ", "i ", "- ")  # what a sentence may begin with: a warning, a note, one of several


@dataclass(frozen=True, slots=True)
class Column:
    """A column.

    One with a rank may be hidden where there is no room, that of the highest rank first.
    """

    key: str
    title: str
    show: Callable[[Any], str] = str
    align: Literal["left", "right"] = "right"
    rank: int = 0
    width: int = 0  # at least, of a table whose rows come one by one
    meaning: str = ""  # told below the table
    hidden_as: str = ""  # what it is called where it is hidden, if not by its title

    def cell(self, row: Mapping[str, Any]) -> str:
        """Returns the text of a row, "" for None."""
        value = row.get(self.key)
        return "" if value is None else self.show(value)


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of plain values. Without titles of columns it is a list of labelled facts."""

    title: str
    columns: tuple[Column, ...]
    rows: Sequence[Mapping[str, Any]]
    notes: tuple[str, ...] = ()

    def text(self, width: int) -> list[str]:
        """Returns lines, none longer than `width`.

        Columns are hidden, then texts wrapped, then cells stacked.
        """
        columns = [
            one for one in self.columns if not one.rank or any(one.cell(row) for row in self.rows)
        ]
        hidden: list[Column] = []
        while (
            _line_width(self._grid(columns)) > width
            and (least := max(columns, key=lambda one: one.rank)).rank
        ):
            columns.remove(least)
            hidden.append(least)
        lines = self._lines(columns, width)
        notes = self._notes(columns)
        if hidden and lines:
            names = ", ".join(one.hidden_as or one.title for one in self.columns if one in hidden)
            notes.append(f"Hidden: {names} (use a wider terminal or --format json)")
        width_of_text = min(width, formats.TEXT_WIDTH)
        wrapped = [line for note in notes for line in formats.wrap(note, width_of_text)]
        return [*(lines or self._stacked(width)), *wrapped]

    def markdown(self) -> list[str]:
        """Returns lines of Markdown."""
        header, *rows = [
            [markdown_text(text) for text in row] for row in _cells(self.columns, self.rows)
        ]
        lines = [f"| {' | '.join(row)} |" for row in (header, *rows)]
        lines.insert(1, "|" + " --- |" * len(header))
        return [
            *lines,
            *(line for note in self._notes(self.columns) for line in ("", markdown_text(note))),
        ]

    def csv(self) -> str:
        """Returns the raw values, not the texts, with the keys as names."""
        file = io.StringIO()
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(one.key for one in self.columns)
        writer.writerows([_plain(row.get(one.key)) for one in self.columns] for row in self.rows)
        return file.getvalue()

    def html(self) -> str:
        """Returns a table that scrolls in a box of its own."""
        if not any(one.title for one in self.columns):
            facts = "".join(
                f"<dt>{escaped(label)}</dt><dd>{escaped(', '.join(texts))}</dd>\n"
                for label, *texts in _cells(self.columns, self.rows)[1:]
            )
            return f"<dl>\n{facts}</dl>\n"
        sides = [' class="text"' if one.align == "left" else "" for one in self.columns]
        head = "".join(
            f"<th{side}>{escaped(one.title)}</th>"
            for side, one in zip(sides, self.columns, strict=True)
        )
        body = "".join(
            f"<tr>{''.join(map(_html_cell, self.columns, row))}</tr>\n"
            for row in _cells(self.columns, self.rows)[1:]
        )
        label = escaped(self.title or "table")
        return (
            f'<div class="scroll" role="region" tabindex="0" aria-label="{label}"><table>\n'
            f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody></table></div>\n"
            + "".join(
                f'<p class="note">{escaped(note)}</p>\n' for note in self._notes(self.columns)
            )
        )

    def _notes(self, columns: Sequence[Column]) -> list[str]:
        """Returns what the columns mean, in one line, and the notes."""
        legend = "; ".join(f"{one.title}: {one.meaning}" for one in columns if one.meaning)
        return [*([legend] if legend else []), *self.notes]

    def _grid(self, columns: Sequence[Column]) -> list[list[str]]:
        """Returns the cells as they are padded; facts are indented, and have no header."""
        cells = _cells(columns, self.rows)
        widths = [
            max(one.width, *map(len, texts))
            for one, texts in zip(columns, zip(*cells, strict=True), strict=True)
        ]
        padded = [
            [
                text.ljust(width) if one.align == "left" else text.rjust(width)
                for one, text, width in zip(columns, row, widths, strict=True)
            ]
            for row in cells
        ]
        return padded if any(one.title for one in columns) else [["", *row] for row in padded[1:]]

    def _lines(self, columns: Sequence[Column], width: int) -> list[str]:
        """Returns the rows with the last texts wrapped; none where there is no room for that."""
        grid = self._grid(columns)
        if _line_width(grid) <= width or not grid:
            return [_GAP.join(row).rstrip() for row in grid]
        firsts = [_GAP.join([*row[:-1], ""]) for row in grid]
        if columns[-1].align == "left" and width - len(firsts[0]) >= _LEAST_ROOM:
            return [
                line
                for first, row in zip(firsts, grid, strict=True)
                for line in formats.wrap(row[-1].rstrip(), width, first=first)
            ]
        return []

    def _stacked(self, width: int) -> list[str]:
        """Returns the cells of each row below each other."""
        lines = []
        for row in self.rows:
            cells = [
                f"{one.title}: {text}".removeprefix(": ")
                for one in self.columns
                if (text := one.cell(row))
            ]
            for place, cell in enumerate(cells):
                lines += formats.wrap(cell, width, first=_GAP * (place > 0))
        return lines


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a screen, a document or a page. Sentences may begin with one of `MARKERS`."""

    title: str
    sentences: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()
    plots: tuple[Plot, ...] = ()
    code: str = ""  # commands, or a file, as they are to be copied
    is_folded: bool = False  # on a page


def facts(pairs: Iterable[tuple[str, str]]) -> Table:
    """Returns labelled texts as a table; those without a text are left out."""
    columns = (Column("label", "", align="left", width=10), Column("text", "", align="left"))
    return Table("", columns, [{"label": label, "text": text} for label, text in pairs if text])


def warnings_section(texts: Sequence[str], title: str = "Warnings") -> Section:
    """Returns warnings in full."""
    return Section(title, tuple(f"- {one}" for one in texts))


def short_warnings(
    warnings: Sequence[str],
    notes: Sequence[str] = (),
    *,
    most: int = _MAX_WARNINGS,
    details: str = "",
) -> Iterator[Section]:
    """Yields the first sentences of notes and of at most `most` warnings.

    It adds the number of further warnings, and details.
    """
    shown = warnings if len(warnings) <= most else warnings[: most - 1]
    lines = [f"! {_first_sentence(warning)}" for warning in shown]
    if len(warnings) > len(shown):
        lines.append(f"! {count(len(warnings) - len(shown), 'more kind')} of warning")
    if notes:
        yield Section("", tuple(f"i {_first_sentence(note)}" for note in notes))
    if lines:
        yield Section("", tuple(lines), code=details)


def _first_sentence(text: str) -> str:
    first, stop, _ = text.partition(". ")
    first += stop.rstrip()
    is_word = first.partition(" ")[0].isalpha()  # not a file or a key
    return textwrap.shorten(
        first[0].upper() + first[1:] if is_word else first, _WARNING_CHARACTERS, placeholder=" ..."
    )


def metric_title(name: str) -> str:
    """Returns a metric as people call it: "samples/s", "step time median", "peak memory"."""
    if name == "samples_per_second":
        return "samples/s"
    return name.removesuffix("_seconds").removesuffix("_bytes").replace("_", " ")


def format_metric(name: str, value: float | None) -> str:
    """Returns the value of a metric with its unit, "-" for None."""
    if value is None:
        return "-"
    return _BY_UNIT.get(_unit(name), formats.format_number)(value)


def text(sections: Iterable[Section], width: int) -> list[str]:
    """Returns sections as lines, an empty one before each but the first."""
    lines: list[str] = []
    width_of_text = min(width, formats.TEXT_WIDTH)
    for section in sections:
        block = formats.wrap(section.title, width_of_text) if section.title else []
        for sentence in section.sentences:
            marker = sentence[:2] if sentence.startswith(MARKERS) else ""
            block += formats.wrap(sentence.removeprefix(marker), width_of_text, first=marker)
        for table in section.tables:
            block += [*([""] if table.rows and section.sentences else []), *table.text(width)]
        block += section.code.splitlines()
        lines += [*([""] if lines and block else []), *block]
    return lines


def markdown(sections: Iterable[Section]) -> list[str]:
    """Returns sections as lines of Markdown."""
    lines: list[str] = []
    for section in sections:
        lines += ["", f"## {markdown_text(section.title)}"] if section.title else []
        for sentence in section.sentences:
            lines += [
                "",
                markdown_text(sentence if sentence.startswith("- ") else _unmarked(sentence)),
            ]
        for table in section.tables:
            lines += ["", *table.markdown()]
        if section.code:
            lines += ["", "```", *section.code.splitlines(), "```"]
    return lines[1:]


def html(sections: Iterable[Section]) -> str:
    """Returns sections as HTML."""
    parts = []
    for section in sections:
        title = escaped(section.title)
        sentences = "".join(f"<li>{escaped(_unmarked(one))}</li>\n" for one in section.sentences)
        parts += [
            '<section class="verdict">\n' if section.title == "Verdict" else "<section>\n",
            (
                f"<details>\n<summary>{title}</summary>\n"
                if section.is_folded
                else f"<h2>{title}</h2>\n" * bool(title)
            ),
            f"<ul>\n{sentences}</ul>\n" if sentences else "",
            *map(_picture, section.plots),
            *(table.html() for table in section.tables if table.rows),
            f"<pre><code>{escaped(section.code)}</code></pre>\n" if section.code else "",
            "</details>\n" if section.is_folded else "",
            "</section>\n",
        ]
    return "".join(parts)


def _picture(plot: Plot) -> str:
    """Returns a plot in a box of its own."""
    start = f'<svg role="img" aria-label="{escaped(plot.alt)}" '
    picture = svg(plot).replace("<svg ", start, 1)
    return (
        '<figure><div class="scroll" role="region" tabindex="0"'
        f' aria-label="plot">{picture}</div></figure>\n'
    )


def escaped(words: str) -> str:
    """Returns a text for HTML: masked, cleaned, and with nothing that is obeyed."""
    return escaping.escape(clean(without_secrets(words)))


def _unmarked(sentence: str) -> str:
    return sentence[2:] if sentence.startswith(MARKERS) else sentence


def _unit(name: str) -> str:
    known = METRICS.get(name) or PROFILE_METRICS.get(name) or CURVE_METRICS.get(name)
    return known.unit if known else ""


def _cells(columns: Sequence[Column], rows: Iterable[Mapping[str, Any]]) -> list[list[str]]:
    return [[one.title for one in columns], *([one.cell(row) for one in columns] for row in rows)]


def _line_width(grid: Iterable[Sequence[str]]) -> int:
    return max((len(_GAP.join(row).rstrip()) for row in grid), default=0)


def _plain(value: Any) -> Any:
    value = format_value(value) if isinstance(value, bool | list | tuple) else value
    return one_line(value) if isinstance(value, str) else value


def _html_cell(column: Column, words: str) -> str:
    kinds = [kind for ending, kind in _CLASSES.items() if words.endswith(ending)]
    kind = "long" if column.align == "left" else next(iter(kinds), "")
    return f'<td class="{kind}">{escaped(words)}</td>'
