"""What commands print, and what they write where a user wants it."""

import json
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click

from tfbench.errors import ExitCode, OutputError
from tfbench.show.formats import TEXT_WIDTH
from tfbench.store.whole_files import is_stream, write_output
from tfbench.wording import clean, one_line, without_secrets

if TYPE_CHECKING:
    from tfbench.show.table import Section


class CleanStream:
    """Passes text on without passwords, and without what a terminal would obey.

    Bytes go to `buffer` as they are.
    """

    def __init__(self, stream: TextIO) -> None:
        self.uncleaned = stream  # for what draws on the terminal, and cleans its texts itself
        self.is_used = False  # whether any text was written

    @property
    def encoding(self) -> str:
        """The stream's encoding, or UTF-8 where that is ASCII.

        Click would take ASCII for a mistake, and bypass this stream to write UTF-8.
        """
        encoding = self.uncleaned.encoding or "ascii"
        is_ascii = encoding.lower().replace("-", "") in ("ascii", "usascii", "ansi_x3.41968")
        return "utf-8" if is_ascii else encoding

    def write(self, text: str) -> int:
        """Writes, with "?" for what the stream's encoding cannot say."""
        self.is_used = True
        cleaned = clean(without_secrets(text))
        try:
            self.uncleaned.write(cleaned)
        except UnicodeEncodeError as error:
            self.uncleaned.write(cleaned.encode(error.encoding, "replace").decode(error.encoding))
        return len(text)

    def writelines(self, lines: Any) -> None:
        """Writes texts one after another."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.uncleaned, name)


def clean_streams() -> None:
    """Puts a `CleanStream` before stdout and stderr, where they are open."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is not None and not isinstance(stream, CleanStream):
            setattr(sys, name, CleanStream(stream))


def echo_lines(lines: Iterable[str], *, err: bool = False) -> None:
    """Prints lines, each of which stays one whatever is in it."""
    for line in lines:
        click.echo(one_line(line), err=err)


def echo_comparison(lines: Iterable[str], *, err: bool = False) -> None:
    """Prints lines, on a terminal with what is faster or slower in colour."""
    stream = sys.stderr if err else sys.stdout
    if stream is None or not stream.isatty():
        echo_lines(lines, err=err)
        return
    from tfbench.comparisons.speeds import color_speedups
    from tfbench.runs.console import open_console, shown

    console = open_console(stderr=err)
    for line in lines:
        console.print(color_speedups(shown(line)), soft_wrap=True)


def log(text: str) -> None:
    """Prints on stderr what happens."""
    echo_lines([text], err=True)


def echo_drawn(text: str) -> None:
    """Prints what a console has drawn and cleaned, with the colours that it has chosen."""
    click.echo(text, nl=False, file=getattr(sys.stdout, "uncleaned", sys.stdout), color=True)


def log_waiting(text: str) -> None:
    """Prints on a terminal what takes a while and shows nothing else; elsewhere nothing."""
    if sys.stderr and sys.stderr.isatty():
        log(f"{text} ...")


def terminal_width() -> int:
    """Returns the width of the terminal, or as COLUMNS has it; of a pipe or a file, 120."""
    return shutil.get_terminal_size((TEXT_WIDTH, 24)).columns


def text_width() -> int:
    """Returns the width of text, at most 120: longer lines are hard to read."""
    return min(terminal_width(), TEXT_WIDTH)


def is_stdout(output: Path | str) -> bool:
    """Says whether a user wants something on stdout, which then gets nothing else."""
    return str(output) in ("-", "/dev/stdout")


def write_to(output: Path, data: bytes) -> None:
    """Writes data to stdout, a file, or a pipe or device, which is never replaced.

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
    from tfbench.show.document import document

    click.echo(json.dumps(document(thing), indent=2, allow_nan=False))


def echo_sections(sections: "Iterable[Section]", width: int | None = None) -> None:
    """Prints sections as text, in lines of `width` characters, or of `text_width()`."""
    from tfbench.show.table import text

    echo_lines(text(sections, width or text_width()))


def require_free(path: Path) -> None:
    """Rejects a path that something has already, unless it is a pipe or a device.

    Raises:
        OutputError: There is a file of this name, or a folder.
    """
    if path.is_dir():
        raise OutputError(f"{path}: is a folder. Name a file.")
    if path.exists() and not (is_stream(path) or is_stdout(path)):
        raise OutputError(f"{path}: is there already. Name another file, or remove this one first.")


def exit_code(*, has_failed: bool, was_interrupted: bool) -> ExitCode:
    """Returns the exit code of a command that made one run or several."""
    if was_interrupted:
        return ExitCode.INTERRUPTED
    return ExitCode.RUN_FAILED if has_failed else ExitCode.DONE
