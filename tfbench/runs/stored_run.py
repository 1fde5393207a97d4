"""A run: what it may take, what came of it, and how a store's runs are read.

One is read as a whole; all are listed as plain rows.
"""

import dataclasses
from pathlib import Path
from typing import Any, NamedTuple

from tfbench.errors import TrackingError
from tfbench.runs.record import RunResult, Summary, TrackedRun
from tfbench.runs.run_document import run_document
from tfbench.runs.status import deduce_exit
from tfbench.store.brief import RunBrief, make_brief
from tfbench.store.index import read_briefs, summarize_stored
from tfbench.store.journal import read_replay
from tfbench.store.liveness import is_running, may_be_running
from tfbench.store.store import Store
from tfbench.tracking.run_files import list_files

# Of a run as a plain row; `created` in seconds since 1970, UTC.
_ROW = (
    "run_id",
    "name",
    "recipe",
    "created",
    "status",
    "reason",
    "setup",
    "strategy",
    "devices",
    "hardware",
    "is_synthetic",
    "profile",
    "warnings",
)


class RunLimits(NamedTuple):
    """What the measuring process may take before it is ended; None: as much as it needs."""

    timeout_seconds: float | None = None  # from its start on
    memory_bytes: int | None = None  # resident


NO_LIMITS = RunLimits()


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class Run:
    """A run that was measured, whole or in part, with its figures and where it is."""

    result: RunResult
    summary: Summary
    tracked: TrackedRun | None  # where it stands in MLflow; None: it does not
    journal: Path
    was_interrupted: bool = False  # by a signal to this process, which made it

    def __repr__(self) -> str:
        return (
            f"<{type(self).__name__} {self.run_id[:12]} of {self.result.request.recipe.name}:"
            f" {self.status}>"
        )

    @property
    def run_id(self) -> str:
        """Its id, by which every command finds it."""
        return self.result.request.run_id

    @property
    def status(self) -> str:
        """FINISHED, FAILED or KILLED; RUNNING while it is under way."""
        return self.result.status

    @property
    def reason(self) -> str:
        """Why it ended so; "" where there is nothing to say."""
        return self.result.reason

    @property
    def metrics(self) -> dict[str, float | None]:
        """Its figures by name; units are in the names, None: it does not exist."""
        return self.summary.metrics

    @property
    def is_finished(self) -> bool:
        """Whether it was measured to its end."""
        return self.status == "FINISHED"

    @property
    def samples_per_second(self) -> float | None:
        """Its speed, if it has finished and has one."""
        if not self.is_finished:
            return None
        return self.metrics.get("samples_per_second")

    @property
    def warnings(self) -> tuple[str, ...]:
        """What to know before its figures are believed."""
        return self.summary.warnings

    @property
    def notes(self) -> tuple[str, ...]:
        """What was asked for that limits its figures, such as synthetic data."""
        return self.summary.notes

    @property
    def files(self) -> list[str]:
        """What it left besides its journal: its model, and the picture of it."""
        return [str(path) for path in list_files(self.journal)]

    def document(self) -> dict[str, Any]:
        """Returns all that is known of it, as `tfbench runs ID --format json` prints it."""
        return run_document(self.result, self.summary, self.tracked)

    def row(self) -> dict[str, Any]:
        """Returns it as a plain row, as `list_rows` does."""
        return _row(make_brief(self.result, self.summary, journal_bytes=0))


def read_stored(store: Store, token: str) -> Run:
    """Reads a run as far as its journal goes.

    A run that is over although nobody wrote down its end gets the likely one.

    Args:
        store: Where it is.
        token: The beginning of its id, a run's name, or "@last".

    Raises:
        UnknownNameError: No run, or more than one, is meant.
        TrackingError: Its journal is damaged.
    """
    run_id = store.find(token)
    journal = store.journal_path(run_id)
    replay = read_replay(journal)
    result = replay.result()
    state = store.read_state(run_id)
    if not (result.exit or may_be_running(journal, replay)):
        result = dataclasses.replace(result, exit=deduce_exit(result))
    summary = summarize_stored(result, journal)
    return Run(
        result=result, summary=summary, tracked=state.run if state else None, journal=journal
    )


def read_predecessor(store: Store, token: str) -> Run:
    """Reads a run that is to be gone on with.

    Raises:
        UnknownNameError: No run, or more than one, or a profile is meant.
        TrackingError: It has not ended, or its journal is damaged.
    """
    run = read_stored(store, store.find(token, trained=True))
    if is_running(run.journal):
        raise TrackingError(
            f"run {run.run_id} is still running. Wait for its end, or stop it (Ctrl-C) first."
        )
    return run


def list_rows(store: Store, *, recipe: str | None = None) -> list[dict[str, Any]]:
    """Returns the runs of a store that are over as plain rows, oldest first.

    Args:
        store: Where they are.
        recipe: Only runs of this recipe, as far as they can be read; None: of all.

    Returns:
        A row a run, of texts, numbers, flags and None; lists only where a configuration is one. Its
        figures stand under their names, its recipe's values under dotted keys
        ("training.global_batch_size"). Last those that cannot be read: of the status UNREADABLE,
        with why under "reason".
    """
    briefs, unreadable = read_briefs(store, store.run_ids())
    briefs = [brief for brief in briefs if recipe in (None, brief.recipe)]
    briefs.sort(key=lambda brief: brief.created)
    rows = list(map(_row, briefs))
    for run_id, reason in unreadable.items():
        rows.append({"run_id": run_id, "status": "UNREADABLE", "reason": reason})
    return rows


def _row(brief: RunBrief) -> dict[str, Any]:
    plain = {name: getattr(brief, name) for name in _ROW}
    plain |= {"devices": ",".join(brief.devices), "hardware": ", ".join(brief.hardware)}
    return plain | {"warnings": "\n".join(brief.warnings)} | brief.metrics | brief.settings
