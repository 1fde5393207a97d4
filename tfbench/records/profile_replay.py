"""From what a journal tells of a profile to the profile."""

from typing import Any

from tfbench.records import events
from tfbench.records.profile import Profile, ProfileRound, VariantRound, VariantSetup


class ProfileReplay:
    """Rebuilds what was recorded of a profile."""

    def __init__(self) -> None:
        self._values: dict[str, Any] = {}
        self._rounds: list[ProfileRound] = []
        self._setups: list[VariantSetup] = []
        self._variant_rounds: list[VariantRound] = []

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
            case events.VariantSetUp():
                self._setups.append(event.setup)
            case events.VariantsTimed():
                self._variant_rounds.append(event.round)

    def result(self) -> Profile:
        """Returns what is known so far."""
        return Profile(
            rounds=tuple(self._rounds),
            setups=tuple(self._setups),
            variant_rounds=tuple(self._variant_rounds),
            **self._values,
        )
