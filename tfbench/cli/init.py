"""`tfbench init`: a recipe to begin with."""

import os.path
from pathlib import Path

import click

from tfbench.cli._output import echo_lines, is_stdout, require_free, write_to
from tfbench.cli._units import FILE
from tfbench.errors import RecipeError


@click.command(short_help="Create a recipe file.")
@click.argument("file", type=FILE)
@click.option(
    "--model",
    metavar="NAME",
    default="mlp",
    help="A model of `tfbench list`, a .keras file, or a function of your own, my_package.nets:build_model.",
)
@click.option(
    "--dataset",
    metavar="NAME",
    default="mnist",
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
        require_free(file, force=force, what="another name")
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
