"""What a run may take, and what came of it."""

import dataclasses

from tfbench.records.run import RunResult, Summary, TrackedRun


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class RunOutcome:
    """A run that was measured, whole or in part."""

    result: RunResult
    summary: Summary
    tracked: TrackedRun | None
    was_interrupted: bool  # by a signal to this process


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class RunLimits:
    """What the measuring process may take before it is ended; None: as much as it needs."""

    timeout_seconds: float | None = None  # from its start on
    memory_bytes: int | None = None  # resident


NO_LIMITS = RunLimits()
