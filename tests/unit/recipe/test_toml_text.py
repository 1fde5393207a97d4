"""What is written as TOML reads back as the same."""

import tomllib

import pytest

from tfbench.errors import RecipeError
from tfbench.recipe.toml_text import format_toml, parse_toml, parse_value

# Of these, Python would take minutes for the last.
DEEP_KEY = "a." * 400 + "a"
DEEP = (
    f"{DEEP_KEY} = 1",
    f"x = 1\n[{DEEP_KEY}]",
    f'"\\"".{DEEP_KEY} = 1',
    f"x = {{b = 2, {DEEP_KEY} = 1}}",
    f"{' . '.join(['b'] * 40)} = 1",
    "\n".join(f"{DEEP_KEY}.b{number} = 1" for number in range(5_000)),
)


def test_writes_tables_then_tables_inside_them() -> None:
    tables = {
        "training": {"optimizer": {"name": "adam", "epsilon": 1e-8}, "epochs": 3, "steps": None},
        "a b": {"x": []},
    }
    assert format_toml(tables) == (
        "[training]\nepochs = 3\n# steps: not set\n\n"
        '[training.optimizer]\nname = "adam"\nepsilon = 1e-08\n\n'
        '["a b"]\nx = []\n'
    )


@pytest.mark.parametrize(
    "value",
    [
        ["", 'a "b" \\ c', "line\nline\ttab", "ü 数 🎉", "\x00\x1b\x7f"],
        [0, -5, 10**15, 1e-8, 1e300, 2.0, True, False, [[1], [2, 3]]],
        {},
        [{}, {"x": {}}],
        [{"a": 1, "figures": {"x y": 1.5}}],
        [{"more": {"x": [[{"y": 1}]]}}],
    ],
)
def test_values_read_back(value: object) -> None:
    assert tomllib.loads(format_toml({"a": {"x": value}})) == {"a": {"x": value}}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("x = ", "is not valid TOML: "),
        ("x = " + "1" * 5000, "holds an integer of more than 64 bits"),
        ("x = " + "[" * 2000 + "]" * 2000, "holds arrays or tables of too many levels"),
    ],
)
def test_what_python_cannot_read_is_rejected(text: str, problem: str) -> None:
    with pytest.raises(RecipeError, match=f"^{problem}"):
        parse_toml(text)


@pytest.mark.parametrize("text", DEEP, ids=range(len(DEEP)))
def test_a_key_of_too_many_levels_is_rejected(text: str) -> None:
    with pytest.raises(RecipeError, match="holds a key of more than 32 levels"):
        parse_toml(text)


def test_a_key_of_as_many_levels_as_are_allowed_and_a_text_with_dots_are_read() -> None:
    assert parse_toml(f"{'a.' * 31}a = 1")
    for value in (
        f"'{DEEP_KEY}'",
        f'"see [{DEEP_KEY}]"',
        f'"""\n{DEEP_KEY}"""',
        f"'''{DEEP_KEY}'''",
    ):
        assert DEEP_KEY in parse_toml(f"x = [{value}, 1.5]  # [{DEEP_KEY}]\ny = {value}")["y"]


def test_a_value_is_one_value() -> None:
    assert parse_value("[1, 2]") == [1, 2]
    with pytest.raises(RecipeError, match="there is more than one value"):
        parse_value("1\nother = 2")
