"""The commands of README.md and of the pages in docs/ work, and what they link to is there.

Every `tfbench` command in the sh and console blocks of a page is run, in order, in one folder that
holds a copy of `recipes/`. Left out are pip and tox, and blocks under a line `<!-- not run: why
-->`: commands that need real data or a GPU, or that never end.
"""

import functools
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import click
import pytest

from runs import run_in_bash
from tfbench.cli import cli

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
MAX_README_BYTES = 10_240

_BLOCK = re.compile(
    r"(?:^<!--[ ]*not[ ]run(?P<mark>[^>]*)-->[ ]*\n+)?"
    r"^```(?P<language>sh|console|shell|bash)[ ]*\n(?P<body>.*?)^```[ ]*$",
    re.MULTILINE | re.DOTALL,
)


def extract_commands(text: str) -> list[str]:
    """Finds the `tfbench` commands of a Markdown page that are run.

    In a console block a command follows "$ ", other lines are output; in a sh block every line is a
    command. Of `pip install . && tfbench run x` the second part is taken.
    """
    commands = list[str]()
    for block in _BLOCK.finditer(text):
        if block["mark"] is not None:
            continue
        lines = block["body"].replace("\\\n", " ").splitlines()
        if block["language"] == "console":
            lines = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
        parts = [part.strip() for line in lines for part in line.split("&&")]
        commands += [re.sub(r"\s+", " ", part) for part in parts if re.match(r"tfbench\b", part)]
    return commands


def list_pages_with_commands() -> list[str]:
    return [
        str(page.relative_to(ROOT))
        for page in PAGES
        if extract_commands(page.read_text(encoding="utf-8"))
    ]


def test_the_readme_and_the_tutorial_show_commands_that_can_be_run() -> None:
    assert {"README.md", "docs/tutorial.md"} <= set(list_pages_with_commands())


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], None]:
    """Runs a command as a user of one folder who reads page after page does, the same one once."""
    folder = tmp_path_factory.mktemp("pages")
    shutil.copytree(ROOT / "recipes", folder / "recipes")
    return functools.cache(functools.partial(run_as_user, folder=folder))


@pytest.mark.slow
@pytest.mark.integration
@pytest.mark.parametrize("page", list_pages_with_commands())
def test_commands_of_a_page_work(page: str, shell: Callable[[str], None]) -> None:
    for command in extract_commands((ROOT / page).read_text(encoding="utf-8")):
        shell(command)


@pytest.mark.parametrize(
    "page", [*PAGES, ROOT / "CONTRIBUTING.md"], ids=lambda page: str(page.relative_to(ROOT))
)
def test_blocks_end_and_say_why_they_are_not_run_and_what_is_linked_to_is_there(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    marks = [block["mark"] for block in _BLOCK.finditer(text)]
    assert all(mark.strip(": ") for mark in marks if mark is not None)
    fences = re.findall(r"^```(\w*)", text, re.MULTILINE)
    assert all(
        fences[::2]
    )  # one that begins names its language; one that did not end would put it elsewhere
    assert not any(fences[1::2]) and len(fences) % 2 == 0
    prose = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    targets = [
        target.partition("#")[0]
        for target in re.findall(r"\]\(([^)\s]+)\)", prose)
        if "://" not in target
    ]
    assert [target for target in targets if target and not (page.parent / target).exists()] == []


def test_the_readme_is_short() -> None:
    assert (ROOT / "README.md").stat().st_size <= MAX_README_BYTES


def test_the_readme_has_every_command_in_its_table() -> None:
    table = re.findall(
        r"^\| `tfbench (\w+)", (ROOT / "README.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert sorted(table) == cli.list_commands(click.Context(cli))


def run_as_user(command: str, folder: Path) -> None:
    """Runs a command line in bash, with fewer steps, rounds, sizes or checks.

    Those that the command names stay as they are.

    Sweeps alone are tracked in MLflow: pages on it come after one.
    """
    shortened = re.sub(
        r"^tfbench run\b(?!.*--(epochs|steps|seconds)\b)", "tfbench run --steps 50", command
    )
    shortened = re.sub(
        r"^tfbench run\b", "tfbench run --no-mlflow --set measurement.checks=false", shortened
    )
    shortened = re.sub(r"^tfbench sweep\b(?!.*--repeats\b)", "tfbench sweep --repeats 1", shortened)
    shortened = re.sub(
        r"^tfbench sweep\b(?!.*--vary\b)",
        "tfbench sweep --vary training.global_batch_size=32",
        shortened,
    )
    run_in_bash(shortened, folder)


def test_the_example_in_python_is_the_one_that_is_tested() -> None:
    example = (ROOT / "examples" / "first_verdict.py").read_text(encoding="utf-8")
    assert f"```python\n{example}```" in (ROOT / "docs" / "how-to" / "python.md").read_text(
        encoding="utf-8"
    )
