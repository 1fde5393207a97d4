"""Whatever is given, a command does what it says, or says what is wrong.

Recipes and command lines by generation.
"""

import dataclasses
import io
import json
import os
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from generated import NASTY, inline_toml, texts, values
from journals import build_sized_result, write_journal
from tfbench.cli import cli, main
from tfbench.errors import RecipeError
from tfbench.recipe import files
from tfbench.recipe import tables as recipe_tables
from tfbench.recipe.toml_text import format_toml, parse_toml
from tfbench.runs import process
from tfbench.runs.requests import new_request
from tfbench.schema import read_json
from tfbench.store.journal import read_request, request_fields
from tfbench.store.store import Store
from tfbench.wording import LONGEST_LINE

SHIPPED = {
    path.stem: tomllib.loads(path.read_text())
    for path in sorted(files.shipped_folder().glob("*.toml"))
}


def paths_in(value: Any, steps: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yields where in a recipe's tables something is."""
    if steps:
        yield steps
    inner = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for step, element in inner:
        yield from paths_in(element, (*steps, step))


@st.composite
def recipe_texts(draw: Callable[..., Any]) -> str:
    """Shipped recipes with values replaced, removed and added, and at times a text that is none."""
    tables = json.loads(json.dumps(SHIPPED[draw(st.sampled_from(sorted(SHIPPED)))]))
    for _ in range(draw(st.integers(0, 3))):
        *steps, last = draw(st.sampled_from(list(paths_in(tables))))
        place = tables
        for step in steps:
            place = place[step]
        change = draw(st.sampled_from(["replace", "remove", "add"]))
        if change == "replace":
            place[last] = draw(values)
        elif change == "remove":
            del place[last]
        elif isinstance(place, dict):
            place[draw(texts)] = draw(values)
    text = "\n".join(f"{json.dumps(key)} = {inline_toml(value)}" for key, value in tables.items())
    if draw(st.integers(0, 9)) == 0:
        place = draw(st.integers(0, len(text)))
        text = text[:place] + draw(st.sampled_from(NASTY)) + text[place:]
    return text


@given(text=recipe_texts())
def test_a_recipe_is_rejected_in_words_or_reads_back_as_the_same(tmp_path: Path, text: str) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(text, encoding="utf-8", errors="surrogatepass")
    try:
        recipe = files.load_recipe(path)
    except RecipeError as error:
        assert str(error) and max(map(len, str(error).splitlines())) < LONGEST_LINE
        return
    written = format_toml(recipe_tables.to_tables(recipe), recipe_tables.list_meanings(recipe))
    assert recipe_tables.from_tables(parse_toml(written), name="mine", source="text") == recipe
    request = new_request(recipe, name=None, data_dir=None, allows_code=True)
    record = json.dumps(request_fields(request), allow_nan=False)
    assert read_request(read_json(record.encode())) == dataclasses.replace(request, overrides=[])


def parameters() -> dict[str, list[click.Parameter]]:
    context = click.Context(cli)
    return {name: cli.get_command(context, name).params for name in cli.list_commands(context)}


def is_argument(text: str) -> bool:
    """Says whether a process can be given a text: bytes that are no text it can, a NUL not."""
    try:
        return b"\0" not in os.fsencode(text)
    except UnicodeEncodeError:  # one half of a pair that stands for a character
        return False


@st.composite
def command_lines(draw: Callable[..., Any]) -> list[str]:
    """Commands with some of their options and arguments, and at times what they do not have."""
    words = texts.filter(is_argument)
    name, known = draw(st.sampled_from(sorted(parameters().items())))
    line = [name]
    for parameter in draw(st.lists(st.sampled_from(known), max_size=4) if known else st.just([])):
        plausible = ["mnist_mlp", "@last", "sized-0", "json", "2", "1,2", "cpu:0", "10s"]
        if isinstance(parameter.type, click.Choice):
            plausible = list(parameter.type.choices)
        value = draw(st.sampled_from(plausible) | words)
        if isinstance(parameter, click.Argument):
            line.append(value)
        elif parameter.is_flag:
            line.append(parameter.opts[0])
        else:
            line += draw(
                st.sampled_from([[parameter.opts[0], value], [f"{parameter.opts[-1]}={value}"]])
            )
    return line + draw(st.lists(words, max_size=1))


@pytest.fixture
def alone(in_tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Gives a store with a run, and lets no process be started."""

    def reject(*arguments: Any, **options: Any) -> None:
        raise FileNotFoundError(2, "No such file or directory", "python")

    monkeypatch.setattr(process.subprocess, "Popen", reject)  # of a module that is imported by then
    write_journal(Store(in_tmp_path / "mlruns"), build_sized_result(0))
    return in_tmp_path


@settings(max_examples=min(2000, settings().max_examples))
@example(line=["sweep", "mnist_mlp"])
@given(line=command_lines())
def test_a_command_line_ends_in_a_result_or_a_message(alone: Path, line: list[str]) -> None:
    with pytest.MonkeyPatch.context() as patched:
        stdout, stderr = (io.TextIOWrapper(io.BytesIO(), "utf-8") for _ in range(2))
        patched.setattr(sys, "argv", ["tfbench", *line])
        patched.setattr(sys, "stdout", stdout)
        patched.setattr(sys, "stderr", stderr)
        with pytest.raises(SystemExit) as ended:
            main()
        for stream in (stdout, stderr):
            stream.flush()
        said = stderr.buffer.getvalue().decode()
        shown = stdout.buffer.getvalue().decode()
    assert ended.value.code in (0, 1, 2)
    assert "Traceback" not in said
    assert ended.value.code == 0 or said or shown  # a sweep tells of its failed runs on stdout
    assert max(map(len, said.splitlines()), default=0) < 2 * LONGEST_LINE
