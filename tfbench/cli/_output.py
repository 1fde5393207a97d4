"""What the commands that measure print at their end."""

import json
from typing import Any

import click

from tfbench.errors import ExitCode, OutputError


def echo_json(document: Any, stored: str) -> None:
    """Prints one JSON document on stdout.

    Args:
        document: Tables, lists, texts and finite numbers.
        stored: Where to find what was measured if it cannot be printed: "The run is stored as 3f2a".

    Raises:
        OutputError: It cannot be printed.
    """
    try:
        click.echo(json.dumps(document, indent=2, allow_nan=False))
    except OSError as error:
        raise OutputError(f"stdout cannot be written: {error.strerror}. {stored}.") from error


def exit_code(*, has_failed: bool, was_interrupted: bool) -> ExitCode:
    """Returns the exit code of a command that made one run or several."""
    if was_interrupted:
        return ExitCode.INTERRUPTED
    return ExitCode.RUN_FAILED if has_failed else ExitCode.DONE
