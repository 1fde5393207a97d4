"""Reads what the command line says of a sweep.

Setups, what is varied, numbers of devices and modes.
"""

import re
from collections.abc import Sequence
from typing import Any

from tfbench.analysis.comparison.crossover import spread_values
from tfbench.errors import RecipeError
from tfbench.recipe import tables
from tfbench.recipe.sections import Recipe
from tfbench.recipe.toml_text import parse_value
from tfbench.recipe.value_types import VARIABLE_SECTIONS
from tfbench.records.sweep import (
    BACKEND_KEY,
    BATCH_KEY,
    MODE_STRATEGIES,
    WORKERS_KEY,
    Mode,
    Setup,
    Variation,
)
from tfbench.schema import build
from tfbench.wording import join_words, shorten

_RANGE = re.compile(r"\d{1,9}\s*\.\.\s*\d{1,9}")


def parse_setup(text: str) -> Setup:
    """Reads "mirrored cpu:0,cpu:1" or "default gpu:0 backend=jax @a100".

    The devices may be left out.

    Raises:
        RecipeError: There are more than two words before those with "=", or none, or a value cannot
            be read.
    """
    parts = text.split()
    machine = parts.pop()[1:] if parts and re.fullmatch(r"@[^=]+", parts[-1]) else ""
    words = [part for part in parts if "=" not in part]
    if (
        not 1 <= len(words) <= 2
        or parts[: len(words)] != words
        or any(part.startswith("@") for part in parts)
    ):
        raise RecipeError(
            f'--setup "{shorten(text)}": must be STRATEGY DEVICES KEY=VALUE... @MACHINE, for'
            ' example "mirrored cpu:0,cpu:1", "default cpu:0 backend=jax" or "default gpu:0'
            ' @a100".'
        )
    devices = tuple(device for device in "".join(words[1:]).split(",") if device)
    values = dict(_read_setup_value(part, text) for part in parts[len(words) :])
    setup = {
        "strategy": words[0],
        "devices": devices,
        "values": tuple(values.items()),
        "machine": machine,
    }
    return build(Setup, setup, f'--setup "{shorten(text)}"')


def _read_setup_value(text: str, setup: str) -> tuple[str, Any]:
    """Reads KEY=VALUE, where a key without a section is one of [training], or num_workers."""
    key = text.partition("=")[0]
    section = "distribution" if key == "num_workers" else "training"
    try:
        key, value = tables.parse_override(text if "." in key else f"{section}.{text}")
    except RecipeError as error:
        raise RecipeError(
            f'--setup "{shorten(setup)}": {shorten(text)}: must be KEY=VALUE, as of --set.'
        ) from error
    if key != WORKERS_KEY and (key.partition(".")[0] not in VARIABLE_SECTIONS or key == BATCH_KEY):
        raise RecipeError(
            f'--setup "{shorten(setup)}": {shorten(key)}: must be a key of'
            f" {', '.join(VARIABLE_SECTIONS)}, or num_workers, and not the batch size, which all"
            " setups have in common."
        )
    return key, value


def is_range(text: str) -> bool:
    """Says whether what is varied is given as KEY=LOW..HIGH."""
    return bool(_RANGE.fullmatch(text.partition("=")[2].strip()))


def are_alike_numbers(value: Any) -> bool:
    """Says whether a value is a whole number, or a list of one whole number several times."""
    items = set(value) if isinstance(value, list | tuple) else {value}
    return len(items) == 1 and all(type(item) is int for item in items)


def parse_variation(text: str, recipe: Recipe | None = None, step: int = 1) -> Variation:
    """Reads a variation such as "training.global_batch_size=32,128".

    Other forms are "model.hidden_units=[[100],[1000,1000]]" and "model.units=16..64".

    Args:
        text: What the user wrote.
        recipe: Where it has a list at the key of a range, all of its items are set.
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
    found = _read_range(text, recipe, step) if is_range(text) else _read_values(values)
    return make_variation(key, found, origin=f"--vary {shorten(text)}")


def _read_range(text: str, recipe: Recipe | None, step: int) -> list[Any]:
    key, _, ends = text.partition("=")
    low, _, high = ends.partition("..")
    try:
        values = spread_values(int(low), int(high), step)
    except ValueError as error:
        raise RecipeError(f"--vary {shorten(text)}: {error}") from error
    own: Any = tables.to_tables(recipe) if recipe else None
    for part in key.strip().split("."):
        own = own.get(part) if isinstance(own, dict) else None
    return (
        [[value] * len(own) for value in values] if isinstance(own, list | tuple) else list(values)
    )


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
        example = f"Give it with its section, such as {BATCH_KEY} or model.hidden_units."
        instead = (
            f" {'Setups vary the distribution: --setup.' if section == 'distribution' else example}"
        )
        raise RecipeError(
            f"{origin}: '{shorten(key)}' is no key of {join_words(VARIABLE_SECTIONS)}.{instead}"
        )
    if key == BACKEND_KEY:
        raise RecipeError(
            f'{origin}: backends are compared as setups: --setup "default cpu:0" --setup "default'
            ' cpu:0 backend=jax". One for all of them is set by --backend.'
        )
    if not values:
        raise RecipeError(f"{origin}: needs at least one value.")
    once = [value for place, value in enumerate(values) if value not in values[:place]]
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
    is_bracketed = text.startswith("[") and len(values) == 1
    return list(values[0]) if is_bracketed else list(values)


def parse_replicas(text: str) -> tuple[int, ...]:
    """Reads "1,2,4", in ascending order.

    One replica, beside which the others stand, is always among them.

    Raises:
        RecipeError: These are no numbers of replicas, or none above one.
    """
    parts = [part.strip() for part in text.split(",")]
    counts = {int(part) for part in parts if re.fullmatch(r"[1-9]\d{0,3}", part)}
    if len(counts) < len(set(parts)) or counts == {1}:
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
