"""Profiles of every kind as runs of a store, for tests."""

from pathlib import Path
from typing import Any

from builders import build_recipe, build_request
from journals import write_journal
from profiles import build_profiled
from tfbench.profiles.readings import Profile, ProfiledOperation, ProfileRequest
from tfbench.runs.record import RunExit, RunRequest, RunResult
from tfbench.store.store import Store

KILLED = RunExit(status="KILLED", reason="interrupted by SIGINT")
_TRACED = Profile(
    operations=(
        ProfiledOperation(
            name="dense/MatMul", kind="MatMul", occurrences=1.0, seconds=0.004, own_seconds=0.003
        ),
    ),
    num_traced_steps=5,
    traced_step_seconds=0.01,
)


def build_profile_request(kind: Any = "step", **fields: Any) -> RunRequest:
    """Builds the request of a profile."""
    return build_request(
        **{"recipe": build_recipe(), "profile": ProfileRequest(kind=kind)} | fields
    )


def build_profile_run(request: RunRequest | None = None, **fields: Any) -> RunResult:
    """Builds a finished profile of a step, or of what else was requested.

    It holds no timings, unless it is a trace.
    """
    request = request or build_profile_request()
    found = _TRACED if request.profile and request.profile.kind == "trace" else None
    return build_profiled(**{"profile": found, "request": request, "peak_checks": ()} | fields)


def write_profile_journal(store: Store, result: RunResult) -> Path:
    """Writes the journal of a profile; one without an exit is that of a process that was killed."""
    return write_journal(
        store, result, without={"spans", "epoch"} if result.exit else {"spans", "epoch", "finished"}
    )
