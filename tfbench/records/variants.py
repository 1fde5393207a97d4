"""What `tfbench profile --try` asks for: variants of a recipe's step that can be timed beside it in one process."""

import dataclasses
import re
from collections.abc import Iterator, Sequence
from typing import Any

from tfbench.errors import RecipeError, did_you_mean
from tfbench.recipe import tables as recipe_tables
from tfbench.recipe.abilities import COMPILER_KEY
from tfbench.recipe.sections import Recipe, TrainingConfig
from tfbench.records.profile import Variant

BASE = "as it stands"  # the step without changes; no variant can be called so, since a key has no blanks
CONTROL = "the same again"  # of older profiles, which built nothing but the step without changes a second time
DEFAULT_BUILDS = 5

_TRAINING_KEYS = ("steps_per_execution", "precision", "head")
_MIXED_PRECISION = "mixed_precision"
_OPTIMIZER = "training.optimizer."
_SWITCHES = {"on": True, "off": False, "true": True, "false": False}
_KEY_PATTERN = r"[A-Za-z_][\w-]*(\.[A-Za-z_][\w-]*)+"

# Why a key cannot be tried, and what to do instead; the first pattern that fits counts.
_OWN_PROCESSES = "compare in processes of their own: tfbench sweep {recipe} --arm default --vary {key}=VALUE,VALUE."
_NO_PART = "changes nothing of how a step is carried out. Leave it out."
_REFUSALS = {
    r"model\.(name|file)": "names another network, which is no variant of this step. Profile it by itself: "
    "--set {key}=VALUE.",
    r"dataset\..+": "is of the data, and all variants are trained on the same batches. Set it for all of them with "
    f"--set, or {_OWN_PROCESSES}",
    r"distribution\..+": "is of the devices, which all variants share. Choose them with --strategy and --devices, or "
    'compare in processes of their own: tfbench sweep {recipe} --arm "STRATEGY DEVICES".',
    r"training\.global_batch_size": "makes another amount of work a step, so that times of a step cannot be compared. "
    f"Set it for all variants with --global-batch-size, or {_OWN_PROCESSES}",
    r"training\.loss": "makes another task. Set it for all variants: --set {key}=VALUE.",
    r"training\.(tensor_float_32|deterministic|(intra|inter)_op_threads)|threads": "holds for a whole process, and all "
    f"variants share one. Set it for all of them with --set, or {_OWN_PROCESSES}",
    rf"training\.({'|'.join(field.name for field in dataclasses.fields(TrainingConfig))})": _NO_PART,
    r"(recipe|measurement|output|cost|expect|sweep|reference)\..+": _NO_PART,
}


def parse_variants(texts: Sequence[str], recipe: Recipe) -> tuple[Variant, ...]:
    """Reads lists such as "compiler=xla,steps_per_execution=10+mixed_precision" into checked variants.

    Items stand between commas, the changes of an item between plus signs. A change is KEY=VALUE, KEY alone for a
    switch that is to be on, or mixed_precision, which means precision=mixed_bfloat16. Keys of [training], of its
    optimizer and of [model] may go without their section where that leaves no doubt.

    Args:
        texts: One for each time that --try was given.
        recipe: What they are variants of.

    Raises:
        RecipeError: An item cannot be a variant of the recipe's step, with why, and what to do instead.
    """
    variants: list[Variant] = []
    seen: list[tuple[Recipe, str]] = []
    for item in (item.strip() for text in texts for item in _split(text, r",")):
        variant = _parse_item(item, recipe)
        changed = _written_out(apply_variant(recipe, variant))
        if changed == _written_out(recipe):
            raise RecipeError(f"--try {item}: that is what the recipe has, and it is timed in any case. Leave it out.")
        if same := next((name for other, name in seen if other == changed), None):
            raise RecipeError(f"--try {item}: is the same variant as {same}. Leave one of them out.")
        seen.append((changed, item))
        variants.append(variant)
    return tuple(variants)


def apply_variant(recipe: Recipe, variant: Variant) -> Recipe:
    """Returns the recipe with a variant's values.

    Raises:
        RecipeError: The recipe's own checks refuse them.
    """
    tables = recipe_tables.to_tables(recipe)
    optimizer = variant.values.get(f"{_OPTIMIZER}name", recipe.training.optimizer.name)
    if optimizer != recipe.training.optimizer.name:
        tables["training"]["optimizer"] = {}  # whose values are not those of another
    origin = f"--try {variant.name}"
    for key, value in variant.values.items():
        try:
            recipe_tables.set_value(tables, key, value)
        except RecipeError as error:
            raise RecipeError(f"{origin}: {str(error).removeprefix('--set ')}") from error
    return recipe_tables.from_tables(tables, name=recipe.name, source=origin, varied=tuple(variant.values))


