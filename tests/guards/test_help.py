"""Every command explains itself, with an example."""

import click
import pytest
from click.testing import CliRunner

from tfbench.cli import cli

COMMANDS = cli.list_commands(click.Context(cli))


@pytest.mark.parametrize("name", COMMANDS)
def test_help_holds_an_example(name: str) -> None:
    done = CliRunner().invoke(cli, [name, "--help"], prog_name="tfbench")
    assert done.exit_code == 0, done.output
    examples = [line for line in done.output.splitlines() if line.strip().startswith(f"tfbench {name}")]
    assert examples, f"no line of the help begins with 'tfbench {name}'"


@pytest.mark.parametrize("name", COMMANDS)
def test_help_fits_a_terminal_of_80_columns(name: str) -> None:
    output = CliRunner().invoke(cli, [name, "--help"], prog_name="tfbench", terminal_width=80).output
    assert [line for line in output.splitlines() if len(line) > 80] == []


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_is_explained(name: str) -> None:
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    bare = [p.name for p in command.params if isinstance(p, click.Option) and not p.help]
    assert bare == []


@pytest.mark.parametrize("arguments", [[], ["--help"], ["-h"]])
def test_help_lists_every_command(arguments: list[str]) -> None:
    output = CliRunner().invoke(cli, arguments, prog_name="tfbench").output
    for name in COMMANDS:
        assert f"\n  {name} " in output
    assert "Exit codes: 0 done" in output
