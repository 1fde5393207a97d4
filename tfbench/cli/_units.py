"""Options that take a number with a unit."""

import contextlib
import math
from typing import Any

import click


class Quantity(click.ParamType):  # type: ignore[type-arg]  # generic from click 8.4 on only
    """A positive number, with a unit or without.

    Args:
        name: Of what is measured, for the help text.
        units: What each unit is worth.
        examples: For the message on what is none.
        most: What it can be.
    """

    def __init__(self, name: str, units: dict[str, int], examples: str, most: float) -> None:
        self.name = name
        self._units = units
        self._examples = examples
        self._most = most

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Reads "90", "10m", "4GiB"."""
        text = str(value).strip()
        unit = next((unit for unit in self._units if text.endswith(unit)), "")
        number = math.nan
        with contextlib.suppress(ValueError):
            number = float(text.removesuffix(unit)) * self._units.get(unit, 1)
        if not 0 < number <= self._most:
            such_as = f"such as {self._examples}; {self._most:g} of them at most"
            self.fail(f"must be more than 0, {such_as}. Received: {text}", param, ctx)
        return number


DURATION = Quantity("time", {"s": 1, "m": 60, "h": 3600}, "90s, 10m or 1.5h; a bare number is seconds", 1e9)
MEMORY = Quantity("size", {"MiB": 2**20, "GiB": 2**30}, "512MiB or 4GiB; a bare number is bytes", 2**60)
