"""Which runs were made in one session, between which the level of a machine drifts little."""

from collections import defaultdict
from collections.abc import Iterable, Sequence

from tfbench.store.brief import RunBrief, host_of
from tfbench.tags import GROUP_TAG, SESSION_TAG, SWEEP_TAG

# From the end of a run to the start of the next, up to which both are of one session. A baseline of
# yesterday is not of today's.
_LARGEST_GAP_SECONDS = 3600.0


def find_sessions(briefs: Iterable[RunBrief]) -> dict[str, str]:
    """Returns the session of each run, by its id; sessions are of one machine.

    Runs are of one session where an hour or less lies between neighbours, whether one command made
    them, or several, as a sweep that was stopped and resumed at once; and where one command made
    both. Runs of older versions do not name their command: their sweep or group stands for it.
    """
    by_host = defaultdict(list)
    for brief in briefs:
        by_host[host_of(brief)].append(brief)
    sessions: dict[str, str] = {}
    for host, runs in by_host.items():
        for session in _split_at_gaps(sorted(runs, key=lambda run: run.created)):
            name = f"{session[0].run_id} on {host}"
            sessions |= {run.run_id: name for run in session}
    return sessions


def _split_at_gaps(runs: Sequence[RunBrief]) -> list[list[RunBrief]]:
    """Returns the runs of one machine, in the order in which they were made, session by session."""
    sessions: list[list[RunBrief]] = []
    commands = set[str]()
    last_end = 0.0
    for run in runs:
        command = _command_of(run)
        is_late = run.created - last_end > _LARGEST_GAP_SECONDS
        if not sessions or (is_late and command not in commands):
            sessions.append([])
            commands = set()
        sessions[-1].append(run)
        commands.add(command)
        seconds = run.seconds or run.metrics.get("elapsed_seconds") or 0.0
        last_end = max(last_end, run.created + seconds)
    return sessions


def _command_of(run: RunBrief) -> str:
    """Returns what stands for the command that made a run."""
    for tag in (SESSION_TAG, SWEEP_TAG, GROUP_TAG):
        if tag in run.tags:
            return run.tags[tag]
    return run.run_id
