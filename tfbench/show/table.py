"""Tables and sections, written as plain text, Markdown, CSV and HTML."""

import csv
import functools
import html as escaping
import io
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from tfbench.metrics import CURVE_METRICS, METRICS, PROFILE_METRICS
from tfbench.show.figures import svg
from tfbench.show.formats import (
    TEXT_WIDTH,
    format_bytes,
    format_number,
    format_si,
    format_speed,
    format_time,
    wrap,
)
from tfbench.show.plot import Plot
from tfbench.sweeps.plan import format_value
from tfbench.wording import clean, count, markdown_text, one_line, without_secrets

_GAP = "  "
_MAX_WARNINGS = 4
_WARNING_CHARACTERS = 150
_LEAST_ROOM = 24  # characters of a last column whose texts take several lines
_CLASSES = {" +": "faster", " -": "slower", " faster": "faster", " slower": "slower"}
_BY_UNIT: dict[str, Callable[[float], str]] = {
    "s": format_time,
    "bytes": format_bytes,
    "FLOP/s": functools.partial(format_si, unit="FLOP/s"),
    "samples/s": format_speed,
    "J": functools.partial(format_si, unit="J"),
}
MARKERS = ("! ", "i ", "- ")  # what a sentence may begin with: a warning, a note, one of several


Row = Mapping[str, Any]  # plain values by the keys of their columns


@dataclass(frozen=True, slots=True)
class Column:
    """A column; one with a rank may be hidden to save room, that of the highest rank first."""

    key: str
    title: str
    show: Callable[[Any], str] = str
    align: Literal["left", "right"] = "right"
    rank: int = 0
    width: int = 0  # at least, of a table whose rows come one by one
    meaning: str = ""  # stands below the table
    hidden_as: str = ""  # what it is called where it is hidden, if not by its title

    def cell(self, row: Row) -> str:
        """Returns the text of a row, "" for None."""
        value = row.get(self.key)
        return "" if value is None else self.show(value)


