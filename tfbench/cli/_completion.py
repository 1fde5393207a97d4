"""What the shell completes beside choices: recipes, runs and sweeps."""

from collections.abc import Iterable
from pathlib import Path

import click
from click.shell_completion import CompletionItem

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


def _items(names: Iterable[str], incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def _store_of(ctx: click.Context) -> Path:
    return Path(ctx.params.get("store_root") or "mlruns")
