"""What the shell completes beside choices: recipes, their keys, runs, sweeps, modes and devices."""

import os
import warnings
from collections.abc import Iterable
from pathlib import Path

import click
from click.shell_completion import CompletionItem, split_arg_string

_NEWEST = "@last"


def complete_recipe(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Returns the recipes whose name begins with what was typed; the shell adds its own file names."""
    from tfbench.recipe.files import list_recipes

    return [*_items(list_recipes(), incomplete), CompletionItem(incomplete, type="file")]


def complete_run(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Returns the runs of the store whose id begins with what was typed, newest first, each with its name."""
    from tfbench.store.store import Store

    heads = Store(_store_of(ctx)).heads()
    items = [CompletionItem(head.run_id, help=head.name) for head in heads if head.run_id.startswith(incomplete)]
    return [*_items([_NEWEST], incomplete), *items]


def complete_sweep(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Returns the sweeps of the store whose id begins with what was typed, newest first."""
    from tfbench.store.store import Store
    from tfbench.store.sweep_log import list_sweeps

    return _items([_NEWEST, *list_sweeps(Store(_store_of(ctx)))], incomplete)


def complete_key(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Returns the keys that --set takes, each with its value in the recipe; without one, those of all recipes."""
    from tfbench.errors import TfbenchError
    from tfbench.recipe import files
    from tfbench.recipe.tables import list_values, to_tables

    recipe = ctx.params.get("recipe") or _typed_recipe()
    try:
        tables = to_tables(files.load_recipe(files.find_recipe(recipe or "mnist_mlp")))
    except TfbenchError:  # a recipe that is not valid says so when it is run
        return []
    left_out = {"recipe", "sweep", "reference", *(() if recipe else ("model", "dataset"))}
    values = list_values({name: table for name, table in tables.items() if name not in left_out})
    return [
        CompletionItem(f"{key}=", help=f"now {'unset' if value is None else value}")
        for key, value in values.items()
        if key.startswith(incomplete)
    ]


def complete_modes(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Returns the modes of sharing the work, behind those that were typed before the last comma."""
    from tfbench.records.scaling import MODE_STRATEGIES

    typed, comma, _ = incomplete.rpartition(",")
    return _items((f"{typed}{comma}{mode}" for mode in MODE_STRATEGIES if mode not in typed.split(",")), incomplete)


def complete_devices(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Returns the devices of this machine, behind those that were typed before the last comma."""
    from tfbench.machine.devices import count_gpus

    typed, comma, _ = incomplete.rpartition(",")
    with warnings.catch_warnings(action="ignore"):
        gpus = [f"gpu:{index}" for index in range(count_gpus())]
    names = ["cpu", "cpu:0", "cpu:1", *(["gpu", *gpus] if gpus else [])]
    return _items((f"{typed}{comma}{name}" for name in names if name not in typed.split(",")), incomplete)


def _typed_recipe() -> str:
    """Returns the recipe in the line that the shell has; click forgets arguments before an option without a value."""
    from tfbench.recipe.files import list_recipes

    recipes = list_recipes()
    words = split_arg_string(os.environ.get("COMP_WORDS", ""))[2:]
    return next((word for word in words if word in recipes or word.endswith(".toml")), "")


def _items(names: Iterable[str], incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def _store_of(ctx: click.Context) -> Path:
    return Path(ctx.params.get("store_root") or "mlruns")
