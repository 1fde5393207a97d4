"""`tfbench help`: a command's help, or how to read results."""

from importlib.resources import files
from typing import cast

import click


@click.command("help", short_help="Explain a command, or how to read results.")
@click.argument("topic", default="")
@click.pass_context
def help_command(context: click.Context, topic: str) -> None:
    """Print the help of a command, or with `results` how to read tables and verdicts.

    \b
    tfbench help results
    tfbench help sweep
    """
    if topic == "results":
        path = files("tfbench.show").joinpath("results.txt")
        click.echo(path.read_text(encoding="utf-8"), nl=False)
        return
    main = context.find_root()
    if not topic:
        click.echo(main.command.get_help(main))
        return
    command = cast(click.Group, main.command).get_command(main, topic)
    if command is None:
        raise click.UsageError(
            f"'{topic}' is not a command. `tfbench --help` lists them; `tfbench help results` says"
            " how to read results."
        )
    click.echo(command.get_help(click.Context(command, info_name=topic, parent=main)))
