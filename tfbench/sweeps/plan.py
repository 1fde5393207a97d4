"""From a recipe and what the command line says to the plan of a sweep."""

import dataclasses
import re
from collections.abc import Iterable, Sequence
from typing import Any

from tfbench.analysis.comparison.crossover import spread_values
from tfbench.errors import RecipeError
from tfbench.recipe import tables
from tfbench.recipe.abilities import BackendName
from tfbench.recipe.keys import THREADS, VARIABLE_SECTIONS
from tfbench.recipe.sections import Recipe
from tfbench.recipe.toml_text import parse_value
from tfbench.records.run import RunRequest
from tfbench.records.sweep import (
    BACKEND_KEY,
    BATCH_KEY,
    THREAD_KEYS,
    WORKERS_KEY,
    Arm,
    Refinement,
    SweepPlan,
    Variation,
)
from tfbench.schema import build
from tfbench.wording import shorten

_RANGE = re.compile(r"\d{1,9}\s*\.\.\s*\d{1,9}")


def new_plan(
    request: RunRequest,
    arms: Sequence[Arm],
    *,
    num_rounds: int,
    variations: Sequence[Variation] = (),
    run_timeout_seconds: float | None = None,
    memory_limit_bytes: float | None = None,
    time_budget_seconds: float | None = None,
    per_replica_batch_size: int | None = None,
    names_machines: bool = False,
    refinement: Refinement | None = None,
) -> SweepPlan:
    """Plans the runs of a recipe under several arms.

    Args:
        request: What a run of the recipe would be; the sweep gets its id.
        arms: Each is taken once; the first is the baseline. None sets what is varied. In the plan each says its
            back end, unless that and the recipe's are TensorFlow: others may stand beside it later.
        num_rounds: How often each point is run.
        variations: What is varied.
        run_timeout_seconds: After which a run is ended.
        memory_limit_bytes: Beyond which a run is ended.
        time_budget_seconds: After which no further run is made.
        per_replica_batch_size: Of every arm, whose devices are named; None: all have the recipe's global batch size.
        names_machines: Whether a scheduler will find the machines that arms name.
        refinement: Which values are added; None: none.

    Raises:
        RecipeError: An arm sets what is varied, or names a machine that nobody will find.
    """
    require_machine_found(arms, names_machines=names_machines)
    varied = {
        key for variation in variations for key in (THREAD_KEYS if variation.key == THREADS else (variation.key,))
    }
    for arm in arms:
        if both := varied.intersection(dict(arm.values)):
            raise RecipeError(
                f"{shorten(arm.label)}: {', '.join(sorted(both))} is varied already. Set it in one place."
            )
    return SweepPlan(
        sweep_id=request.run_id,
        created=request.created,
        recipe_name=request.recipe.name,
        tables=tables.to_tables(request.recipe),
        overrides=request.overrides,
        variations=tuple(variations),
        arms=tuple(dict.fromkeys(_name_back_end(arm, request.recipe) for arm in arms)),
        num_rounds=num_rounds,
        data_dir=request.data_dir,
        allows_code=request.allows_code,
        run_timeout_seconds=run_timeout_seconds,
        memory_limit_bytes=None if memory_limit_bytes is None else int(memory_limit_bytes),
        time_budget_seconds=time_budget_seconds,
        per_replica_batch_size=per_replica_batch_size,
        refinement=refinement,
    )


def require_machine_found(arms: Iterable[Arm], *, names_machines: bool) -> None:
    """Refuses arms that name a machine where all runs are made on this one.

    Raises:
        RecipeError: Naming the first.
    """
    if named := [arm for arm in arms if arm.machine and not names_machines]:
        raise RecipeError(
            f'arm "{shorten(named[0].label)}": names a machine, and all runs are made on this one. `tfbench sweep '
            "--plan FILE` leaves its tasks to a scheduler, `--ray ADDRESS` finds it in a Ray cluster."
        )


def _name_back_end(arm: Arm, recipe: Recipe) -> Arm:
    usual, values = recipe.training.backend, dict(arm.values)
    backend = values.pop(BACKEND_KEY, usual)
    own = {} if backend == usual == "tensorflow" else {BACKEND_KEY: backend}
    return dataclasses.replace(arm, values=tuple((own | values).items()))


def parse_arm(text: str) -> Arm:
    """Reads "mirrored cpu:0,cpu:1" or "default gpu:0 backend=jax @a100"; the devices may be left out.

    Raises:
        RecipeError: There are more than two words before those with "=", or none, or a value cannot be read.
    """
    parts = text.split()
    machine = parts.pop()[1:] if parts and re.fullmatch(r"@[^=]+", parts[-1]) else ""
    words = [part for part in parts if "=" not in part]
    if not 1 <= len(words) <= 2 or parts[: len(words)] != words or any(part.startswith("@") for part in parts):
        raise RecipeError(
            f'--arm "{shorten(text)}": must be STRATEGY DEVICES KEY=VALUE... @MACHINE, for example "mirrored '
            'cpu:0,cpu:1", "default cpu:0 backend=jax" or "default gpu:0 @a100".'
        )
    devices = tuple(device for device in "".join(words[1:]).split(",") if device)
    values = dict(_read_arm_value(part, text) for part in parts[len(words) :])
    arm = {"strategy": words[0], "devices": devices, "values": tuple(values.items()), "machine": machine}
    return build(Arm, arm, f'--arm "{shorten(text)}"')