text_column = functools.partial(Column, align="left")


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of plain values. Without titles of columns it is a list of labelled facts."""

    title: str
    columns: tuple[Column, ...]
    rows: Sequence[Row]
    notes: tuple[str, ...] = ()

    def text(self, width: int) -> list[str]:
        """Returns lines, none longer than `width`.

        Columns are hidden, then texts wrapped, then cells stacked.
        """
        columns = []
        for column in self.columns:
            if not column.rank or any(column.cell(row) for row in self.rows):
                columns.append(column)
        shown = self._choose_columns(columns, width)
        lines = self._lines(shown, width)
        notes = self._notes(shown)
        hidden = [column.hidden_as or column.title for column in columns if column not in shown]
        if hidden and lines:
            notes.append(f"Hidden: {', '.join(hidden)} (use a wider terminal or --format json)")
        if not lines:
            lines = self._stacked(width)
        for note in notes:
            lines += wrap(note, min(width, TEXT_WIDTH))
        return lines

    def _choose_columns(self, columns: Sequence[Column], width: int) -> list[Column]:
        """Returns the columns that fit, without those of the highest ranks where there are more."""
        shown = list(columns)
        hidden = []
        while _line_width(self._grid(shown)) > width:
            least = max(shown, key=lambda column: column.rank)
            if not least.rank:
                break
            shown.remove(least)
            hidden.append(least)
        for column in reversed(hidden):  # a wide one that was hidden later makes room
            wider = [kept for kept in columns if kept in shown or kept is column]
            if _line_width(self._grid(wider)) <= width:
                shown = wider
        return shown

    def markdown(self) -> list[str]:
        """Returns lines of Markdown."""
        lines = []
        for row in _cells(self.columns, self.rows):
            lines.append(f"| {' | '.join(map(markdown_text, row))} |")
        lines.insert(1, "|" + " --- |" * len(self.columns))
        for note in self._notes(self.columns):
            lines += ["", markdown_text(note)]
        return lines

    def csv(self) -> str:
        """Returns the raw values, not the texts, with the keys as names."""
        file = io.StringIO()
        writer = csv.writer(file, lineterminator="\n")
        keys = [column.key for column in self.columns]
        writer.writerow(keys)
        for row in self.rows:
            writer.writerow([_plain(row.get(key)) for key in keys])
        return file.getvalue()

    def html(self) -> str:
        """Returns a table that scrolls in a box of its own."""
        header, *rows = _cells(self.columns, self.rows)
        body = ""
        if not any(header):
            for label, *texts in rows:
                body += f"<dt>{escaped(label)}</dt><dd>{escaped(', '.join(texts))}</dd>\n"
            return f"<dl>\n{body}</dl>\n"
        head = ""
        for column in self.columns:
            side = ' class="text"' if column.align == "left" else ""
            head += f"<th{side}>{escaped(column.title)}</th>"
        for row in rows:
            cells = "".join(map(_html_cell, self.columns, row))
            body += f"<tr>{cells}</tr>\n"
        label = escaped(self.title or "table")
        page = (
            f'<div class="scroll" role="region" tabindex="0" aria-label="{label}"><table>\n'
            f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody></table></div>\n"
        )
        for note in self._notes(self.columns):
            page += f'<p class="note">{escaped(note)}</p>\n'
        return page

    def _notes(self, columns: Sequence[Column]) -> list[str]:
        """Returns what the columns mean, in one line, and the notes."""
        meanings = [f"{column.title}: {column.meaning}" for column in columns if column.meaning]
        legend = ["; ".join(meanings)] if meanings else []
        return [*legend, *self.notes]

    def _grid(self, columns: Sequence[Column]) -> list[list[str]]:
        """Returns the cells as they are padded; facts are indented, and have no header."""
        cells = _cells(columns, self.rows)
        padded: list[list[str]] = [[] for _ in cells]
        for place, column in enumerate(columns):
            texts = [row[place] for row in cells]
            width = max(column.width, *map(len, texts))
            for row, text in zip(padded, texts, strict=True):
                row.append(text.ljust(width) if column.align == "left" else text.rjust(width))
        if any(column.title for column in columns):
            return padded
        return [["", *row] for row in padded[1:]]

    def _lines(self, columns: Sequence[Column], width: int) -> list[str]:
        """Returns the rows with the last texts wrapped; none where there is no room for that."""
        grid = self._grid(columns)
        if _line_width(grid) <= width:
            return [_GAP.join(row).rstrip() for row in grid]
        firsts = [_GAP.join([*row[:-1], ""]) for row in grid]
        if columns[-1].align != "left" or width - len(firsts[0]) < _LEAST_ROOM:
            return []
        lines = []
        for first, row in zip(firsts, grid, strict=True):
            lines += wrap(row[-1].rstrip(), width, first=first)
        return lines

    def _stacked(self, width: int) -> list[str]:
        """Returns the cells of each row below each other."""
        lines = []
        for row in self.rows:
            indent = ""
            for column in self.columns:
                text = column.cell(row)
                if text:
                    cell = f"{column.title}: {text}".removeprefix(": ")
                    lines += wrap(cell, width, first=indent)
                    indent = _GAP
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


Facts = Iterable[tuple[str, str]]  # labels with their texts


def facts(pairs: Facts) -> Table:
    """Returns labelled texts as a table; those without a text are left out."""
    columns = (text_column("label", "", width=10), text_column("text", ""))
    rows = []
    for label, words in pairs:
        if words:
            rows.append({"label": label, "text": words})
    return Table("", columns, rows)


def facts_section(title: str, pairs: Facts) -> Section:
    """Returns labelled texts as a section."""
    return Section(title, tables=(facts(pairs),))


def warnings_section(texts: Sequence[str], title: str = "Warnings") -> Section:
    """Returns warnings in full."""
    return Section(title, tuple(f"- {text}" for text in texts))


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
    if notes:
        yield Section("", tuple(f"i {_first_sentence(note)}" for note in notes))
    shown = warnings if len(warnings) <= most else warnings[: most - 1]
    sentences = [f"! {_first_sentence(warning)}" for warning in shown]
    num_left_out = len(warnings) - len(shown)
    if num_left_out:
        sentences.append(f"! {count(num_left_out, 'more kind')} of warning")
    if sentences:
        yield Section("", tuple(sentences), code=details)


def _first_sentence(text: str) -> str:
    first, stop, _ = text.partition(". ")
    first += stop.rstrip()
    word = first.partition(" ")[0]
    if word.isalpha():  # not a file or a key
        first = first[0].upper() + first[1:]
    return textwrap.shorten(first, _WARNING_CHARACTERS, placeholder=" ...")


def metric_title(name: str) -> str:
    """Returns a metric as people call it: "samples/s", "step time median", "peak memory"."""
    if name == "samples_per_second":
        return "samples/s"
    return name.removesuffix("_seconds").removesuffix("_bytes").replace("_", " ")


def format_metric(name: str, value: float | None) -> str:
    """Returns the value of a metric with its unit, "-" for None."""
    if value is None:
        return "-"
    metric = METRICS.get(name) or PROFILE_METRICS.get(name) or CURVE_METRICS.get(name)
    show = _BY_UNIT.get(metric.unit, format_number) if metric else format_number
    return show(value)


def text(sections: Iterable[Section], width: int) -> list[str]:
    """Returns sections as lines, an empty one before each but the first."""
    lines: list[str] = []
    width_of_text = min(width, TEXT_WIDTH)
    for section in sections:
        block = wrap(section.title, width_of_text) if section.title else []
        for sentence in section.sentences:
            marker = sentence[:2] if sentence.startswith(MARKERS) else ""
            block += wrap(sentence.removeprefix(marker), width_of_text, first=marker)
        for table in section.tables:
            if table.rows and section.sentences:
                block.append("")
            block += table.text(width)
        block += section.code.splitlines()
        if lines and block:
            lines.append("")
        lines += block
    return lines


def markdown(sections: Iterable[Section]) -> list[str]:
    """Returns sections as lines of Markdown."""
    lines: list[str] = []
    for section in sections:
        if section.title:
            lines += ["", f"## {markdown_text(section.title)}"]
        for sentence in section.sentences:
            if not sentence.startswith("- "):
                sentence = _unmarked(sentence)
            lines += ["", markdown_text(sentence)]
        for table in section.tables:
            lines += ["", *table.markdown()]
        if section.code:
            lines += ["", "```", *section.code.splitlines(), "```"]
    return lines[1:]


def html(sections: Iterable[Section]) -> str:
    """Returns sections as HTML."""
    return "".join(map(_section_html, sections))


def _section_html(section: Section) -> str:
    title = escaped(section.title)
    kind = ' class="verdict"' if title == "Verdict" else ""
    page = f"<section{kind}>\n"
    if section.is_folded:
        page += f"<details>\n<summary>{title}</summary>\n"
    elif title:
        page += f"<h2>{title}</h2>\n"
    if section.sentences:
        page += "<ul>\n"
        for sentence in section.sentences:
            page += f"<li>{escaped(_unmarked(sentence))}</li>\n"
        page += "</ul>\n"
    for plot in section.plots:
        page += _picture(plot)
    for table in section.tables:
        if table.rows:
            page += table.html()
    if section.code:
        page += f"<pre><code>{escaped(section.code)}</code></pre>\n"
    if section.is_folded:
        page += "</details>\n"
    return f"{page}</section>\n"


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


def _cells(columns: Sequence[Column], rows: Iterable[Row]) -> list[list[str]]:
    cells = [[column.title for column in columns]]
    for row in rows:
        cells.append([column.cell(row) for column in columns])
    return cells


def _line_width(grid: Iterable[Sequence[str]]) -> int:
    return max((len(_GAP.join(row).rstrip()) for row in grid), default=0)


def _plain(value: Any) -> Any:
    if isinstance(value, bool | list | tuple):
        return one_line(format_value(value))
    return one_line(value) if isinstance(value, str) else value


def _html_cell(column: Column, words: str) -> str:
    if column.align == "left":
        return f'<td class="long">{escaped(words)}</td>'
    kind = ""
    for ending, name in _CLASSES.items():
        if words.endswith(ending):
            kind = name
    # On a phone, a ratio breaks before its interval, and nowhere else.
    content = escaped(words).replace(", ", ",&nbsp;").replace("] ", "]&nbsp;")
    return f'<td class="{kind}">{content}</td>'
