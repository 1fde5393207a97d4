"""What `tfbench profile` shows of a profile: how far it has come, and what it found."""

import shlex
from collections.abc import Sequence
from pathlib import Path

from tfbench.records.journal import files_folder
from tfbench.records.profile import TRACE_FOLDER
from tfbench.records.run import RunResult, Summary, TrackedRun
from tfbench.report.profile import profiles
from tfbench.report.profile.operations import trace_section
from tfbench.report.profile.sentences import next_command
from tfbench.report.run.console import RunConsole
from tfbench.report.run.sections import next_section, short_warnings, status_line
from tfbench.report.table import Section, text, warnings_section
from tfbench.wording import command_line, store_of


class ProfileConsole(RunConsole):
    """Shows one profile. Once it measures, a bar on a terminal that is drawn only when there is something new."""

    _has_begun = False

    def stage(self, text: str) -> None:
        """Says what is done; with a spinner until measuring has begun, which the thread that turns it would disturb."""
        if self._is_live and self._has_begun:
            self._draw_bar(0, None, details=text)
        else:
            super().stage(text)

    def ready(self, result: RunResult) -> None:
        """Says what is about to be measured, once devices, data and model are ready."""
        self._has_begun = True
        super().ready(result)

    def profile_round(self, number: int, seconds_left: float, seconds: float) -> None:
        """Says on a terminal which round is done."""
        if self._is_live:
            left = f"{seconds_left:.0f} s left of {seconds:g}" if seconds_left else "the last ones"
            self._draw_bar(0, None, details=f"timing, round {number}, {left}")

    def finish(
        self,
        result: RunResult,
        summary: Summary,
        tracked: TrackedRun | None,
        store_hint: str,
        files: Sequence[str] = (),
    ) -> None:
        """Shows the bottleneck, which is the answer, then the tables, what to be careful about, and where it all is."""
        self.close()
        is_whole, backend = self._detail == "full", result.request.recipe.training.backend
        if result.status != "FINISHED":
            self._print([status_line(result), ""], style="bold red")
        first, *sections = profiles.show_profile(result, is_whole=is_whole) or [Section("")]
        self._print(text([first], self.width), style="bold")
        told = profiles.add_warnings(result, summary)
        if is_whole:
            sections += [warnings_section(told.warnings)] if told.warnings else []
            sections.append(next_section(result, tracked, store_hint, files, self._server, is_full=True))
        else:
            following = next_section(result, tracked, store_hint, files, self._server)
            if words := next_command(result):
                command = command_line(*words, store=store_of(store_hint))
                following = Section("", code=f"{following.code}\n  {'Try':10}  {command}")
            sections += [*short_warnings(result, told.warnings), following]
        trace = files_folder(Path(store_hint)) / TRACE_FOLDER
        self.show_sections([*sections, *([trace_section(shlex.quote(str(trace)), backend)] if trace.is_dir() else [])])
