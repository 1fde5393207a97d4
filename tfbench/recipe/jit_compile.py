"""`jit_compile`, which was the key before `compiler`: how recipes, command lines and records that have it are read.

It was true for "xla", and false for TensorFlow's graph; there was no other back end.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any

from tfbench.recipe.abilities import Compiler
from tfbench.schema import read_by

JIT_COMPILE, COMPILER = "jit_compile", "compiler"
COMPILER_KEY = f"training.{COMPILER}"
_OLD_KEY = f"training.{JIT_COMPILE}"


def compiler_of(jit_compile: bool) -> Compiler:
    """Returns what made a step."""
    return "xla" if jit_compile else "graph"


def read_key(key: str) -> str:
    """Returns a dotted key of a recipe as it is called now."""
    return COMPILER_KEY if key == _OLD_KEY else key


def _read_keys(keys: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(map(read_key, keys)))


RecipeKeys = Annotated[tuple[str, ...], read_by(_read_keys)]


def read_variation(key: str, values: Sequence[Any]) -> tuple[str, tuple[Any, ...]]:
    """Returns what a key is varied over; values that are no switch stay, for the recipe's checks to refuse them."""
    if key != _OLD_KEY or not all(isinstance(value, bool) for value in values):
        return key, tuple(values)
    return COMPILER_KEY, tuple(map(compiler_of, values))


def read_values(values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns values that are laid over a recipe, by dotted keys."""
    pairs = ((key, *read_variation(key, (value,))[1]) for key, value in values.items())
    return {read_key(key): value for key, value in pairs}


def read_training(table: object) -> tuple[object, list[str]]:
    """Returns the table [training], and what is wrong with its `jit_compile`, which was laid over its `compiler`.

    What is off leaves the choice to TensorFlow, as a recipe does that says nothing of it.
    """
    if not isinstance(table, Mapping) or JIT_COMPILE not in table:
        return table, []
    value, backend = table[JIT_COMPILE], table.get("backend", "tensorflow")
    rest = {key: other for key, other in table.items() if key not in (JIT_COMPILE, "compiler")}
    if value is True:
        return rest | {"compiler": compiler_of(value)}, []
    if value is not False:
        return rest, [f"{_OLD_KEY}: must be true or false. Received: {value!r}."]
    if backend != "tensorflow":
        return rest, [
            f"{_OLD_KEY}: false means TensorFlow's graph, which backend {backend} does not have. Set compiler instead."
        ]
    return rest, []


def read_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Returns settings in effect, by their names and in their order."""
    pairs = ((name, value, name == JIT_COMPILE and isinstance(value, bool)) for name, value in settings.items())
    return {"compiler" if is_old else name: compiler_of(value) if is_old else value for name, value, is_old in pairs}
