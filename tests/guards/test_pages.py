"""The commands of README.md and of the pages in docs/ are valid, and what they link to is there."""

import ast
import pkgutil
import re
import shlex
from pathlib import Path

import click
import pytest

import tfbench.tags
from pages import BLOCK, FIRST_PAGES, PAGES, ROOT, extract_commands, list_pages_with_commands
from tfbench.cli import cli

MAX_README_BYTES = 10_240


def test_the_readme_and_the_tutorial_show_commands_that_can_be_run() -> None:
    assert set(FIRST_PAGES) <= set(list_pages_with_commands())


def parse(command: str) -> None:
    """Reads a command line as Click does before it calls a command.

    Raises:
        click.ClickException: There is no such command or option, or a value is not of its type.
    """
    line, *_ = re.split(r"\s(?:[|>&;]|2>)", command)
    words = shlex.split(re.sub(r'"?\$\w+"?', "0", line), comments=True)
    root = click.Context(cli, info_name="tfbench")
    _, subcommand, arguments = cli.resolve_command(root, words[1:])
    assert subcommand
    subcommand.make_context(subcommand.name, arguments, parent=root)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_all_commands_of_a_page_are_valid(page: Path) -> None:
    for command in extract_commands(page.read_text(encoding="utf-8"), with_others=True):
        try:
            parse(command)
        except click.exceptions.Exit as end:  # of --help and the like
            assert end.exit_code == 0, command
        except click.ClickException as error:
            pytest.fail(f"{command}: {error.format_message()}")


@pytest.mark.parametrize(
    "command",
    [
        "tfbench rum mnist_mlp",
        "tfbench run mnist_mlp --no-such-option",
        "tfbench sweep mnist_mlp --repeats many",
        "tfbench crossover mnist_mlp",
    ],
)
def test_a_command_that_is_not_valid_is_found(command: str) -> None:
    with pytest.raises(click.ClickException):
        parse(command)


def test_many_commands_are_read() -> None:
    texts = [page.read_text(encoding="utf-8") for page in PAGES]
    assert sum(len(extract_commands(text, with_others=True)) for text in texts) > 100


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_blocks_end_and_say_why_they_are_not_run_and_what_is_linked_to_is_there(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    marks = [block["mark"] for block in BLOCK.finditer(text)]
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


@pytest.mark.parametrize(
    ("page", "example"), [("python", "first_verdict"), ("mlflow", "speeds_from_mlflow")]
)
def test_the_examples_in_python_are_those_that_are_tested(page: str, example: str) -> None:
    text = (ROOT / "docs" / "how-to" / f"{page}.md").read_text(encoding="utf-8")
    code = (ROOT / "examples" / f"{example}.py").read_text(encoding="utf-8")
    assert f"```python\n{code}```" in text


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_names_in_python_and_tags_in_a_page_exist(page: Path) -> None:
    tags = {value for value in vars(tfbench.tags).values() if isinstance(value, str)}
    named = set(re.findall(r"`(tfbench(?:\.\w+)+)[`(]", page.read_text(encoding="utf-8")))
    others = named - tags - {f"tfbench.{name}" for name in tfbench.__all__}
    assert [name for name in sorted(others) if not exists(name)] == []


def exists(name: str) -> bool:
    """Says whether there is a module of this name, or a thing in one."""
    try:
        pkgutil.resolve_name(name)
    except (AttributeError, ImportError):
        return False
    return True


def test_the_page_on_python_has_all_public_names() -> None:
    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    described = re.findall(r"^::: tfbench\S*\.(\w+)$", page, re.MULTILINE)
    assert sorted(described) == sorted(tfbench.__all__)


def list_texts() -> list[str]:
    """Returns the texts in the product's source but for docstrings; "{}" is what is filled in."""
    texts = []
    for path in (ROOT / "tfbench").rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            if id(node) in docstrings:
                continue
            parts = node.values if isinstance(node, ast.JoinedStr) else [node]
            if all(isinstance(part, ast.Constant | ast.FormattedValue) for part in parts):
                words = [
                    getattr(part, "value", "") if isinstance(part, ast.Constant) else "{}"
                    for part in parts
                ]
                texts.append("".join(map(str, words)))
    return texts


def test_messages_that_the_page_on_troubles_explains_are_printed() -> None:
    page = (ROOT / "docs" / "how-to" / "troubleshooting.md").read_text(encoding="utf-8")
    table = page[page.index("| warning |") : page.index("## It is too slow")]
    table += page[page.index("| the message says |") :]
    cells = re.findall(r"^\| ([^|]*`.*?) \|", table, re.MULTILINE)
    messages = [message for cell in cells for message in re.findall("`(.+?)`", cell)]
    warnings = (ROOT / "tests" / "golden" / "warnings.txt").read_text(encoding="utf-8")
    texts = [warnings, *list_texts()]
    unknown = []
    for message in messages:
        pattern = re.sub(r"\d+|\\\.\\\.\\\.", ".*", re.escape(message))
        if not any(re.search(pattern, text) for text in texts):
            unknown.append(message)
    assert len(messages) > 20
    assert unknown == []
