"""Options that take a number with a unit, or a file."""

import contextlib
import math
from pathlib import Path
from typing import Any

import click


class Quantity(click.ParamType):  # type: ignore[type-arg]  # generic from click 8.4 on only
    """A positive number, with a unit or without.

    Args:
        name: Of what is measured, for the help text.
        units: What each unit is worth.
        examples: For the message on what is none.
        most: What it can be.
        allows_zero: Whether it can be 0.
    """

    def __init__(
        self, name: str, units: dict[str, float], examples: str, most: float, *, allows_zero: bool = False
    ) -> None:
        self.name = name
        self._units = units
        self._examples = examples
        self._most = most
        self._allows_zero = allows_zero

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Reads "90", "10m", "4GiB", "2%"."""
        text = str(value).strip()
        unit = next((unit for unit in self._units if text.endswith(unit)), "")
        number = math.nan
        with contextlib.suppress(ValueError):
            number = float(text.removesuffix(unit)) * self._units.get(unit, 1)
        if not (0 < number <= self._most or (self._allows_zero and number == 0)):
            least = "0 or more" if self._allows_zero else "more than 0"
            what = f"must be {least} and at most {self._most:g}, such as {self._examples}"
            self.fail(f"{what}. Received: {text}", param, ctx)
        return number


FILE = click.Path(path_type=Path)
DURATION = Quantity("time", {"s": 1, "m": 60, "h": 3600}, "90s, 10m or 1.5h; a bare number is seconds", 1e9)
MEMORY = Quantity("size", {"MiB": 2**20, "GiB": 2**30}, "512MiB or 4GiB; a bare number is bytes", 2**60)
SHARE = Quantity("share", {"%": 0.01}, "2% or 0.02", 0.99)
SHARE_OR_ZERO = Quantity("share", {"%": 0.01}, "2% or 0.02", 0.99, allows_zero=True)
