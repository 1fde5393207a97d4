"""`tfbench show`: a recipe's network layer by layer, or the recipe itself."""

import json
import subprocess
from typing import TYPE_CHECKING, Any

import click

from tfbench import errors
from tfbench.cli._options import allow_code_option, complete_recipe, format_option, set_option
from tfbench.cli._output import echo_json, echo_sections, log_waiting, terminal_width
from tfbench.errors import RecipeError
from tfbench.recipe import registry
from tfbench.wording import clean

if TYPE_CHECKING:
    from tfbench.recipe.sections import Recipe
    from tfbench.runs.layer_record import ModelTable

# the largest networks take 20 s on two busy cores, and TensorFlow a minute on a cold disk
_TIMEOUT_SECONDS = 300


@click.command("show", short_help="Print a network layer by layer.")
@click.argument("recipe", shell_complete=complete_recipe)
@set_option
@allow_code_option
@click.option(
    "--toml", "as_toml", is_flag=True, help="Print the recipe, with every key and its meaning."
)
@format_option
def show_command(
    recipe: str, overrides: "dict[str, Any]", allows_code: bool, as_toml: bool, output_format: str
) -> None:
    """Print a recipe's network.

    For each layer its outputs, weights, input and floating-point operations.

    RECIPE is a shipped recipe's name or a file. No data is loaded and nothing is trained. FLOPs are
    those of the forward pass, for one sample: two for each multiply-accumulate of convolutions,
    dense, locally connected, recurrent and attention layers. "training" adds the gradients: none
    for the first layer's input, none for frozen weights. "weights" leaves out biases and batch
    normalisation. The text of --toml is a recipe: start your own from it.

    \b
    tfbench show mnist_cnn
    tfbench show mnist_mlp --set 'model.hidden_units=[4000,4000]' --format json
    tfbench show mnist_mlp --toml > mine.toml
    tfbench show mnist_mlp --set model.name=lenet5 --toml > mine.toml
    tfbench show nets.py:build_model --toml > mine.toml
    """
    if as_toml and output_format == "json":
        raise click.UsageError(
            "--toml and --format json exclude each other. Leave --toml out: the JSON holds the"
            ' recipe as "recipe".'
        )
    from tfbench.recipe.files import find_recipe, load_recipe
    from tfbench.recipe.tables import list_meanings, to_tables
    from tfbench.recipe.toml_text import format_toml
    from tfbench.runs.layer_table import model_sections
    from tfbench.show.document import to_document

    resolved = load_recipe(find_recipe(recipe), overrides)
    if as_toml:
        text = clean(format_toml(to_tables(resolved), list_meanings(resolved)))
        # As bytes: it is to read back as the same recipe, addresses with all that is in them.
        click.echo(text.encode(), nl=False)
        return
    table = _ask_for_table(resolved, allows_code=allows_code or registry.is_code(recipe))
    if output_format == "json":
        echo_json(to_document(table) | {"name": resolved.name, "recipe": to_tables(resolved)})
        return
    data = registry.load("datasets", resolved.dataset.name)
    spec = data.describe(data.Config(**resolved.dataset.options))
    echo_sections(model_sections(resolved, spec, table), terminal_width())


def _ask_for_table(recipe: "Recipe", *, allows_code: bool) -> "ModelTable":
    """Asks a process of its own that builds the network without touching a GPU."""
    from tfbench.machine import children
    from tfbench.recipe.tables import require_code_allowed, to_tables

    if registry.is_code(recipe.dataset.name):
        raise RecipeError(
            "dataset.name: `tfbench show` loads no data, and needs the shapes of"
            f" {recipe.dataset.name}. To print the recipe, add --toml."
        )
    require_code_allowed(recipe, allows_code=allows_code)
    settings = {
        "CUDA_VISIBLE_DEVICES": "-1",  # a run may be using them
        "KERAS_BACKEND": "tensorflow",
        "TF_CPP_MIN_LOG_LEVEL": "2",
    }
    question = json.dumps(
        {"name": recipe.name, "tables": to_tables(recipe), "allows_code": allows_code}
    )
    try:
        log_waiting("building the network")
        child = children.ask_child(
            "tfbench.measure.layer_counts",
            question=question,
            timeout=_TIMEOUT_SECONDS,
            settings=settings,
        )
    except subprocess.TimeoutExpired as error:
        raise RecipeError(
            f"{recipe.name}: the network was not built within {_TIMEOUT_SECONDS} s. Add --toml to"
            " print the recipe without building it."
        ) from error
    return parse_report(child.stdout, child.stderr, child.returncode)


def parse_report(stdout: str, stderr: str, returncode: int) -> "ModelTable":
    """Reads what the process printed that builds the network.

    Raises:
        TfbenchError: What kept it from counting, as the class that it is.
        RecipeError: It printed no report.
    """
    from tfbench.runs.layer_record import ModelTable
    from tfbench.runs.status import describe_return
    from tfbench.schema import build

    try:
        report = json.loads(stdout.splitlines()[-1])
    except (IndexError, ValueError) as error:
        last_line = stderr.strip().rpartition("\n")[2]
        status = describe_return(returncode, last_line, "the process that builds the model")
        raise RecipeError(status.reason) from error
    if "error" in report:
        error_class = getattr(errors, report["error"]["type"], RecipeError)
        raise error_class(report["error"]["message"])
    return build(ModelTable, report, "model table")
