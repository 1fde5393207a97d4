"""`tfbench init`: a recipe to begin with."""

import os.path
from pathlib import Path

import click
from click.shell_completion import CompletionItem

from tfbench.cli._output import echo_lines, is_stdout, write_to
from tfbench.cli._units import FILE
from tfbench.errors import RecipeError


def _complete_name(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from tfbench.recipe import registry

    names = registry.list_names("models" if param.name == "model" else "datasets")
    names.pop("keras_file", None)  # named by its file
    return [CompletionItem(name, help=text) for name, text in names.items() if name.startswith(incomplete)]


@click.command(short_help="Create a recipe file.")
@click.argument("file", type=FILE)
@click.option(
    "--model",
    metavar="NAME",
    default="mlp",
    shell_complete=_complete_name,
    help="A model of `tfbench list`, a .keras file, or a function of your own, my_package.nets:build_model.",
)
@click.option(
    "--dataset",
    metavar="NAME",
    default="mnist",
    shell_complete=_complete_name,
    help="A data set of `tfbench list`, or a function of your own, my_package.data:load_splits.",
)
@click.option("--force", is_flag=True, help="Replace a file that is there.")
def command(file: Path, model: str, dataset: str, force: bool) -> None:
    """Write a recipe of your own to begin with, its keys below what they mean.

    What you must choose is set; what you may choose stands as a comment, with its default. The recipe is checked as
    `tfbench validate` does. Whether network and data fit each other, `tfbench show` finds out, and with data of your
    own the first run. FILE - is stdout.

    \b
    tfbench init mine.toml
    tfbench init mine.toml --model lenet5 --dataset cifar10
    tfbench init mine.toml --model layers
    """
    from tfbench.recipe.registry import is_code
    from tfbench.recipe.tables import from_tables
    from tfbench.recipe.template import write_template
    from tfbench.recipe.toml_text import parse_toml
    from tfbench.wording import command_line

    if not is_stdout(file):
        if file.suffix != ".toml":
            raise click.UsageError(f"{file}: a recipe's name ends in .toml.")
        if file.exists() and not force:
            raise RecipeError(f"{file}: is there already. Use --force to replace it, or another name.")
    if model.endswith(".keras"):
        if not os.path.isfile(model):  # noqa: PTH113 - never raises
            raise RecipeError(f"--model {model}: no such file. model.save(...) writes one.")
        model = os.path.relpath(model, "." if is_stdout(file) else file.parent)
    text = write_template(model, dataset)
    from_tables(parse_toml(text), name=file.stem, source=str(file))
    write_to(file, text.encode())
    if not is_stdout(file):
        trusted = ("--allow-code",) if is_code(model) or is_code(dataset) else ()
        lines = [f"{file}: {model} on {dataset}."]
        if not is_code(dataset):  # only loading it would tell its shapes
            lines.append(f"  {command_line('show', str(file), *trusted)}")
        data = () if is_code(dataset) else ("--data", "synthetic")
        echo_lines([*lines, f"  {command_line('run', str(file), *data, *trusted)}"])
