"""Which runs were made in one session, between which the level of a machine drifts little."""

from collections import defaultdict
from collections.abc import Iterable

from tfbench.analysis.comparison.brief import RunBrief, host_of
from tfbench.tags import GROUP_TAG, SESSION_TAG, SWEEP_TAG

# Between two runs by hand, up to which they are of one session. A baseline of yesterday is not of
# today's.
_LARGEST_GAP_SECONDS = 3600.0


def find_sessions(briefs: Iterable[RunBrief]) -> dict[str, str]:
    """Returns the session of each run, by its id; sessions are of one machine.

    A session is one command that made several runs. Runs of older versions do not name it: those of
    one sweep, or of one group of repeats, are of one session. Runs that were made by hand, a
    command each, are of one where an hour or less lies between neighbours.
    """
    sessions = {}
    by_hand = defaultdict(list)
    for brief in briefs:
        series = brief.tags.get(SWEEP_TAG) or brief.tags.get(GROUP_TAG)
        host = host_of(brief)
        if series:
            sessions[brief.run_id] = f"{brief.tags.get(SESSION_TAG, series)} on {host}"
        else:
            by_hand[host].append(brief)
    for host, runs in by_hand.items():
        runs.sort(key=lambda run: run.created)
        first = runs[0]
        last_end = first.created
        for run in runs:
            if run.created - last_end > _LARGEST_GAP_SECONDS:
                first = run
            sessions[run.run_id] = f"{first.run_id} on {host}"
            last_end = run.created + (run.metrics.get("elapsed_seconds") or 0.0)
    return sessions
