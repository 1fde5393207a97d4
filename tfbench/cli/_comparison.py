"""Which runs a command sets side by side: what `compare` and `report` share."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from tfbench.cli._completion import complete_run, complete_sweep
from tfbench.cli._settings import read_machines
from tfbench.cli._store import end_with_unreadable, store_option, warn_of_unreadable_lines

if TYPE_CHECKING:
    from tfbench.api import ComparedRuns
    from tfbench.store.store import Store

F = TypeVar("F", bound=Callable[..., Any])

_OPTIONS = (
    click.argument("runs", nargs=-1, metavar="[RUN]...", shell_complete=complete_run),
    click.option(
        "--sweep",
        metavar="ID",
        shell_complete=complete_sweep,
        help="Compare the runs of a sweep; @last is the newest one.",
    ),
    click.option("--all", "takes_all", is_flag=True, help="Compare all runs of the store."),
    click.option("--recipe", metavar="NAME", help="With --all: only runs of this recipe."),
    click.option("--baseline", metavar="ARM", help='The arm to hold others against, such as "default cpu:0".'),
    click.option("--allow-unequal", is_flag=True, help="Compare arms although they differ in what must be equal."),
    store_option,
)


class Selection(NamedTuple):
    """What the options of `selection_options` ask for."""

    runs: tuple[str, ...]
    sweep: str | None
    takes_all: bool
    recipe: str | None
    baseline: str | None
    allow_unequal: bool


def selection_options(command: F) -> F:
    """Adds the options that choose runs, and the store that they are in."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def read_comparison(store: "Store", selection: Selection) -> "ComparedRuns":
    """Sets the chosen runs side by side.

    Raises:
        UnknownNameError: There are no such runs, or no such arm.
        TrackingError: The record of the sweep, or a journal, is damaged.
    """
    from tfbench import api

    runs, sweep, takes_all, recipe, baseline, allows_unequal = selection
    if sum(map(bool, (runs, sweep, takes_all))) != 1:
        raise click.UsageError("name the runs, or a sweep (--sweep @last), or take all of them (--all).")
    if recipe and not takes_all:
        raise click.UsageError("--recipe chooses among --all.")
    compared = api.compare(
        runs or None,
        sweep=sweep,
        recipe=recipe,
        baseline=baseline,
        allows_unequal=allows_unequal,
        machines=read_machines(),
        store=store.root,
    )
    if compared.plan:
        warn_of_unreadable_lines(store, compared.plan.sweep_id)
    if not compared.comparison.rows:
        end_with_unreadable(compared.comparison.unreadable)
    return compared
