"""Which runs a command sets side by side: what `compare` and `report` share."""

from typing import TYPE_CHECKING

import click

from tfbench.cli._completion import complete_run, complete_sweep
from tfbench.cli._options import stack, store_option
from tfbench.cli._settings import read_machines
from tfbench.cli._store import end_with_unreadable, warn_of_unreadable_lines

if TYPE_CHECKING:
    from tfbench.api import ComparedRuns
    from tfbench.store.store import Store

selection_options = stack(
    click.argument("runs", nargs=-1, metavar="[RUN]...", shell_complete=complete_run),
    click.option("--sweep", metavar="ID", shell_complete=complete_sweep, help="The runs of a sweep, or @last."),
    click.option("--all", "takes_all", is_flag=True, help="All runs of the store."),
    click.option("--recipe", metavar="NAME", help="With --all: only runs of this recipe."),
    click.option("--baseline", metavar="ARM", help='Compare with this arm, such as "default cpu:0".'),
    click.option("--allow-unequal", is_flag=True, help="Compare arms although they differ in what must be equal."),
    store_option,
)


def read_comparison(
    store: "Store",
    *,
    runs: tuple[str, ...],
    sweep: str | None,
    takes_all: bool,
    recipe: str | None,
    baseline: str | None,
    allow_unequal: bool,
) -> "ComparedRuns":
    """Sets the runs side by side that the options of `selection_options` choose.

    Raises:
        UnknownNameError: There are no such runs, or no such arm.
        TrackingError: The record of the sweep, or a journal, is damaged.
    """
    from tfbench import api

    if sum(map(bool, (runs, sweep, takes_all))) != 1:
        raise click.UsageError("name the runs, or a sweep (--sweep @last), or take all of them (--all).")
    if recipe and not takes_all:
        raise click.UsageError("--recipe chooses among --all.")
    compared = api.compare(
        runs or None,
        sweep=sweep,
        recipe=recipe,
        baseline=baseline,
        allows_unequal=allow_unequal,
        machines=read_machines(),
        store=store.root,
    )
    if compared.plan:
        warn_of_unreadable_lines(store, compared.plan.sweep_id)
    if not compared.comparison.rows:
        end_with_unreadable(compared.comparison.unreadable)
    return compared
