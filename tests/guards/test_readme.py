"""The commands of README.md work.

Every `tfbench` command in its sh and console blocks is run, in order, in one folder that holds a copy of `recipes/`.
Left out are pip and tox, and blocks under a line `<!-- not run: why -->`: commands that need real data or a GPU, or
that never end.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]

_BLOCK = re.compile(
    r"(?:^<!--[ ]*not[ ]run(?P<mark>[^>]*)-->[ ]*\n+)?"
    r"^```(?P<language>sh|console|shell|bash)[ ]*\n(?P<body>.*?)^```[ ]*$",
    re.MULTILINE | re.DOTALL,
)


class Commands(NamedTuple):
    """The `tfbench` commands of a page."""

    run: list[str]
    not_run: list[str]


def extract_commands(text: str) -> Commands:
    """Finds the commands of a Markdown page.

    In a console block a command follows "$ ", other lines are output; in a sh block every line is a command. Of
    `pip install . && tfbench run x` the second part is taken.
    """
    commands = Commands([], [])
    for block in _BLOCK.finditer(text):
        lines = block["body"].replace("\\\n", " ").splitlines()
        if block["language"] == "console":
            lines = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
        parts = [part.strip() for line in lines for part in line.split("&&")]
        found = commands.run if block["mark"] is None else commands.not_run
        found += [re.sub(r"\s+", " ", part) for part in parts if re.match(r"tfbench\b", part)]
    return commands


def test_finds_commands_and_nothing_else() -> None:
    page = """
```sh
pip install . && tfbench run recipes/a.toml --strategy mirrored   # README command 1
tox
tfbench run a \\
    --epochs 3
```
<!-- not run: needs real data -->
```sh
tfbench run a --data-dir DIR
```

<!-- not run -->

```console
$ tfbench ui
tfbench is not a command here
```
```console
$ tfbench list
tfbench output
```
```toml
tfbench = "no"
```
    tfbench indented
"""
    assert extract_commands(page) == Commands(
        run=[
            "tfbench run recipes/a.toml --strategy mirrored # README command 1",
            "tfbench run a --epochs 3",
            "tfbench list",
        ],
        not_run=["tfbench run a --data-dir DIR", "tfbench ui"],
    )


@pytest.mark.slow
def test_commands_of_the_readme_work(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "recipes", tmp_path / "recipes")
    commands = extract_commands((ROOT / "README.md").read_text(encoding="utf-8")).run
    assert commands, "README.md shows no tfbench command that could be run here"
    for command in commands:
        run_as_user(command, tmp_path)


def run_as_user(command: str, folder: Path) -> None:
    """Runs a command line in bash, as it stands, but for one epoch or round where it says nothing of their number."""
    shortened = re.sub(r"^tfbench run\b(?!.*--(epochs|steps|seconds)\b)", "tfbench run --epochs 1", command)
    shortened = re.sub(r"^tfbench sweep\b(?!.*--repeats\b)", "tfbench sweep --repeats 1", shortened)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", shortened],
        cwd=folder,
        env=os.environ | {"PATH": path},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
