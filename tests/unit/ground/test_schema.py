"""Records check the type and the range of their values, and say what is wrong with them."""

import dataclasses
from typing import Annotated, Literal

import pydantic
import pytest

from kinds import Fields
from outcomes import error_of
from tfbench.errors import RecipeError
from tfbench.schema import (
    Count,
    Flag,
    Fraction,
    NonNegativeNumber,
    Number,
    Rate,
    Text,
    build,
    find_problems,
    read_as,
    read_json,
    schema,
    to_plain,
)


@schema
class Inner:
    depth: Count = 1


@schema
class Square:
    name: Literal["square"] = "square"
    side: Rate = 1.0


@schema
class Circle:
    name: Literal["circle"] = "circle"
    radius: Rate = 1.0


@schema
class Outer:
    count: Count = 1
    number: Number = 0.0
    size: NonNegativeNumber = 0.0
    share: Fraction = 0.0
    flag: Flag = False
    text: Text = "a"
    mode: Literal["fast", "slow"] = "fast"
    widths: tuple[Count, ...] = (1, 2)
    band: tuple[Number, Number] = (0.0, 1.0)
    inner: Inner = dataclasses.field(default_factory=Inner)
    shape: Annotated[Square | Circle, pydantic.Field(discriminator="name")] = dataclasses.field(
        default_factory=Square
    )

    def __post_init__(self) -> None:
        if self.flag and self.mode == "slow":
            raise ValueError("flag does not go with slow.")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"count": 0}, "outer.count: must be greater than or equal to 1. Received: 0."),
        (
            {"count": 10**12},
            "outer.count: must be less than or equal to 1000000000. Received: 1000000000000.",
        ),
        ({"count": 1.5}, "outer.count: must be a valid integer. Received: 1.5."),
        ({"count": True}, "outer.count: must be a valid integer. Received: true."),
        ({"count": "3"}, "outer.count: must be a valid integer. Received: '3'."),
        ({"number": True}, "outer.number: must be a valid number. Received: true."),
        ({"number": [True]}, "outer.number: must be a valid number. Received: [true]."),
        ({"number": float("nan")}, "outer.number: must be a finite number. Received: nan."),
        ({"size": -0.1}, "outer.size: must be greater than or equal to 0. Received: -0.1."),
        ({"share": 1.0}, "outer.share: must be less than 1. Received: 1.0."),
        ({"flag": 1}, "outer.flag: must be true or false. Received: 1."),
        ({"text": ""}, "outer.text: "),
        (
            {"mode": "slwo"},
            "outer.mode: must be one of fast, slow. Received: 'slwo'. Did you mean 'slow'?",
        ),
        ({"widths": [1, 0]}, "outer.widths.1: must be greater than or equal to 1. Received: 0."),
        ({"band": [1.0]}, "outer.band.1: missing."),
        ({"widths": 5}, "outer.widths: must be a list, such as [1, 2]. Received: 5."),
        (
            {"inner": {"depth": 0}},
            "outer.inner.depth: must be greater than or equal to 1. Received: 0.",
        ),
        (
            {"cuont": 1},
            "outer.cuont: unknown key. Did you mean 'count'? Known keys: count, number, ",
        ),
        (
            {"inner": {"dept": 1}},
            "outer.inner.dept: unknown key. Did you mean 'depth'? Known keys: depth.",
        ),
        ({"shape": {"side": 1.0}}, "outer.shape.name: missing."),
        (
            {"shape": {"name": "circle", "radius": -1.0}},
            "outer.shape.radius: must be greater than 0.",
        ),
        (
            {"shape": {"name": "circle", "radus": 1.0}},
            "outer.shape.radus: unknown key. Did you mean 'radius'?",
        ),
        (
            {"shape": {"name": "cirkle"}},
            "outer.shape.name: must be one of square, circle. Received: 'cirkle'.",
        ),
        ({"flag": True, "mode": "slow"}, "outer: flag does not go with slow."),
    ],
)
def test_says_where_what_was_expected_and_what_was_received(values: Fields, message: str) -> None:
    (problem,) = find_problems(Outer, values, "outer")[1]
    assert problem.startswith(message)


def test_build_raises_every_problem_at_once() -> None:
    values = {"count": 0, "mode": "x", "cuont": 1, "inner": {"depth": 0}}
    assert len(error_of(RecipeError, build, Outer, values, "outer").splitlines()) == 4


def test_plain_values_build_the_same_instance_again() -> None:
    instance = Outer(count=7, widths=(3,), inner=Inner(depth=2), shape=Circle(radius=0.5))
    assert build(Outer, to_plain(instance), "outer") == instance


DIGITS = "1" * 40


@pytest.mark.parametrize("number", [DIGITS, f"-{DIGITS}", DIGITS * 10])
def test_a_number_that_none_can_calculate_with_is_no_count(number: str) -> None:
    document = f'{{"depth": {number}}}'.encode()
    assert find_problems(Inner, read_json(document), "inner")[1][0].startswith(
        "inner.depth: must be "
    )
    with pytest.raises(ValueError, match="40 digits"):
        read_as(Inner, document)


def test_json_may_have_texts_and_fractions_of_many_digits() -> None:
    assert read_json(f'["{DIGITS}", 0.{DIGITS}, {DIGITS[1:]}]'.encode()) == [
        DIGITS,
        1 / 9,
        int(DIGITS[1:]),
    ]
