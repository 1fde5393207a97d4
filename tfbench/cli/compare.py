"""`tfbench compare`: runs side by side."""

from typing import TYPE_CHECKING, Any

import click

from tfbench.cli._options import (
    allow_unequal_option,
    complete_run,
    complete_sweep,
    stack,
    store_option,
)
from tfbench.cli._output import echo_comparison, echo_json, echo_lines, terminal_width
from tfbench.cli._store import end_with_unreadable, read_settings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tfbench.api import ComparedRuns
    from tfbench.store.store import Store

# As `api.compare` names them.
selection_options = stack(
    click.argument("runs", nargs=-1, metavar="[RUN]...", shell_complete=complete_run),
    click.option(
        "--sweep",
        metavar="ID",
        shell_complete=complete_sweep,
        help="The runs of a sweep, or @last.",
    ),
    click.option("--all", "takes_all", is_flag=True, help="All runs of the store."),
    click.option("--recipe", metavar="NAME", help="With --all: only runs of this recipe."),
    click.option(
        "--baseline", metavar="SETUP", help='Compare with this setup, such as "default cpu:0".'
    ),
    allow_unequal_option,
    store_option,
)


def read_comparison(
    store: "Store",
    runs: tuple[str, ...],
    takes_all: bool,
    sweep: str | None,
    recipe: str | None,
    **options: Any,
) -> "ComparedRuns":
    """Sets the runs side by side that `selection_options` choose.

    Raises:
        UnknownNameError: There are no such runs, or no such setup.
        TrackingError: The record of the sweep, or a journal, is damaged.
    """
    from tfbench import api

    selections = [choice for choice in (runs, sweep, takes_all) if choice]
    if len(selections) != 1:
        raise click.UsageError("Name runs, a sweep (--sweep @last), or use --all.")
    if recipe and not takes_all:
        raise click.UsageError(
            "--recipe chooses among all runs. Leave --recipe out, or use --all instead of"
            " --sweep or runs."
        )
    settings = read_settings()
    compared = api.compare(
        runs or None,
        sweep=sweep,
        recipe=recipe,
        machines=settings.machines,
        session_scatter=settings.session_scatter,
        store=store.root,
        **options,
    )
    if not compared.comparison.rows:
        end_with_unreadable(compared.comparison.unreadable)
    return compared


@click.command("compare", short_help="Compare stored runs, with a verdict.")
@selection_options
@click.option(
    "--format",
    "output_format",
    type=click.Choice(["text", "markdown", "csv", "json"]),
    default="text",
    help="csv: one line per setup and size.",
)
def compare_command(store: "Store", output_format: str, **selection: Any) -> None:
    """Compare runs, with a verdict: which setup is faster, by how much, and how sure that is.

    A setup is a strategy and its devices, such as "mirrored gpu:0,gpu:1". Each setup has a column,
    and each network size and batch size a row. RUN is an id from `tfbench runs`, its beginning, a
    run's name, or @last. Speeds are geometric means over runs, with 95 % intervals. Speed-ups are
    compared round by round if the runs took turns, as in a sweep. Setups with different XLA,
    precision, threads, versions or machine get no speed-up, unless you use --allow-unequal. --all
    shows one table per recipe; CSV and JSON hold all of them in one. For several machines, it shows
    their costs, from the prices under [machines.NAME] in config.toml.

    \b
    tfbench compare --sweep @last
    tfbench compare --sweep @last --baseline "mirrored cpu:0,cpu:1"
    tfbench compare --sweep @last --format markdown > table.md
    tfbench compare 3f2a 91bc 07de
    tfbench compare --all --recipe mnist_mlp --format csv > runs.csv
    """
    compared = read_comparison(store, **selection)
    baseline = selection["baseline"]
    recipes = compared.comparison.recipes
    # What varies in one recipe is not set in another; runs that a user named are meant to stand
    # side by side.
    if not selection["takes_all"] or len(recipes) < 2 or output_format in ("json", "csv"):
        echo_compared(store, compared, output_format, selection)
    else:
        for recipe in recipes:
            chosen = selection | {"recipe": recipe, "baseline": None}
            of_recipe = read_comparison(store, **chosen)
            if baseline in of_recipe.comparison.setups:
                chosen["baseline"] = baseline
                of_recipe = read_comparison(store, **chosen)
            click.echo(f"# {recipe}\n" if output_format == "markdown" else f"{recipe}\n")
            echo_compared(store, of_recipe, output_format, chosen)
            click.echo()
    end_with_unreadable(compared.comparison.unreadable)


def _report_command(store: "Store", compared: "ComparedRuns", selected: "Mapping[str, Any]") -> str:
    words = ["--sweep", compared.plan.sweep_id] if compared.plan else [*selected["runs"]]
    if selected.get("takes_all"):
        words.append("--all")
    if selected.get("allows_unequal"):
        words.append("--allow-unequal")
    for name in ("recipe", "baseline"):
        if selected.get(name):
            words += [f"--{name}", selected[name]]
    return store.command("report", *words)


def echo_compared(
    store: "Store", compared: "ComparedRuns", output_format: str, selected: "Mapping[str, Any]"
) -> None:
    """Prints runs side by side in a format of `compare`, as `selection_options` chose them."""
    from tfbench.comparisons.comparison_text import comparison_records, comparison_sections
    from tfbench.show.table import markdown, text

    comparison = compared.comparison
    if output_format == "json":
        echo_json(compared.document())
    elif output_format == "csv":
        click.echo(comparison_records(comparison).csv(), nl=False)
    elif output_format == "markdown":
        echo_lines(markdown(comparison_sections(comparison, compared.verdict)))
    else:
        report = _report_command(store, compared, selected)
        sections = comparison_sections(comparison, compared.verdict, report=report)
        echo_comparison(text(sections, terminal_width()))
