"""What the shell completes beside choices: recipes, runs and sweeps."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

if TYPE_CHECKING:
    from tfbench.store.store import Store

_NEWEST = "@last"


def complete_recipe(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Returns the recipes whose name begins with what was typed; the shell adds its own file names."""
    from tfbench.recipe.files import list_recipes

    return [*_items(list_recipes(), incomplete), CompletionItem(incomplete, type="file")]


def complete_run(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Returns the runs of the store whose id begins with what was typed, newest first, each with its name."""
    heads = [head for head in _store_of(ctx).heads() if head.run_id.startswith(incomplete)]
    items = [CompletionItem(head.run_id, help=head.name) for head in heads]
    return [*_items([_NEWEST], incomplete), *items]


def complete_sweep(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Returns the sweeps of the store whose id begins with what was typed, newest first."""
    from tfbench.store.sweep_log import list_sweeps

    return _items([_NEWEST, *list_sweeps(_store_of(ctx))], incomplete)


def _items(names: Iterable[str], incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def _store_of(ctx: click.Context) -> "Store":
    from tfbench.store.store import Store

    return ctx.params.get("store") or Store(Path("mlruns"))
