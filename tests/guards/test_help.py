"""Every command explains itself, with an example."""

import click
import pytest
from click.testing import CliRunner

from tfbench.cli import cli

COMMANDS = cli.list_commands(click.Context(cli))


@pytest.mark.parametrize("name", COMMANDS)
def test_help_has_an_example_explains_every_option_and_fits_a_terminal_of_80_columns(
    name: str,
) -> None:
    done = CliRunner().invoke(cli, [name, "--help"], prog_name="tfbench", terminal_width=80)
    assert done.exit_code == 0, done.output
    lines = done.output.splitlines()
    assert any(line.strip().startswith(f"tfbench {name}") for line in lines)
    assert [line for line in lines if len(line) > 80] == []
    command = cli.get_command(click.Context(cli), name)
    assert (
        command
        and [p.name for p in command.params if isinstance(p, click.Option) and not p.help] == []
    )


@pytest.mark.parametrize("arguments", [[], ["--help"], ["-h"]])
def test_help_lists_every_command(arguments: list[str]) -> None:
    output = CliRunner().invoke(cli, arguments, prog_name="tfbench").output
    for name in COMMANDS:
        assert f"\n  {name} " in output
    assert "Exit codes: 0 done" in output
