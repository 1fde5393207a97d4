"""Reads setups, variations, numbers of devices and modes from the command line of a sweep."""

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from tfbench.comparisons.crossover import spread_values
from tfbench.errors import RecipeError
from tfbench.recipe import tables
from tfbench.recipe.sections import Recipe
from tfbench.recipe.toml_text import parse_value
from tfbench.recipe.value_types import VARIABLE_SECTIONS
from tfbench.schema import MOST_ROUNDS, build
from tfbench.sweeps.plan import (
    BACKEND_KEY,
    BATCH_KEY,
    MODE_STRATEGIES,
    WORKERS_KEY,
    Mode,
    Setup,
    Variation,
)
from tfbench.wording import join_words, shorten

_RANGE = re.compile(r"([0-9]{1,9})\s*\.\.\s*([0-9]{1,9})")
# STRATEGY DEVICES KEY=VALUE... @MACHINE
_SETUP = re.compile(
    r"((?!@)[^\s=]+)(?:\s+((?!@)[^\s=]+))?((?:\s+(?!@)[^\s=]*=\S*)*)(?:\s+@([^\s=]+))?"
)


class Rounds(NamedTuple):
    """How many rounds a sweep makes: all of them, or from the fewest until all is decided."""

    fewest: int
    most: int

    @property
    def are_fixed(self) -> bool:
        """Whether their number does not depend on what they show."""
        return self.fewest == self.most


DEFAULT_ROUNDS = Rounds(3, 20)
# Where no rounds are added: as long as three runs of 5 s each, and twice as telling.
DEFAULT_FIXED_ROUNDS = Rounds(8, 8)
# Of a search, whose sizes near the crossover are all but equal: with more rounds there, it takes
# longer for hardly narrower answers.
DEFAULT_SEARCH_ROUNDS = Rounds(3, 7)
DEFAULT_QUICK_ROUNDS = Rounds(3, 6)  # as many as fit into a minute, with few looks at them
DEFAULT_FULL_ROUNDS = Rounds(3, 3)  # of runs to the end of the training, which may take days


def check_rounds(fewest: int, most: int, origin: str) -> Rounds:
    """Returns numbers of rounds that make sense.

    Raises:
        RecipeError: They do not.
    """
    rounds = Rounds(fewest, most)
    problem = ""
    if not 1 <= fewest <= MOST_ROUNDS or most > MOST_ROUNDS:
        problem = f"must be from 1 to {MOST_ROUNDS}"
    elif fewest > most:
        problem = "LOW must not be above HIGH, as in 3..20"
    elif fewest == 1 < most:
        problem = "LOW must be 2 or more, since one round shows no scatter"
    if problem:
        received = str(fewest) if rounds.are_fixed else f"{fewest}..{most}"
        raise RecipeError(f"{origin}: {problem}. Received: {received}.")
    return rounds


def parse_rounds(text: str) -> Rounds:
    """Reads "5", or "3..20".

    Raises:
        RecipeError: It is neither.
    """
    numbers = re.fullmatch(rf"{_RANGE.pattern}|([0-9]{{1,9}})", text.strip())
    if not numbers:
        raise RecipeError(
            "--repeats: must be a number, such as 5, or LOW..HIGH, such as 3..20. Received:"
            f" {shorten(text)}."
        )
    low, high, fixed = numbers.groups()
    return check_rounds(int(fixed or low), int(fixed or high), "--repeats")


def parse_setup(text: str) -> Setup:
    """Reads "mirrored cpu:0,cpu:1" or "default gpu:0 backend=jax @a100".

    The devices may be left out.

    Raises:
        RecipeError: There are more than two words before those with "=", or none, or a value cannot
            be read.
    """
    parts = _SETUP.fullmatch(text.strip())
    if not parts:
        raise RecipeError(
            f'--setup "{shorten(text)}": must be STRATEGY DEVICES KEY=VALUE... @MACHINE, for'
            ' example "mirrored cpu:0,cpu:1", "default cpu:0 backend=jax" or "default gpu:0'
            ' @a100".'
        )
    strategy, devices, assignments, machine = parts.groups(default="")
    values = dict(_read_setup_value(part, text) for part in assignments.split())
    plain = {
        "strategy": strategy,
        "devices": tuple(filter(None, devices.split(","))),
        "values": tuple(values.items()),
        "machine": machine,
    }
    return build(Setup, plain, f'--setup "{shorten(text)}"')


def _read_setup_value(text: str, setup: str) -> tuple[str, Any]:
    """Reads KEY=VALUE, where a key without a section is one of [training], or num_workers."""
    key = text.partition("=")[0]
    section = "distribution" if key == "num_workers" else "training"
    override = text if "." in key else f"{section}.{text}"
    try:
        key, value = tables.parse_override(override)
    except RecipeError as error:
        raise RecipeError(
            f'--setup "{shorten(setup)}": {shorten(text)}: must be KEY=VALUE, as of --set.'
        ) from error
    can_vary = key.partition(".")[0] in VARIABLE_SECTIONS and key != BATCH_KEY
    if not can_vary and key != WORKERS_KEY:
        raise RecipeError(
            f'--setup "{shorten(setup)}": {shorten(key)}: must be a key of'
            f" {', '.join(VARIABLE_SECTIONS)}, or num_workers, and not the batch size, which all"
            " setups have in common. To see several, use --batch-size: each is a row."
        )
    return key, value


