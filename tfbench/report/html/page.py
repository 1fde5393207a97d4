"""The elements of an HTML page that stands alone: every text is escaped here, and nowhere else."""

import base64
import html
from collections.abc import Collection, Iterable, Sequence
from typing import NewType

from tfbench.wording import clean, without_secrets

Html = NewType("Html", str)  # text that is HTML already

GENERATOR = '<meta name="generator" content="tfbench '  # how a report is told from any other file

# Colours are never all that tells things apart; tables and wide plots scroll within their own box on a phone.
_STYLE = """
:root { color-scheme: light; }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.5rem 1rem 4rem; max-width: 68rem; background: #fff; color: #1a1a1a;
  font: 1rem/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif;
  overflow-wrap: break-word; }
h1 { font-size: 1.9rem; line-height: 1.2; margin: 0 0 .3rem; }
h2 { font-size: 1.25rem; margin: 2.4rem 0 .7rem; padding-top: .6rem; border-top: 1px solid #ccc; }
p, ul, dl { margin: .5rem 0; }
ul { padding-left: 1.2rem; }
li { margin: .25rem 0; }
.lead { margin: 0; color: #444; }
.note { color: #444; font-size: .9rem; }
.verdict ul { list-style: none; border-left: 4px solid #2f6db3; padding: .1rem 0 .1rem .9rem; }
.verdict li { margin: .5rem 0; }
.scroll { overflow-x: auto; max-width: 100%; margin: .8rem 0; }
table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums; }
th, td { padding: .3rem .7rem; border-bottom: 1px solid #ddd; text-align: right; vertical-align: top;
  white-space: nowrap; }
thead th { border-bottom: 2px solid #888; vertical-align: bottom; white-space: normal; }
tbody tr:nth-child(even) { background: #f6f6f6; }
th.text, td.text { text-align: left; }
td.long { text-align: left; white-space: normal; min-width: 11rem; }
td.faster { color: #17508f; font-weight: 600; }
td.slower { color: #94440a; font-weight: 600; }
dl { display: grid; grid-template-columns: minmax(8rem, max-content) 1fr; gap: .25rem 1.2rem; }
dt { color: #444; }
dd { margin: 0; min-width: 0; }
figure { margin: 1rem 0; }
figure img { display: block; width: 100%; min-width: 34rem; max-width: 50rem; height: auto; }
pre { margin: .6rem 0; padding: .7rem .9rem; white-space: pre-wrap; background: #f6f6f6; border: 1px solid #ddd;
  font: .85rem/1.45 ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; }
summary { cursor: pointer; }
footer { margin-top: 3rem; padding-top: .6rem; border-top: 1px solid #ccc; color: #444; font-size: .9rem; }
.narrow { display: none; }
@media (max-width: 36rem) {
  .narrow { display: block; }
  body { padding-top: 1rem; }
  h1 { font-size: 1.5rem; }
  dl { display: block; }
  dt { margin-top: .5rem; font-size: .9rem; }
}
@media print {
  body { max-width: none; padding: 0; font-size: 10pt; }
  h2 { break-after: avoid; }
  figure, tr, li { break-inside: avoid; }
  .scroll { overflow: visible; }
  figure img { min-width: 0; }
  details::details-content { content-visibility: visible; height: auto; }
}
"""


def _escape(words: str) -> str:
    return html.escape(clean(without_secrets(words)))


def text(words: str, tag: str = "p", *, of_class: str = "") -> Html:
    """Returns words in an element."""
    return Html(f"<{tag}{_class(of_class)}>{_escape(words)}</{tag}>")


def section(title: str, *parts: Html, of_class: str = "") -> Html:
    """Returns a part of the page under a heading; "" if there is nothing in it."""
    body = "\n".join(part for part in parts if part)
    return Html(f"<section{_class(of_class)}>\n<h2>{_escape(title)}</h2>\n{body}\n</section>") if body else Html("")


def bullets(texts: Iterable[str]) -> Html:
    """Returns a list; "" without an entry."""
    items = "\n".join(text(words, "li") for words in texts)
    return Html(f"<ul>\n{items}\n</ul>") if items else Html("")


def pairs(values: Iterable[tuple[str, str]]) -> Html:
    """Returns labelled values; those that are empty are left out."""
    items = "\n".join(text(label, "dt") + text(value, "dd") for label, value in values if value)
    return Html(f"<dl>\n{items}\n</dl>") if items else Html("")


def table(
    label: str,
    header: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    text_columns: Collection[int] = (),
    long_columns: Collection[int] = (),
    classes: "dict[str, str] | None" = None,
) -> Html:
    """Returns a table that scrolls within its own box; "" without a row.

    Args:
        label: What it holds, for those who hear the page.
        header: Names of the columns.
        rows: Cells; numbers stand to the right.
        text_columns: Places of columns that stand to the left.
        long_columns: Places of columns whose texts may take several lines.
        classes: The last two characters of a cell to its class.
    """

    def cell(place: int, words: str, tag: str) -> str:
        name = (
            "long"
            if place in long_columns and tag == "td"
            else "text"
            if place in (*text_columns, *long_columns)
            else ""
        )
        return text(words, tag, of_class=name or (classes or {}).get(words[-2:], ""))

    lines = ["<tr>" + "".join(cell(*one, "td") for one in enumerate(row)) + "</tr>" for row in rows]
    if not lines:
        return Html("")
    names = "".join(cell(*one, "th") for one in enumerate(header))
    box = f'<div class="scroll" role="region" tabindex="0" aria-label="{_escape(label)}">'
    body = "\n".join(lines)
    return Html(f"{box}\n<table>\n<thead>\n<tr>{names}</tr>\n</thead>\n<tbody>\n{body}\n</tbody>\n</table>\n</div>")


def picture(png: bytes, alt: str) -> Html:
    """Returns a picture whose data stands in the page itself."""
    data, described = base64.b64encode(png).decode(), _escape(alt)
    return Html(
        f'<figure><div class="scroll" role="region" tabindex="0" aria-label="plot">'
        f'<img src="data:image/png;base64,{data}" alt="{described}"></div></figure>'
    )


def code(lines: str) -> Html:
    """Returns lines to be copied."""
    return Html(f"<pre><code>{_escape(lines)}</code></pre>")


def folded(summary: str, *parts: Html) -> Html:
    """Returns what is shown once it is asked for; "" if there is nothing."""
    body = "\n".join(part for part in parts if part)
    return Html(f"<details>\n{text(summary, 'summary')}\n{body}\n</details>") if body else Html("")


def page(title: str, version: str, *parts: Html) -> str:
    """Returns the whole page."""
    body = "\n".join(part for part in parts if part)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'{GENERATOR}{_escape(version)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{_escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n{body}\n</body>\n</html>\n"
    )


def _class(name: str) -> str:
    return f' class="{name}"' if name else ""
