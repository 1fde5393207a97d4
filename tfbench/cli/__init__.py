"""The `tfbench` command: one file a subcommand, imported when it is called."""

import contextlib
import importlib
import os
import pkgutil
import sys
import traceback
from pathlib import Path

import click

from tfbench import __version__
from tfbench.cli._streams import clean_streams
from tfbench.errors import ExitCode, OutputError, TfbenchError


class _Commands(click.Group):
    """Finds subcommands as modules of this package; each defines `command`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        modules = pkgutil.iter_modules([str(Path(__file__).parent)])
        return sorted(module.name.rstrip("_") for module in modules if not module.name.startswith("_"))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.list_commands(ctx):
            return None
        module_name = "import_" if cmd_name == "import" else cmd_name
        command = importlib.import_module(f"{__name__}.{module_name}").command
        return command if isinstance(command, click.Command) else None


@click.group(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit codes: 0 done, 1 a run failed, 2 usage, recipe, device or data error, 3 a regression was found, "
    "130 interrupted.",
)
@click.version_option(__version__, prog_name="tfbench")
def cli() -> None:
    """Which device and which tf.distribute strategy trains this network fastest, and how sure are we?

    \b
    tfbench list                                        what there is
    tfbench run mnist_mlp --data synthetic              a measured, tracked run
    tfbench run recipes/mine.toml --strategy mirrored   a recipe of your own
    tfbench ui                                          compare the runs in MLflow
    """


def main() -> None:
    """Runs the command line; the only place that turns a `TfbenchError` into a message and an exit code."""
    clean_streams()
    try:
        exit_code = cli.main(prog_name="tfbench", standalone_mode=False)
    except click.exceptions.Abort:
        exit_code = ExitCode.INTERRUPTED
    except click.ClickException as error:
        error.show()
        exit_code = error.exit_code
    except KeyboardInterrupt:
        exit_code = ExitCode.INTERRUPTED
    except TfbenchError as error:
        if isinstance(error, OutputError):
            _close_stdout()
        click.echo(f"Error: {error}", err=True)
        exit_code = error.exit_code
    except OSError as error:  # Click itself ends in silence where the reader of a pipe has gone
        if not _is_of_echo(error):
            raise
        _close_stdout()
        with contextlib.suppress(OSError):  # it may be stderr that cannot be written
            click.echo(f"Error: stdout cannot be written: {error.strerror}.", err=True)
        exit_code = ExitCode.USAGE
    sys.exit(exit_code if isinstance(exit_code, int) else ExitCode.DONE)


def _is_of_echo(error: OSError) -> bool:
    """Says whether an error came up while something was printed."""
    return any(frame.f_code is click.echo.__code__ for frame, _ in traceback.walk_tb(error.__traceback__))


def _close_stdout() -> None:
    """Sends to nowhere what is left to be written, which Python would try again when it ends."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC), sys.stdout.fileno())
