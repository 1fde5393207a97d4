"""The `tfbench` commands that README.md and the pages in docs/ show, and how they are run as tests.

Every `tfbench` command in the sh and console blocks of a page is run, in order, in one folder that
holds a copy of `recipes/`. Left out are pip and tox, and blocks under a line `<!-- not run: why
-->`: commands that need real data or a GPU, or that never end.
"""

import functools
import re
import shutil
from collections.abc import Callable
from pathlib import Path

from runs import run_in_bash

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
FIRST_PAGES = ("README.md", "docs/tutorial.md")  # that a newcomer reads; they run a sweep

BLOCK = re.compile(
    r"(?:^<!--[ ]*not[ ]run(?P<mark>[^>]*)-->[ ]*\n+)?"
    r"^```(?P<language>sh|console|shell|bash)[ ]*\n(?P<body>.*?)^```[ ]*$",
    re.MULTILINE | re.DOTALL,
)


def extract_commands(text: str, *, with_others: bool = False) -> list[str]:
    """Finds the `tfbench` commands of a Markdown page that are run; `with_others`: all of them.

    In a console block a command follows "$ ", other lines are output; in a sh block every line is a
    command. Of `pip install . && tfbench run x` the second part is taken.
    """
    commands = list[str]()
    for block in BLOCK.finditer(text):
        if block["mark"] is not None and not with_others:
            continue
        lines = block["body"].replace("\\\n", " ").splitlines()
        if block["language"] == "console":
            lines = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
        parts = [part.strip() for line in lines for part in line.split("&&")]
        commands += [re.sub(r"\s+", " ", part) for part in parts if re.match(r"tfbench\b", part)]
    return commands


def list_pages_with_commands() -> list[str]:
    """Returns the pages that have commands to be run, as paths within the project."""
    return [
        str(page.relative_to(ROOT))
        for page in PAGES
        if extract_commands(page.read_text(encoding="utf-8"))
    ]


def run_page(page: str, shell: Callable[[str], None]) -> None:
    """Runs the commands of a page."""
    for command in extract_commands((ROOT / page).read_text(encoding="utf-8")):
        shell(command)


def open_shell(folder: Path) -> Callable[[str], None]:
    """Returns what runs commands as a user of one folder does who reads page after page.

    The same command runs once.
    """
    shutil.copytree(ROOT / "recipes", folder / "recipes")
    return functools.cache(functools.partial(run_as_user, folder=folder))


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
