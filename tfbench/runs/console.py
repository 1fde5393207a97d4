"""What is shown of a run or a profile: a live display on a terminal, plain lines elsewhere."""

import contextlib
import dataclasses
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TextIO

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn
from rich.text import Text

from tfbench.profiles.profile_text import profile_screen
from tfbench.runs import header
from tfbench.runs.length import describe_guess, guess_seconds
from tfbench.runs.observer import Observer, TrainingProgress
from tfbench.runs.record import EpochRecord, RunResult
from tfbench.runs.run_document import run_document
from tfbench.runs.run_text import next_section, run_sections
from tfbench.runs.summary import summarize_run
from tfbench.show import formats
from tfbench.show.document import Document
from tfbench.show.table import Section, text
from tfbench.wording import cut, one_line, without_secrets

if TYPE_CHECKING:
    from tfbench.runs.stored_run import Run

_BAR_CHARACTERS = 64  # of a bar and what stands beside it
_LONG = 60.0  # seconds left, of a run that a pipe is told of
_WARMUP_REMARK = "samples/s excludes warm-up steps; epoch s includes them."
_NO_GUESS = (
    "i How long it takes is not guessed: that needs one process on CPUs, and a network whose"
    " operations are known."
)
_END = "Dry run: nothing was trained, and no run is stored."


class _PatientFile:
    """Passes text on to stdout or stderr, and falls silent once that fails: no run is lost."""

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self._is_broken = False

    def write(self, text: str) -> int:
        """Writes, with "?" for what the stream's encoding cannot say."""
        with self._guarded():
            try:
                self._file.write(text)
            except UnicodeEncodeError as error:
                self._file.write(text.encode(error.encoding, "replace").decode(error.encoding))
        return len(text)

    def flush(self) -> None:
        """Hands on what was written."""
        with self._guarded():
            self._file.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    @contextlib.contextmanager
    def _guarded(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if self._is_broken:
                return
            self._is_broken = True
            with contextlib.suppress(OSError, ValueError):
                # Python would try to write the rest when it ends.
                os.dup2(os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC), self._file.fileno())
                if self._file is getattr(sys.stdout, "uncleaned", sys.stdout) and sys.stderr:
                    sys.stderr.write(
                        f"warning: stdout cannot be written: {error.strerror}. The run goes on.\n"
                    )


