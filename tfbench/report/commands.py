"""The command lines that make a sweep, or a run, again."""

import json
import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tfbench.errors import TfbenchError
from tfbench.recipe import files
from tfbench.recipe import tables as recipe_tables
from tfbench.recipe.tables import list_values
from tfbench.recipe.toml_text import describe_values
from tfbench.records.scaling import find_scaling_arms
from tfbench.records.sweep import SweepPlan, describe_variation
from tfbench.wording import DEFAULT_STORE, command_line

_BESIDE = ("recipe", "reference", "sweep")  # sections that change nothing of what is measured
_MEASURED_SECONDS = "measurement.seconds"
_FOLD_FROM = 80  # characters of a command


def find_overrides(tables: Mapping[str, Any], recipe_name: str) -> dict[str, Any] | None:
    """Returns what must be set, by dotted key, for a shipped recipe to be the one that was measured.

    Args:
        tables: Of the recipe that was measured, defaults written out.
        recipe_name: Under which it was run.

    Returns:
        None: no recipe of this name comes with tfbench, or no values that can be set make it the same.
    """
    path = files.shipped_folder() / f"{recipe_name}.toml"
    measured = _measured(tables)
    leaves = list_values(measured)
    try:
        shipped = files.load_recipe(path)
        # Another network or data set takes more than its own options from the recipe that it is put into.
        others = [
            kind for kind in ("model", "dataset") if measured.get(kind, {}).get("name") != getattr(shipped, kind).name
        ]
        named = {key: value for key, value in leaves.items() if key.partition(".")[0] in others and value is not None}
        usual_leaves = list_values(
            _measured(recipe_tables.to_tables(files.load_recipe(path, named) if named else shipped))
        )
        differing = named | {
            key: value
            for key, value in leaves.items()
            if value is not None and (key not in usual_leaves or usual_leaves[key] != value)
        }
        # What is expected follows from how long is trained, as a rule.
        usual = {key: value for key, value in differing.items() if not key.startswith("expect.")}
        for values in (usual, differing):
            if _measured(recipe_tables.to_tables(files.load_recipe(path, values))) == measured:
                return values
    except TfbenchError:
        return None
    return None


def sweep_command(plan: SweepPlan, store: Path | str = DEFAULT_STORE) -> str:
    """Returns the command that makes a sweep again; one whose recipe is not shipped takes it from a file NAME.toml."""
    name, values = _name_and_values(plan.recipe_name, plan.tables, plan.overrides)
    measurement = plan.tables.get("measurement", {})
    is_limited = measurement.get("seconds") is not None or measurement.get("steps") is not None
    scaling = find_scaling_arms(plan) if is_limited else None
    words = ["scale" if scaling else "sweep", name]
    if scaling:
        words += ["--replicas", ",".join(map(str, scaling.counts)), "--devices", scaling.kind]
        if scaling.modes != ("data",):
            words += ["--modes", ",".join(scaling.modes)]
        if plan.per_replica_batch_size is not None:
            words += ["--weak", "--per-replica-batch-size", str(plan.per_replica_batch_size)]
            values.pop("training.global_batch_size", None)
    else:
        for variation in plan.variations:
            words += ["--vary", describe_variation(variation)]
        for arm in plan.arms:
            words += [] if arm.again else ["--arm", arm.label]
        words += ["--aa"] if any(arm.again for arm in plan.arms) else []
        words += ["--plan", "plan.json"] if any(arm.machine for arm in plan.arms) else []  # whatever makes it then
    words += ["--repeats", str(plan.num_rounds)]
    values.pop(_MEASURED_SECONDS, None)
    if (seconds := measurement.get("seconds")) is not None:
        words += ["--seconds", f"{seconds:g}"]
    elif not is_limited:
        words.append("--full")
    words += _describe_values(values)
    if plan.time_budget_seconds is not None:
        words += ["--time-budget", f"{plan.time_budget_seconds:g}s"]
    if plan.run_timeout_seconds is not None:
        words += ["--run-timeout", f"{plan.run_timeout_seconds:g}s"]
    if plan.memory_limit_bytes is not None:
        words += ["--memory-limit", str(plan.memory_limit_bytes)]
    return command_line(*words, *_describe_rest(plan.data_dir, allows_code=plan.allows_code), store=store)


def run_command(
    recipe_name: str, tables: Mapping[str, Any], *, repeats: int, data_dir: str | None, allows_code: bool
) -> str | None:
    """Returns the command that makes a run again; None: its recipe is none that is shipped.

    Args:
        recipe_name: Under which it was run.
        tables: Of its recipe, defaults written out.
        repeats: How many runs there were like it.
        data_dir: Folder of its data.
        allows_code: Whether it called functions from outside of tfbench.
    """
    values = find_overrides(tables, recipe_name)
    if values is None:
        return None
    words = ["run", recipe_name, *_take_placement(values), *_describe_values(values)]
    if repeats > 1:
        words += ["--repeats", str(repeats)]
    return command_line(*words, *_describe_rest(data_dir, allows_code=allows_code))


def fold_command(command: str) -> str:
    """Returns a long command in lines that a shell takes as one: each option begins one.

    A browser breaks lines behind a dash, too. What has a comment stays as it is.
    """
    if len(command) <= _FOLD_FROM or "#" in command:
        return command
    lines: list[str] = []
    for word in shlex.split(command):
        if word.startswith("--") or not lines:
            lines.append(shlex.quote(word))
        else:
            lines[-1] += f" {shlex.quote(word)}"
    return " \\\n    ".join(lines)


def _name_and_values(
    recipe_name: str, tables: Mapping[str, Any], set_keys: Iterable[str]
) -> tuple[str, dict[str, Any]]:
    """Returns how a recipe is named on a command line, and what must be set for it to be the one that was measured.

    Args:
        recipe_name: Under which it was run.
        tables: Of it, defaults written out.
        set_keys: Keys, or whole tables, that the command line had set; all that is known of one that is not shipped.
    """
    overrides = find_overrides(tables, recipe_name)
    if overrides is not None:
        return recipe_name, dict(overrides)
    leaves, prefixes = list_values(_measured(tables)), tuple(f"{key}." for key in set_keys)
    return f"{recipe_name}.toml", {
        key: value for key, value in leaves.items() if value is not None and f"{key}.".startswith(prefixes)
    }


def _describe_values(values: Mapping[str, Any]) -> list[str]:
    """Returns values as options: which data by its own, all others by --set."""
    data = values.get("dataset.data")
    others = describe_values({key: value for key, value in values.items() if key != "dataset.data"})
    return [*(["--data", data] if data else []), *others]


def _take_placement(values: dict[str, Any]) -> list[str]:
    """Returns strategy and devices as options, and takes them out of what is set."""
    words = []
    if (strategy := values.pop("distribution.strategy", None)) is not None:
        words += ["--strategy", strategy]
    if devices := values.pop("distribution.devices", None):
        words += ["--devices", ",".join(devices)]
    return words


def _measured(tables: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the sections that matter, as they come back from a journal."""
    plain: dict[str, Any] = json.loads(json.dumps({key: tables[key] for key in tables if key not in _BESIDE}))
    return plain


def _describe_rest(data_dir: str | None, *, allows_code: bool) -> list[str]:
    return [*(["--data-dir", data_dir] if data_dir else []), *(["--allow-code"] if allows_code else [])]
