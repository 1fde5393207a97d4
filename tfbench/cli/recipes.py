"""`tfbench list`, `init` and `validate`: what there is to run, and recipes of one's own."""

import os.path
from pathlib import Path
from typing import Any

import click

from tfbench.cli._options import FILE, allow_code_option, format_option, set_option
from tfbench.cli._output import echo_json, echo_lines, echo_sections, is_stdout, require_free, write_to
from tfbench.errors import ExitCode, RecipeError, TfbenchError
from tfbench.wording import shorten, shorten_lines


@click.command("list")
@format_option
def list_command(output_format: str) -> None:
    """List the recipes, models and data sets.

    Shipped recipes are named by their name, those in recipes/ of the current folder by their path. A model or data set
    may also be a function of your own, "my_package.nets:build_model".

    \b
    tfbench list
    tfbench list --format json
    """
    contents = _list_contents()
    if output_format == "json":
        echo_json(contents)
        return
    from tfbench.report.table import Section, facts

    sections = [
        Section(heading, tables=(facts((entry["name"], entry[column]) for entry in contents[key]),))
        for heading, key, column in (
            ("Recipes", "recipes", "title"),
            ("Models", "models", "summary"),
            ("Data sets", "datasets", "summary"),
        )
    ]
    echo_sections([*sections, Section("`tfbench show RECIPE` prints a network, `tfbench run RECIPE` trains it.")])


def _list_contents() -> dict[str, list[dict[str, Any]]]:
    from tfbench.recipe import registry
    from tfbench.recipe.files import list_recipes

    return {
        "recipes": [
            {"name": name, "title": _read_title(path), "path": str(path)} for name, path in list_recipes().items()
        ],
        "models": [{"name": name, "summary": line} for name, line in registry.list_names("models").items()],
        "datasets": [{"name": name, "summary": line} for name, line in registry.list_names("datasets").items()],
    }


def _read_title(path: Path) -> str:
    """Reads the title alone: a recipe with a mistake in it must not keep the others from being listed."""
    from tfbench.recipe.toml_text import read_toml

    try:
        return shorten(str(read_toml(path)["recipe"]["title"]))
    except (RecipeError, KeyError, TypeError):
        return f"(not valid: tfbench validate {path})"


@click.command("init", short_help="Create a recipe file.")
@click.argument("file", type=FILE)
@click.option("--model", metavar="NAME", default="mlp", help="One of `tfbench list`, a .keras file, or a function.")
@click.option("--dataset", metavar="NAME", default="mnist", help="One of `tfbench list`, or a function of your own.")
def init_command(file: Path, model: str, dataset: str) -> None:
    """Write a recipe of your own to begin with, its keys below what they mean.

    What you must choose is set; what you may choose stands as a comment, with its default. Functions of your own are
    named as my_package.nets:build_model. The recipe is checked as `tfbench validate` does. Whether network and data fit
    each other, `tfbench show` finds out, and with data of your own the first run. FILE - is stdout.

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
        require_free(file)
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


@click.command("validate", short_help="Check recipes without running them.")
@click.argument("recipes", nargs=-1, required=True, metavar="RECIPE...")
@set_option
@allow_code_option
@format_option
def validate_command(
    recipes: tuple[str, ...],
    overrides: dict[str, Any],
    allows_code: bool,
    output_format: str,
) -> ExitCode:
    """Check recipes, and every configuration of their sweeps, without running them.

    All files are checked and all problems named. Exit code 2 if there is any.

    \b
    tfbench validate mnist_mlp
    tfbench validate recipes/*.toml
    tfbench validate mine.toml --set training.global_batch_size=1024
    tfbench validate mine.toml --allow-code
    tfbench validate recipes/*.toml --set training.backend=jax
    """
    problems = {recipe: _find_problems(recipe, overrides, allows_code=allows_code) for recipe in recipes}
    if output_format == "json":
        found = [{"name": name, "ok": not listed, "problems": listed} for name, listed in problems.items()]
        echo_json({"recipes": found})
    else:
        echo_lines(line for recipe, found in problems.items() for line in found or [f"{recipe}: ok"])
    return ExitCode.USAGE if any(problems.values()) else ExitCode.DONE


def _find_problems(name: str, overrides: dict[str, Any], *, allows_code: bool) -> list[str]:
    from tfbench.recipe.files import find_recipe, load_recipe
    from tfbench.runs.requests import new_request
    from tfbench.sweeps.plan import own_setup, plan_sweep

    where = ""  # errors in a file begin with its name
    try:
        recipe = load_recipe(find_recipe(name), overrides)
        where = f"{name}: "
        request = new_request(recipe, name=None, data_dir=None, allows_code=allows_code)
        plan_sweep(request, [own_setup(recipe)], [], num_rounds=1)
    except TfbenchError as error:
        return [f"{where}{line}" for line in shorten_lines(str(error)).splitlines()]
    return []
