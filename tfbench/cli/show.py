"""`tfbench show`: a recipe's network layer by layer, the recipe itself, or what was in effect in a run."""

from typing import TYPE_CHECKING, Any

import click

from tfbench.cli._options import (
    allow_code_option,
    format_option,
    require_absent,
    set_option,
    store_option,
)
from tfbench.cli._output import echo_json, echo_sections, terminal_width, waiting

if TYPE_CHECKING:
    from tfbench.recipe.sections import Recipe
    from tfbench.records.model_table import ModelTable
    from tfbench.store.store import Store

_TIMEOUT_SECONDS = 300  # the largest networks take 20 s on two busy cores, and TensorFlow a minute on a cold disk


@click.command("show", short_help="Print a network layer by layer, or the settings of a run.")
@click.argument("recipe", required=False)
@click.option("--effective", "run", metavar="RUN", help="Print what was in effect in a run.")
@set_option
@allow_code_option
@click.option("--toml", "as_toml", is_flag=True, help="Print the recipe with every default.")
@store_option
@format_option
def show_command(
    recipe: str | None,
    run: str | None,
    overrides: "dict[str, Any]",
    allows_code: bool,
    as_toml: bool,
    store: "Store",
    output_format: str,
) -> None:
    """Print a recipe's network: for each layer its outputs, weights, input and floating-point operations.

    RECIPE is a shipped recipe's name or a file. No data is loaded and nothing is trained. FLOPs are those of the
    forward pass, for one sample: two for each multiply-accumulate of convolutions, dense, locally connected and
    recurrent layers. "training" adds the gradients: none for the first layer's input, none for frozen weights.
    "weights" leaves out biases and batch normalisation. With --toml, the text is itself a recipe.

    With --effective, a run (the beginning of an id, a name, or @last) takes the place of RECIPE: strategy, devices,
    XLA, precision, layout, threads and the like as read back from the framework, what differs from the recipe, and
    which counters of energy could be read.

    \b
    tfbench show mnist_cnn
    tfbench show mnist_mlp --set 'model.hidden_units=[4000,4000]' --format json
    tfbench show mnist_mlp --set training.epochs=3 --toml > mine.toml
    tfbench show --effective @last
    """
    if run is not None:
        require_absent("--effective shows a run as it was", "recipe", "overrides", "allows_code", "as_toml")
        _show_effective(run, store, output_format)
        return
    if recipe is None:
        raise click.UsageError(
            "Missing argument 'RECIPE'. `tfbench list` shows the recipes; --effective RUN is for a run."
        )
    require_absent("only --effective looks for runs", "store")
    if as_toml and output_format == "json":
        raise click.UsageError('--toml and --format json exclude each other; the JSON holds the recipe as "recipe".')
    from tfbench.recipe.files import find_recipe, load_recipe
    from tfbench.recipe.registry import is_code

    resolved = load_recipe(find_recipe(recipe), overrides)
    if as_toml:
        from tfbench.recipe.tables import to_tables
        from tfbench.recipe.toml_text import format_toml
        from tfbench.wording import clean

        # As bytes: it is to read back as the same recipe, addresses with all that is in them.
        click.echo(clean(format_toml(to_tables(resolved))).encode(), nl=False)
    else:
        _show_layers(resolved, _ask_for_table(resolved, allows_code=allows_code or is_code(recipe)), output_format)


def _show_effective(run: str, store: "Store", output_format: str) -> None:
    from tfbench.analysis.run.effective import list_effective
    from tfbench.report.document import to_plain
    from tfbench.report.run.costs import energy_document, source_section
    from tfbench.report.run.sections import effective_section
    from tfbench.runs.run import read_stored

    result = read_stored(store, run).result
    values = list_effective(result)
    if output_format == "json":
        request = result.request
        settings = {value.name: to_plain(value, without=("name",)) for value in values}
        echo_json({"id": request.run_id, "name": request.name, "settings": settings, "energy": energy_document(result)})
        return
    sections = [effective_section(result, values), *([source] if (source := source_section(result)) else [])]
    echo_sections(sections, terminal_width())


def _show_layers(recipe: "Recipe", table: "ModelTable", output_format: str) -> None:
    from tfbench.recipe import registry

    if output_format == "json":
        from tfbench.recipe.tables import to_tables
        from tfbench.report.document import to_plain

        echo_json(to_plain(table) | {"name": recipe.name, "recipe": to_tables(recipe)})
        return
    from tfbench.report.run.layer_table import model_sections

    data = registry.load("datasets", recipe.dataset.name)
    spec = data.describe(data.Config(**recipe.dataset.options))
    echo_sections(model_sections(recipe, spec, table), terminal_width())


def _ask_for_table(recipe: "Recipe", *, allows_code: bool) -> "ModelTable":
    """Asks a process of its own, which builds the network without touching a GPU."""
    import json
    import subprocess

    from tfbench.errors import RecipeError
    from tfbench.machine import children
    from tfbench.recipe.registry import is_code
    from tfbench.recipe.tables import require_code_allowed, to_tables
    from tfbench.records.model_table import parse_report

    if is_code(recipe.dataset.name):
        raise RecipeError(
            f"dataset.name: only loading the data of {recipe.dataset.name} would tell its shapes, and `tfbench show` "
            "loads none. `tfbench show --toml` prints the recipe."
        )
    require_code_allowed(recipe, allows_code=allows_code)
    settings = {
        "CUDA_VISIBLE_DEVICES": "-1",  # a run may be using them
        "KERAS_BACKEND": "tensorflow",
        "TF_CPP_MIN_LOG_LEVEL": "2",
    }
    question = json.dumps({"name": recipe.name, "tables": to_tables(recipe), "allows_code": allows_code})
    try:
        with waiting("building the network"):
            done = children.ask(
                "tfbench.worker.model_table", question=question, timeout=_TIMEOUT_SECONDS, settings=settings
            )
    except subprocess.TimeoutExpired as error:
        raise RecipeError(
            f"{recipe.name}: the network was not built within {_TIMEOUT_SECONDS} s. `tfbench show --toml` prints the "
            "recipe without building it."
        ) from error
    return parse_report(done.stdout, done.stderr, done.returncode)
