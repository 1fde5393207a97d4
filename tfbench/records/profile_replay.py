"""From what a journal tells of a profile to the profile."""

from typing import Any

from tfbench.records import events
from tfbench.records.profile import Profile, ProfileRound


class ProfileReplay:
    """Rebuilds what was recorded of a profile."""

    def __init__(self) -> None:
        self._values: dict[str, Any] = {}
        self._rounds: list[ProfileRound] = []

    def apply(self, event: events.Event) -> None:
        """Takes in what is told of a profile, and nothing else."""
        match event:
            case events.LayersProfiled():
                self._values |= {"layers": event.layers, "layers_problem": event.problem}
            case events.RoundProfiled():
                self._rounds.append(event.round)
            case events.BandwidthProfiled() | events.EpochProfiled():
                self._values |= event.fields()
            case events.OperationsTraced():
                self._values |= {
                    "operations": event.operations,
                    "host_waits": event.host_waits,
                    "num_traced_steps": event.num_steps,
                    "traced_step_seconds": event.step_seconds,
                }

    def result(self) -> Profile:
        """Returns what is known so far."""
        return Profile(rounds=tuple(self._rounds), **self._values)
