"""The columns of runs, and the machines that they were made on: rounds of two machines have no common column."""

from collections.abc import Mapping, Sequence

from tfbench.analysis.comparison.brief import RunBrief
from tfbench.records.sweep import AGAIN, SETUP_TAG, SWEEP_TAG

_SIGN = "@"  # before the name of a machine in the label of a setup


def host_of(brief: RunBrief) -> str:
    """Returns the host name of the machine that a run was made on; "" where it never got so far."""
    return str(brief.settings.get("hostname") or "")


def machine_in(label: str) -> str:
    """Returns the machine that the label of a setup names: "a100" of "default gpu:0 @a100"; "" where it names none."""
    return next((word.removeprefix(_SIGN) for word in label.split() if word.startswith(_SIGN)), "")


def machine_of(brief: RunBrief) -> str:
    """Returns what the machine of a run is called: as its setup names it, else by its host name."""
    return machine_in(brief.tags.get(SETUP_TAG, "")) or host_of(brief) or "unknown"


def setup_of(brief: RunBrief) -> str:
    """Returns the column that a run belongs to: as the sweep names it, else its strategy and devices."""
    return brief.tags.get(SETUP_TAG, brief.setup) if SWEEP_TAG in brief.tags else brief.setup


def name_setups(briefs: Sequence[RunBrief], *, is_planned: bool) -> dict[str, str]:
    """Returns the column of each run; where runs are of several machines, it names the machine, if it does not anyway.

    The setups of a sweep keep their names: one that was resumed elsewhere, as in a container with a host name of its
    own, has settings of this machine and of that one.
    """
    hosts = {brief.run_id: host_of(brief) for brief in briefs}
    names = {brief.run_id: setup_of(brief) if is_planned else name_alone(brief) for brief in briefs}
    if is_planned or len(set(hosts.values())) < 2:
        return names
    return {run_id: name if machine_in(name) else f"{name} on {hosts[run_id]}" for run_id, name in names.items()}


def name_alone(brief: RunBrief) -> str:
    """Returns the column of a run beside others than its sweep's, where each is to say its backend, and one way."""
    words = [word for word in setup_of(brief).split() if word not in ("backend=tensorflow", AGAIN)]
    own = f"backend={brief.backend}"
    return " ".join([*words, *([own] if brief.backend != "tensorflow" and own not in words else [])])


def choose_hosts(runs: Mapping[str, Sequence[RunBrief]]) -> dict[str, str]:
    """Returns for each setup of a setting the host whose runs count.

    Setups are compared within a machine: those that name the same one, or none, get the host that most of them ran on;
    of several the one with most runs, then that of the newest run. A setup without a run there gets a host of its own.

    Args:
        runs: Of each setup.
    """
    groups: dict[str, list[str]] = {}
    for setup in runs:
        groups.setdefault(machine_in(setup), []).append(setup)
    chosen: dict[str, str] = {}
    for setups in groups.values():
        shared = _most_telling([runs[setup] for setup in setups])
        for setup in setups:
            is_there = any(host_of(run) == shared for run in runs[setup])
            chosen[setup] = shared if is_there else _most_telling([runs[setup]])
    return chosen


def _most_telling(setups: Sequence[Sequence[RunBrief]]) -> str:
    def order(host: str) -> tuple[int, int, float]:
        own = [[run for run in runs if host_of(run) == host] for runs in setups]
        newest = max(run.created for runs in own for run in runs)
        return sum(map(bool, own)), sum(map(len, own)), newest

    return max({host_of(run): None for runs in setups for run in runs}, key=order, default="")