def _written_out(recipe: Recipe) -> Recipe:
    """Returns the recipe with the compiler that its back end chooses, which is then equal to one that names it."""
    training = dataclasses.replace(recipe.training, compiler=recipe.training.compiler_used)
    return dataclasses.replace(recipe, training=training)


def _parse_item(item: str, recipe: Recipe) -> Variant:
    values: dict[str, Any] = {}
    for change in (change.strip() for change in _split(item, r"\+(?=\s*[A-Za-z_]|\s*$)")):  # no plus sign of 1e+3
        if not change:
            raise RecipeError(
                f"--try {item or '...'}: is empty where a change should be. Write KEY=VALUE between commas, and plus "
                "signs between changes of one variant: compiler=xla,steps_per_execution=10+mixed_precision."
            )
        key, value = _parse_change(item, change, recipe)
        if key in values:
            raise RecipeError(f"--try {item}: changes {key} twice. Put a comma between two variants.")
        values[key] = value
    return Variant(name=item, values=values)


def _parse_change(item: str, change: str, recipe: Recipe) -> tuple[str, Any]:
    name, equals, text = (part.strip() for part in change.partition("="))
    if name == _MIXED_PRECISION:
        if equals and text != "on":
            raise RecipeError(
                f"--try {item}: {name} stands alone, for precision=mixed_bfloat16. Received: '{text}'. "
                "Another precision is written precision=mixed_float16."
            )
        return "training.precision", "mixed_bfloat16"
    key = _find_key(item, name, recipe)
    if not equals:
        if not isinstance(_list_values(recipe).get(key), bool):
            raise RecipeError(f"--try {item}: {key} is no switch, and needs a value: {name}=VALUE.")
        return key, True
    if text in _SWITCHES:
        return key, _SWITCHES[text]
    try:
        return recipe_tables.parse_override(f"{key}={text}")
    except RecipeError as error:
        raise RecipeError(str(error).replace("--set ", f"--try {item}: ", 1)) from error


def _find_key(item: str, name: str, recipe: Recipe) -> str:
    """Returns the whole key that a name stands for."""
    known = _list_values(recipe)
    meant = [name] if name in known else [key for key in known if key.rpartition(".")[2] == name]
    if len(meant) > 1:
        raise RecipeError(f"--try {item}: '{name}' could be {' or '.join(meant)}. Write the whole key.")
    if meant:
        return meant[0]
    settings = [field.name for field in dataclasses.fields(TrainingConfig)]
    key = f"training.{name}" if name in settings else name
    # Of a model and an optimizer, the recipe's own checks know what else there may be.
    if key.startswith(("model.", _OPTIMIZER)) and re.fullmatch(_KEY_PATTERN, key) and not _find_refusal(key):
        return key
    if refusal := _find_refusal(key):
        raise RecipeError(f"--try {item}: {key} {refusal.format(recipe=recipe.name, key=key)}")
    names = [*known, *(one.rpartition(".")[2] for one in known), _MIXED_PRECISION, *settings]
    raise RecipeError(
        f"--try {item}: unknown key '{name}'.{did_you_mean(name, names)} Known: {_MIXED_PRECISION}, {', '.join(known)}."
    )


def _find_refusal(key: str) -> str | None:
    return next((refusal for pattern, refusal in _REFUSALS.items() if re.fullmatch(pattern, key)), None)


def _list_values(recipe: Recipe) -> dict[str, Any]:
    """Returns the keys that may be changed, with the values that they have."""
    training, model = recipe.training, recipe.model
    values = {COMPILER_KEY: training.compiler_used}
    values |= {f"training.{key}": getattr(training, key) for key in _TRAINING_KEYS}
    values |= {
        f"{_OPTIMIZER}{field.name}": getattr(training.optimizer, field.name)
        for field in dataclasses.fields(training.optimizer)
        if field.name != "name"
    }
    return values | {f"model.{key}": value for key, value in model.options.items() if key != "file"}


def _split(text: str, separator: str) -> Iterator[str]:
    """Yields the parts between separators that stand in no bracket and no quotes."""
    depth, quote, begin = 0, "", 0
    for place, character in enumerate(text):
        if quote:
            quote = "" if character == quote else quote
        elif character in "\"'":
            quote = character
        elif character in "[{":
            depth += 1
        elif character in "]}":
            depth -= 1
        elif depth <= 0 and re.match(separator, text[place:]):
            yield text[begin:place]
            begin = place + 1
    yield text[begin:]
