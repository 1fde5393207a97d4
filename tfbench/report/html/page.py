"""An HTML page from its template: what is put into one is masked, cleaned and escaped here, and nowhere else."""

import dataclasses
from collections.abc import Collection, Sequence
from importlib.resources import files
from typing import Any

import jinja2
from markupsafe import Markup

from tfbench.wording import clean, without_secrets

GENERATOR = '<meta name="generator" content="tfbench '  # how a report is told from any other file
_CLASSES = {" +": "faster", " -": "slower"}  # the last two characters of a cell to its class


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Table:
    """A table that scrolls within its own box; one without a row is left out.

    `label` says what it holds to those who hear the page. Numbers stand to the right, `text_columns` to the left, and
    the texts of `long_columns` may take several lines. On a phone, a row of a table that `is_stacked` is a list of its
    cells with their names.
    """

    label: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    text_columns: Collection[int] = ()
    long_columns: Collection[int] = ()
    is_stacked: bool = False

    def class_of(self, place: int, words: str) -> str:
        """Returns the class of a cell, "" for none."""
        if place in self.long_columns:
            return "long"
        return "text" if place in self.text_columns else _CLASSES.get(words[-2:], "")


def render(template: str, **values: Any) -> str:
    """Returns a page.

    Args:
        template: Name of a file in this folder.
        values: What it asks for; one that is missing is an error.
    """
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("tfbench.report.html", ""),
        autoescape=True,
        finalize=_shown,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    # Ours, and no text of anybody else.
    style = files("tfbench.report.html").joinpath("style.css").read_text(encoding="utf-8")
    return environment.get_template(template).render(style=Markup(style), **values) + "\n"  # noqa: S704


def _shown(value: Any) -> Any:
    return clean(without_secrets(value)) if isinstance(value, str) and not isinstance(value, Markup) else value