def is_range(text: str) -> bool:
    """Says whether what is varied is given as KEY=LOW..HIGH."""
    return bool(_RANGE.fullmatch(text.partition("=")[2].strip()))


def are_alike_numbers(value: Any) -> bool:
    """Says whether a value is a whole number, or a list of one whole number several times."""
    items = set(value) if isinstance(value, list | tuple) else {value}
    return len(items) == 1 and all(type(item) is int for item in items)


def parse_variation(text: str, recipe: Recipe, step: int) -> Variation:
    """Reads a variation such as "training.global_batch_size=32,128".

    Other forms are "model.hidden_units=[[100],[1000,1000]]" and "model.units=16..64".

    Args:
        text: What the user wrote.
        recipe: Where it has a list at the key, a number sets all of its items.
        step: What the values of a range are multiples of.

    Raises:
        RecipeError: It has no values, or its key cannot be varied.
    """
    key, equals, values = (part.strip() for part in text.partition("="))
    if not equals or not values:
        raise RecipeError(
            f"--vary {shorten(text)}: must be KEY=VALUE,VALUE,..., for example"
            " training.global_batch_size=32,128."
        )
    origin = f"--vary {shorten(text)}"
    if ends := _RANGE.fullmatch(values):
        try:
            listed = spread_values(int(ends[1]), int(ends[2]), step)
        except ValueError as error:
            raise RecipeError(f"{origin}: {error}") from error
    else:
        listed = _read_values(values)
    return make_variation(key, _as_items(listed, key, recipe), origin=origin)


def _as_items(values: list[Any], key: str, recipe: Recipe) -> list[Any]:
    """Returns values for a key; where the recipe has a list there, a number is all of its items."""
    default: Any = tables.to_tables(recipe)
    for part in key.split("."):
        default = default.get(part) if isinstance(default, dict) else None
    if not isinstance(default, list | tuple):
        return values
    items = []
    for value in values:
        items.append(value if isinstance(value, list | tuple) else [value] * len(default))
    return items


def make_variation(key: str, values: Sequence[Any], *, origin: str) -> Variation:
    """Checks what a key is to be varied over.

    Args:
        key: Dotted.
        values: Each is taken once.
        origin: Where they are from, for messages.

    Raises:
        RecipeError: The key cannot be varied, or there is no value.
    """
    section = key.partition(".")[0]
    if "." not in key or section not in VARIABLE_SECTIONS:
        instead = f"Give it with its section, such as {BATCH_KEY} or model.hidden_units."
        if section == "distribution":
            instead = (
                'Compare setups instead: --setup "default cpu:0" --setup "mirrored cpu:0,cpu:1".'
            )
        raise RecipeError(
            f"{origin}: '{shorten(key)}' is no key of {join_words(VARIABLE_SECTIONS)}. {instead}"
        )
    if key == BACKEND_KEY:
        raise RecipeError(
            f'{origin}: compare backends as setups instead: --setup "default cpu:0" --setup'
            ' "default cpu:0 backend=jax". One for all of them is set by --backend.'
        )
    if not values:
        raise RecipeError(f"{origin}: needs at least one value.")
    once = []
    for value in values:
        if value not in once:
            once.append(value)
    return build(Variation, {"key": key, "values": once}, origin)


def _read_values(text: str) -> list[Any]:
    try:
        values = parse_value(f"[{text}]")
    except RecipeError as error:
        values = [part.strip() for part in text.split(",")]
        if not all(re.fullmatch(r"[\w./:-]+", part) for part in values):
            raise RecipeError(
                f"--vary ...={shorten(text)}: is no list of values. Write numbers and words with"
                " commas between them, or a list of TOML values in brackets."
            ) from error
        return values
    if text.startswith("[") and len(values) == 1:
        values = values[0]
    return list(values)


def parse_replicas(text: str) -> tuple[int, ...]:
    """Reads "1,2,4" in ascending order, and adds 1, with which the others are compared.

    Raises:
        RecipeError: These are no numbers of replicas, or none above one.
    """
    parts = {part.strip() for part in text.split(",")}
    counts = {int(part) for part in parts if re.fullmatch("[1-9][0-9]{0,3}", part)}
    if len(counts) < len(parts) or counts == {1}:
        raise RecipeError(
            f"--replicas: must be numbers such as 1,2,4, one of them above 1. Received: {text}."
        )
    return tuple(sorted({1, *counts}))


def parse_modes(text: str) -> tuple[Mode, ...]:
    """Reads "data,hybrid", in the order in which modes are shown.

    Raises:
        RecipeError: One of them is no mode.
    """
    parts = {part.strip() for part in text.split(",")}
    if not parts <= {*MODE_STRATEGIES}:
        raise RecipeError(
            f"--modes: must be some of {','.join(MODE_STRATEGIES)}. Received: {shorten(text)}."
        )
    return tuple(mode for mode in MODE_STRATEGIES if mode in parts)
