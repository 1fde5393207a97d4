"""The reference in docs/reference/ is what docs/reference.py writes, and leaves nothing out."""

import re
from pathlib import Path

import click
import pytest

import reference
from tfbench import metrics
from tfbench.cli import cli
from tfbench.errors import ExitCode

ROOT = Path(__file__).parents[2]


PAGES = dict(reference.write_pages())


def part_of(page: str, heading: str) -> str:
    """Returns what stands below a heading of the second level."""
    (part,) = (
        part
        for part in PAGES[f"docs/reference/{page}.md"].split("\n## ")
        if part.startswith(f"{heading}\n")
    )
    return part


@pytest.mark.parametrize("path", PAGES)
def test_it_is_up_to_date(path: str) -> None:
    assert (ROOT / path).read_text(encoding="utf-8") == PAGES[path], (
        "run `python docs/reference.py`"
    )


def test_nothing_else_is_in_its_folder() -> None:
    found = {str(path.relative_to(ROOT)) for path in (ROOT / "docs" / "reference").iterdir()}
    assert found == {path for path in PAGES if path.startswith("docs/reference/")}


def test_it_has_every_option_of_every_command() -> None:
    context = click.Context(cli)
    for name in cli.list_commands(context):
        command = cli.get_command(context, name)
        options = (
            [option for option in command.params if isinstance(option, click.Option)]
            if command
            else []
        )
        text = part_of("commands", f"tfbench {name}")
        assert [
            o.opts
            for o in options
            if not any(f"{word} " in text or f"{word}`" in text for word in o.opts)
        ] == []
        rows = re.findall(r"\n\| (?:`|<code.*?>)-", text)
        shared = text.rpartition("#shared-options")[2].count("`-")
        assert len(rows) + shared == len(options)


def test_it_has_every_metric_and_every_exit_code() -> None:
    known = (metrics.METRICS, metrics.PROFILE_METRICS, metrics.CURVE_METRICS)
    assert PAGES["docs/reference/metrics.md"].count("\n| `") == sum(map(len, known))
    codes = PAGES["docs/reference/exit-codes.md"]
    assert [code for code in ExitCode if f"\n| {code.value} |" not in codes] == []
