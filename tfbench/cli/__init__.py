"""The `tfbench` command, whose subcommands are imported when they are called."""

import contextlib
import importlib
import inspect
import io
import itertools
import json
import os
import re
import signal
import sys
import textwrap
import traceback
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import click

from tfbench import __version__
from tfbench.cli._output import CleanStream, clean_streams
from tfbench.errors import ExitCode, Notice, TfbenchError, did_you_mean
from tfbench.wording import shorten, shorten_lines

# The module of each command, which is imported once the command is called.
_MODULES = {
    "check": "check",
    "compare": "compare",
    "crossover": "sweep",
    "devices": "devices",
    "diff": "runs",
    "export": "runs",
    "help": "recipes",
    "import": "runs",
    "list": "recipes",
    "profile": "profile",
    "recover": "runs",
    "report": "report",
    "run": "run",
    "runs": "runs",
    "scale": "scale",
    "show": "show",
    "sweep": "sweep",
    "ui": "ui",
    "validate": "recipes",
}


class _Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(_MODULES)

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        """Finds the command that was typed, or names the nearest one."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            message = f"{error.message}{did_you_mean(args[0], _MODULES)}"
            raise click.UsageError(message, ctx) from error

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _MODULES:
            return None
        module = importlib.import_module(f"{__name__}.{_MODULES[cmd_name]}")
        return cast(click.Command, getattr(module, f"{cmd_name}_command"))


@click.group(
    cls=_Commands,
    context_settings={
        "help_option_names": ["-h", "--help"],
        "max_content_width": 100,
        "show_default": True,
    },
    epilog=(
        "Exit codes: 0 done; 1 a run failed; 2 usage, recipe, device or data error; 3 regression"
        " found; 130 interrupted (Ctrl-C, SIGTERM, SIGHUP); 141 output pipe closed."
    ),
)
@click.version_option(__version__, prog_name="tfbench")
def cli() -> None:
    """Finds the device and tf.distribute strategy that train a network fastest.

    It also says how sure that is.

    \b
    tfbench sweep --quick                    compare this machine's devices
    tfbench list                             list recipes, models and data sets
    tfbench run mnist_mlp --data synthetic   measure one training
    tfbench ui                               show the runs in MLflow
    """


def main() -> None:
    """Runs the command line.

    The only place that turns a `TfbenchError` into a message and an exit code.
    """
    clean_streams()
    try:
        _prepare_process()
        with _notices_shown():
            exit_code = cli.main(prog_name="tfbench", standalone_mode=False)
    except (click.exceptions.Abort, KeyboardInterrupt):
        exit_code = _explain("Interrupted", "Interrupted.", "Interrupted.", ExitCode.INTERRUPTED)
    except SystemExit as end:
        # Click raises 0 for a shell's completion, and 1 once nobody reads stdout any more.
        if not end.code:
            raise
        _close_stdout()
        exit_code = ExitCode.PIPE_CLOSED
    except click.ClickException as error:
        text = io.StringIO()
        error.show(text)
        shown = text.getvalue().rstrip()
        if isinstance(error, click.MissingParameter) and error.ctx:
            shown += _first_example(error.ctx.command)
        exit_code = _explain(type(error).__name__, error.format_message(), shown, error.exit_code)
    except TfbenchError as error:
        exit_code = _explain(type(error).__name__, str(error), f"Error: {error}", error.exit_code)
    except OSError as error:
        message = _describe(error)
        exit_code = _explain("OSError", message, f"Error: {message}", ExitCode.USAGE)
    sys.exit(exit_code if isinstance(exit_code, int) else ExitCode.DONE)


def _first_example(command: click.Command) -> str:
    """Returns the first example of a command's help, below a line of its own; "" without any."""
    first = re.search(r"\x08\n((?:.*\\\n)*.*)", inspect.cleandoc(command.help or ""))
    return f"\n\nFor example:\n{textwrap.indent(first[1], '  ')}" if first else ""


@contextlib.contextmanager
def _notices_shown() -> Iterator[None]:
    """Shows each warning of a command's code and of libraries once, in a line on stderr."""
    shown = set[str]()

    def show(message: Warning | str, *where: Any, **also: Any) -> None:
        if str(message) not in shown:
            shown.add(str(message))
            click.echo(f"Warning: {message}", err=True)

    with warnings.catch_warnings():
        warnings.simplefilter("always", Notice)
        warnings.showwarning = cast(Any, show)
        yield


def _prepare_process() -> None:
    """Checks what every command needs, and makes all requests to stop act alike.

    Raises:
        TfbenchError: Something of the process's surroundings cannot be used.
    """
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:  # nohup ignores SIGHUP
            signal.signal(number, signal.default_int_handler)
    try:
        folder = str(Path.cwd())
    except OSError as error:
        raise TfbenchError(
            f"the current folder cannot be used: {error.strerror}. Change to another one."
        ) from error
    for text in (folder, *sys.argv[1:]):
        if text.encode(errors="ignore").decode() != text:
            raise TfbenchError(f"{shorten(ascii(text))}: must be UTF-8 text.")
    if not os.path.isabs(os.path.expanduser("~")):  # noqa: PTH111, PTH117 - as the libraries ask
        # Else they leave files in the current folder; no command needs them.
        os.environ["HOME"] = os.devnull


def _describe(error: OSError) -> str:
    """Returns what is wrong with a file or stdout; any other error is a bug, and is raised."""
    frames = traceback.walk_tb(error.__traceback__)
    if any(frame.f_code is click.echo.__code__ for frame, _ in frames):
        _close_stdout()
        return f"stdout cannot be written: {error.strerror}."
    if isinstance(error.filename, str):
        return f"{error.filename}: {error.strerror}."
    raise error


def _explain(kind: str, message: str, text: str, exit_code: int) -> int:
    """Reports an error on stderr, and as JSON on stdout if that was asked for.

    Stdout gets nothing more if something was printed there already.
    """
    given = []
    for argument in sys.argv[1:]:
        given += [argument, argument.partition("=")[2]]
    is_asked = "--format=json" in sys.argv or ("--format", "json") in itertools.pairwise(sys.argv)
    if is_asked and isinstance(sys.stdout, CleanStream) and not sys.stdout.is_used:
        error = {"type": kind, "message": shorten_lines(message, given)}
        with contextlib.suppress(OSError):  # stderr gets the text in any case
            click.echo(json.dumps({"error": error}, indent=2))
    with contextlib.suppress(OSError):  # it may be stderr that cannot be written
        click.echo(shorten_lines(text, given), err=True)
    return exit_code


def _close_stdout() -> None:
    """Discards what is left to be written, which Python would try again when it ends."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC), sys.stdout.fileno())
