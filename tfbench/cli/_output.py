"""What commands print, and what they write where a user wants it."""

import contextlib
import json
import shutil
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tfbench.errors import ExitCode, OutputError
from tfbench.records.whole_files import is_stream, write_output
from tfbench.wording import one_line

if TYPE_CHECKING:
    from rich.progress import Progress

    from tfbench.report.table import Section

_STDOUT = ("-", "/dev/stdout")
_spinners: list["Progress"] = []


def echo_lines(lines: Iterable[str], *, err: bool = False) -> None:
    """Prints lines, each of which stays one whatever is in it; on stderr with `err`, where they end a spinner."""
    for line in lines:
        if err and _spinners:
            _spinners[-1].stop()
        click.echo(one_line(line), err=err)


def echo_drawn(text: str) -> None:
    """Prints what a console has drawn, whose texts are clean, with the colours that it has chosen."""
    click.echo(text, nl=False, file=getattr(sys.stdout, "uncleaned", sys.stdout), color=True)


@contextlib.contextmanager
def waiting(text: str) -> Iterator[None]:
    """Shows on a terminal what is done and for how long, where nothing else is shown; elsewhere it does nothing."""
    if not (sys.stderr and sys.stderr.isatty()):
        yield
        return
    from tfbench.report.run.console import make_spinner

    with make_spinner(text) as spinner:
        _spinners.append(spinner)
        try:
            yield
        finally:
            _spinners.remove(spinner)


def terminal_width() -> int:
    """Returns the characters of a line: of the terminal, or as COLUMNS has it; into a pipe or a file, 120."""
    from tfbench.report.formats import TEXT_WIDTH

    return shutil.get_terminal_size((TEXT_WIDTH, 24)).columns


def text_width() -> int:
    """Returns the characters of a line of text, which is hard to read where it is longer than 120."""
    from tfbench.report.formats import TEXT_WIDTH

    return min(terminal_width(), TEXT_WIDTH)


def is_terminal() -> bool:
    """Says whether stdout is read by somebody at a terminal."""
    return sys.stdout is not None and sys.stdout.isatty()


def is_stdout(output: Path | str) -> bool:
    """Says whether a user wants something on stdout, which then gets nothing else."""
    return str(output) in _STDOUT


def write_to(output: Path, data: bytes) -> None:
    """Writes data where a user wants it: stdout, a file, or a pipe or device, which is never replaced.

    Raises:
        OutputError: It cannot be written there.
    """
    if is_stdout(output):
        click.echo(data, nl=False)
        return
    try:
        write_output(output, data)
    except OSError as error:
        raise OutputError(f"{output}: cannot be written: {error.strerror}.") from error


def echo_json(thing: object) -> None:
    """Prints a record, an analysis or a table as one JSON document on stdout."""
    from tfbench.report.document import document

    click.echo(json.dumps(document(thing), indent=2, allow_nan=False))


def echo_sections(sections: "Iterable[Section]", width: int | None = None, *, err: bool = False) -> None:
    """Prints sections as text, in lines of `width` characters, or of `text_width()`."""
    from tfbench.report.table import text

    echo_lines(text(sections, width or text_width()), err=err)


def require_free(path: Path, *, force: bool, what: str = "-o for another file") -> None:
    """Rejects to write over a file that is there, unless that was asked for or it is a pipe or a device.

    Args:
        path: Where something is to be written.
        force: Whether the user allows it.
        what: To use instead, for the message.

    Raises:
        OutputError: There is such a file, or a folder.
    """
    if path.is_dir():
        raise OutputError(f"{path}: is a folder. Name a file.")
    if path.exists() and not (force or is_stream(path)):
        raise OutputError(f"{path}: is there already. Use --force to overwrite it, or {what}.")


def exit_code(*, has_failed: bool, was_interrupted: bool) -> ExitCode:
    """Returns the exit code of a command that made one run or several."""
    if was_interrupted:
        return ExitCode.INTERRUPTED
    return ExitCode.RUN_FAILED if has_failed else ExitCode.DONE
