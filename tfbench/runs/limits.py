"""What a run may take, and what came of it."""

import dataclasses
from typing import Any

from tfbench.records.run import RunResult, Summary, TrackedRun
from tfbench.report.run.run_document import run_document


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class RunOutcome:
    """A run that was measured, whole or in part."""

    result: RunResult
    summary: Summary
    tracked: TrackedRun | None
    was_interrupted: bool  # by a signal to this process

    def document(self) -> dict[str, Any]:
        """Returns all that is known of it, as `--format json` prints it."""
        return run_document(self.result, self.summary, self.tracked)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class RunLimits:
    """What the measuring process may take before it is ended; None: as much as it needs."""

    timeout_seconds: float | None = None  # from its start on
    memory_bytes: int | None = None  # resident


NO_LIMITS = RunLimits()