class RunConsole(Observer):
    """Shows one run: on a terminal a table and a progress bar, elsewhere lines of plain text.

    The bar is drawn when it is told of progress and at no other time: a thread that draws would
    take time from the measurement beside it.

    Args:
        quiet_stdout: Whether everything goes to stderr, since stdout is kept for something else.
        is_full: Whether all there is is shown; otherwise the end is short.
        server: Address of the MLflow server that runs go to; None: into the store's own database.
        console: Writes to this instead.
    """

    def __init__(
        self,
        *,
        quiet_stdout: bool = False,
        is_full: bool = False,
        server: str | None = None,
        console: Console | None = None,
    ) -> None:
        self._console = console or open_console(stderr=quiet_stdout)
        self._server = server
        self._is_full = is_full
        self._label = ""  # of the bar
        # FORCE_COLOR makes rich call a pipe a terminal; colours may be forced on a pipe, a moving
        # bar may not.
        self._is_live = self._console.is_interactive and self._console.file.isatty()
        self._num_epochs: int | None = None  # None: not known
        self._steps_per_epoch: int | None = None
        self._progress: tuple[Progress, TaskID] | None = None
        self._first_stage: str | None = None  # "": it has been shown
        self._has_table = False  # of epochs
        self._has_told_length = False
        self._next_told = _LONG  # seconds of the first step

    def stage(self, text: str) -> None:
        """Says what is being done, for example "loading data"."""
        if self._is_live:
            self._draw_bar(0, None, details=text)
        elif self._first_stage in (None, text):
            self._first_stage = text  # shown with the next: a warning about devices comes before it
        else:
            self._print(filter(None, [self._first_stage, text]))
            self._first_stage = ""

    def ready(self, result: RunResult) -> None:
        """Says what is about to be measured, once devices, data and model are ready."""
        recipe = result.request.recipe
        if not recipe.measurement.is_limited:
            self._num_epochs = recipe.training.epochs
        self._steps_per_epoch = result.steps_per_epoch
        title, *lines = header.header_lines(result, self._console.width)
        self._print([title], style="bold")
        self._print([*lines, ""])
        if guess := describe_guess(result):
            self._print([*formats.wrap(f"i {guess}", self._console.width), ""])

    def first_step(self, seconds: float) -> None:
        """Says how long the first step has taken; without a terminal after 1, 2, 4 ... minutes."""
        if self._is_live:
            self.stage(f"first step, {formats.format_clock(seconds)} so far")
        elif seconds >= self._next_told:
            self._next_told *= 2
            self._print([f"first step, {formats.format_guess(seconds)} so far"])

    def progress(self, progress: TrainingProgress) -> None:
        """Moves the progress bar; without a terminal, says once how long the run will take."""
        rate = progress.steps_per_second
        if not self._is_live:
            is_long = progress.seconds_left is not None and progress.seconds_left > _LONG
            if is_long and rate and not self._has_told_length:
                self._has_told_length = True
                left = formats.format_guess(progress.seconds_left or 0.0)
                self._print([f"{formats.format_rate(rate)}, about {left} left"])
            return
        total = progress.total_steps
        whole = ""
        if total is not None:
            whole = f"{_percentage(progress.step, total):3} %"
        details = f"epoch {progress.epoch}"
        if self._num_epochs is not None:
            details += f"/{self._num_epochs}"
        details += f" {_percentage(progress.step_in_epoch, progress.steps_per_epoch):3} %"
        if rate is not None:
            details += f"  {formats.format_rate(rate)}"
        details += f"  {formats.format_clock(progress.seconds_left)} left"
        self._draw_bar(progress.step, total, whole=whole, details=details)

    def epoch(self, epoch: EpochRecord) -> None:
        """Adds an epoch to the table."""
        if not self._has_table:
            self._print([header.epoch_header()], style="bold")
        self._has_table = True
        self._print(header.epoch_lines(epoch, self._steps_per_epoch))

    def finish(self, run: "Run") -> None:
        """Shows how a run ended: its figures, published ones, warnings and next steps."""
        self.close()
        result = run.result
        summary = run.summary
        journal = str(run.journal)
        following = next_section(
            result, run.tracked, journal, run.files, self._server, is_full=self._is_full
        )
        if self._has_table:
            if result.request.recipe.measurement.warmup_steps:
                self._print([_WARMUP_REMARK])
            self._print([""])
        if result.request.profile:
            sections = profile_screen(result, summary, journal, following, is_whole=self._is_full)
        else:
            sections = [*run_sections(result, summary, is_full=self._is_full), following]
        first, *others = sections
        title = formats.wrap(first.title, self._console.width)
        self._print(title, style="bold green" if result.status == "FINISHED" else "bold red")
        self._print(text([dataclasses.replace(first, title="")], self._console.width))
        self.show_sections(others)

    def show_sections(self, sections: Sequence[Section]) -> None:
        """Shows sections, each below an empty line; warnings in yellow, as they say themselves."""
        for section in sections:
            is_warning = any(line.startswith(("! ", "- ")) for line in section.sentences[:1])
            if lines := text([section], self._console.width):
                self._print(["", *lines], style="yellow" if is_warning else None)

    def warning(self, text: str) -> None:
        """Says what the user should know, without stopping the display."""
        self._print(self._fit(f"warning: {text}"), style="yellow")

    def close(self) -> None:
        """Takes the bar off the screen. Needed on every way out; harmless when called twice."""
        if self._progress:
            self._progress[0].stop()
            self._progress = None

    def _fit(self, text: str) -> list[str]:
        """Returns a text in lines that suit a terminal, elsewhere in one line, for programs."""
        if not self._is_live:
            return [text]
        return formats.wrap_message(text, self._console.width).split("\n")

    def _draw_bar(self, step: int, total: int | None, *, whole: str = "", details: str) -> None:
        fields: dict[str, Any] = {
            "completed": step,
            "total": total,
            "whole": whole,
            "details": shown(details).plain,
        }
        if self._progress:
            bar, task = self._progress
            bar.update(task, **fields, refresh=True)
            return
        label = cut(shown(self._label).plain, max(3, self._console.width - _BAR_CHARACTERS))
        bar = Progress(
            TextColumn("{task.description}", markup=False),
            TextColumn("{task.fields[whole]}", markup=False),
            BarColumn(bar_width=max(10, min(40, self._console.width - 62 - len(label)))),
            TextColumn("{task.fields[details]}", markup=False),
            console=self._console,
            auto_refresh=False,
            transient=True,
            # what others print to a stdout that is not ours stays there
            redirect_stdout=not self._console.stderr,
        )
        self._progress = (bar, bar.add_task(label, **fields))
        bar.start()

    def _print(self, lines: Iterable[str], *, style: str | None = None) -> None:
        # as Text, since a path or a title is shown as it is, and a style stays off the bar below
        for line in lines:
            self._console.print(shown(line, style), soft_wrap=True)


class BeginningConsole(RunConsole):
    """Shows what a run is, and ends it once it is ready to train."""

    class Reached(Exception):  # noqa: N818 - no error: it ends the run as a stop does
        """The run is ready."""

    result: RunResult | None = None  # once it is ready

    def ready(self, result: RunResult) -> None:
        """Shows the run, and ends it."""
        super().ready(result)
        if guess_seconds(result) is None:
            self._print([_NO_GUESS, ""])
        self._print([_END])
        self.result = result
        raise self.Reached

    def finish(self, run: "Run") -> None:
        """Says why a run ended before it was ready."""
        self.close()
        self._print([f"{run.status}: {run.reason}"], style="bold red")


def beginning_document(result: RunResult) -> Document:
    """Returns the document of a run that is ready, with how long it may take in seconds."""
    document = run_document(result, summarize_run(result), None)
    return document | {"status": "DRY_RUN", "guessed_seconds": guess_seconds(result)}


def shown(line: str, style: str | None = None) -> Text:
    """Returns a line for a console, without what a terminal would obey."""
    return Text(one_line(without_secrets(line)), style=style or "")


def open_console(*, stderr: bool) -> Console:
    """Returns a console on stdout or stderr; a write that fails costs a warning, but no run."""
    stream = sys.stderr if stderr else sys.stdout
    # What rich draws with is obeyed; texts are cleaned as they come.
    stream = getattr(stream, "uncleaned", stream)
    file: Any = _PatientFile(stream) if stream else None  # None: closed by the caller
    # rich takes 80 for what is no terminal.
    knows_width = "COLUMNS" in os.environ or (file and file.isatty())
    width = None if knows_width else formats.TEXT_WIDTH
    return Console(file=file, stderr=stderr, width=width)


def _percentage(part: int, whole: int) -> int:
    return min(100, 100 * part // whole) if whole else 0
