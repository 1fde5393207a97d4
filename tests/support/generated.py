"""Input made by hypothesis: how much of it, and what it is made of."""

import datetime
import json
import math
import string
from collections.abc import Callable
from typing import Any, TypeVar

from hypothesis import Phase, settings
from hypothesis import strategies as st

Test = TypeVar("Test", bound=Callable[..., Any])

NASTY = (
    *(
        "",
        " ",
        "-",
        "--",
        "..",
        "~",
        "~nobody",
        "a/b",
        "a" * 300,
        "a" * 5000,
        "/".join("a" * 3000),
        "[" * 2000,
    ),
    *(
        "{" * 2000,
        "1" * 5000,
        "0x" + "f" * 5000,
        "nan",
        "-inf",
        "1e400",
        "-1",
        "0",
        "99999999999999999999",
        "0.5",
    ),
    *(
        "1_000",
        "$x^$",
        "%s %(a)d {0} {x}",
        "[bold]x[/]",
        "\x1b[31m",
        "a\nb",
        "\x00",
        "\x7f",
        "é",
        "🎉",
        "\ud800",
    ),
    *(
        "\udcff",
        "=",
        "=",
        "'''",
        '"',
        "#",
        "a:b",
        "a.b",
        "@last",
        "1979-05-27",
        "07:32:00",
        "true",
        "null",
    ),
    *("os:system", "mnist_mlp", "cpu:0,cpu:0"),
)


def examples(few: int, many: int) -> Callable[[Test], Test]:
    """Sets a test's number of examples by default and in the profile "many".

    It replaces the number that the profile has.

    It is for tests whose every example is several commands: one that fails is not made smaller,
    which would take hours.
    """
    is_few = settings().derandomize
    return settings(max_examples=few if is_few else many, phases=[Phase.explicit, Phase.generate])


texts = (
    st.text(max_size=8)
    | st.sampled_from(NASTY)
    | st.text(string.ascii_letters + "_.=[],", max_size=12)
)
dates = st.dates() | st.times() | st.datetimes() | st.datetimes(timezones=st.just(datetime.UTC))
scalars = st.integers() | st.integers(-3, 3) | st.floats() | st.booleans() | texts | dates
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)

# Values as JSON spells them. As texts, since Python itself refuses to write some of them.
json_literals = st.one_of(
    texts.map(json.dumps),
    st.integers().map(str),
    st.floats().map(json.dumps),
    st.sampled_from(
        (
            "null",
            "true",
            "false",
            "[]",
            "{}",
            "0",
            "-1",
            "0.5",
            "1e999",
            "NaN",
            "[1, 2]",
            '{"a": 1}',
        )
    ),
    st.sampled_from(
        ("9" * 20, "1" + 400 * "0", "-1" + 400 * "0", "9" * 5000)
    ),  # to beyond what `int` reads
    st.sampled_from((50, 2000, 100_000)).map(
        lambda depth: "[" * depth + "]" * depth
    ),  # beyond what `json` does
)


def inline_toml(value: Any) -> str:
    """Returns a value as TOML, independently of tfbench's own writer.

    It also writes kinds of values that no recipe takes.
    """
    if isinstance(value, dict):
        return (
            "{"
            + ", ".join(
                f"{json.dumps(key)} = {inline_toml(element)}" for key, element in value.items()
            )
            + "}"
        )
    if isinstance(value, list):
        return "[" + ", ".join(map(inline_toml, value)) + "]"
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    return json.dumps(value)