def _read_arm_value(text: str, arm: str) -> tuple[str, Any]:
    """Reads KEY=VALUE, where a key without a section is one of [training], or num_workers."""
    key = text.partition("=")[0]
    section = "distribution" if key == "num_workers" else "training"
    try:
        key, value = tables.parse_override(text if "." in key else f"{section}.{text}")
    except RecipeError as error:
        raise RecipeError(f'--arm "{shorten(arm)}": {shorten(text)}: must be KEY=VALUE, as of --set.') from error
    if key != WORKERS_KEY and (key.partition(".")[0] not in VARIABLE_SECTIONS or key == BATCH_KEY):
        raise RecipeError(
            f'--arm "{shorten(arm)}": {shorten(key)}: must be a key of {", ".join(VARIABLE_SECTIONS)}, or '
            "num_workers, and not the batch size, which all arms have in common."
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
    """Reads "training.global_batch_size=32,128", "model.hidden_units=[[100],[1000,1000]]" or "model.units=16..64".

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
            f"--vary {shorten(text)}: must be KEY=VALUE,VALUE,..., for example training.global_batch_size=32,128."
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
    for part in (THREAD_KEYS[0] if key.strip() == THREADS else key.strip()).split("."):
        own = own.get(part) if isinstance(own, dict) else None
    items = own if isinstance(own, list | tuple) and own else [own]
    if any(isinstance(item, bool) or not isinstance(item, int | float | None) for item in items):
        raise RecipeError(
            f"--vary {shorten(text)}: a range needs a number, or a list of numbers, in the recipe. It is: {own!r}."
        )
    return [[value] * len(own) for value in values] if isinstance(own, list | tuple) else list(values)


def make_variation(key: str, values: Sequence[Any], *, origin: str) -> Variation:
    """Checks what a key is to be varied over.

    Args:
        key: Dotted, or "threads".
        values: Each is taken once.
        origin: Where they are from, for messages.

    Raises:
        RecipeError: The key cannot be varied, or there is no value.
    """
    section = key.partition(".")[0]
    if key != THREADS and ("." not in key or section not in VARIABLE_SECTIONS):
        instead = " Arms vary the distribution: --arm." if section == "distribution" else ""
        raise RecipeError(
            f"{origin}: must be a key of {', '.join(VARIABLE_SECTIONS)}, or {THREADS}. "
            f"Received: '{shorten(key)}'.{instead}"
        )
    if key == BACKEND_KEY:
        raise RecipeError(
            f'{origin}: back ends are compared as arms: --arm "default cpu:0" --arm "default cpu:0 backend=jax". '
            "One for all of them is set by --backend."
        )
    kept: list[Any] = []
    for value in values:
        if value not in kept:
            kept.append(value)
    if not kept:
        raise RecipeError(f"{origin}: needs at least one value.")
    return build(Variation, {"key": key, "values": kept}, origin)


def own_variations(recipe: Recipe) -> list[Variation]:
    """Returns what a recipe's [sweep] varies.

    Raises:
        RecipeError: A key of it cannot be varied.
    """
    return [make_variation(key, listed, origin=f"{recipe.name}: sweep") for key, listed in recipe.sweep.items()]


def own_arm(recipe: Recipe) -> Arm:
    """Returns where a recipe is measured unless told otherwise."""
    return Arm(strategy=recipe.distribution.strategy, devices=recipe.distribution.devices)


def machine_arms(num_gpus: int, backend: BackendName = "tensorflow") -> tuple[Arm, ...]:
    """Returns what there is to compare on a machine: its processor with a GPU, and with all of several.

    Without a GPU it is the processor with two logical devices of it, which tells what a strategy itself costs. A back
    end without strategies has the processor and a GPU.
    """
    processor = Arm(strategy="default", devices=("cpu:0",))
    if backend != "tensorflow":
        return processor, *((Arm(strategy="default", devices=("gpu:0",)),) if num_gpus else ())
    if not num_gpus:
        return processor, Arm(strategy="mirrored", devices=("cpu:0", "cpu:1"))
    gpus = tuple(f"gpu:{index}" for index in range(num_gpus))
    every = (Arm(strategy="mirrored", devices=gpus),) if num_gpus > 1 else ()
    return processor, Arm(strategy="default", devices=gpus[:1]), *every


def _read_values(text: str) -> list[Any]:
    try:
        values = parse_value(f"[{text}]")
    except RecipeError as error:
        values = [part.strip() for part in text.split(",")]
        if not all(re.fullmatch(r"[\w./:-]+", part) for part in values):
            raise RecipeError(
                f"--vary ...={shorten(text)}: is no list of values. Write numbers and words with commas between them, "
                "or a list of TOML values in brackets."
            ) from error
        return values
    is_bracketed = text.startswith("[") and len(values) == 1
    return list(values[0]) if is_bracketed else list(values)
