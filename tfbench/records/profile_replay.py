"""From a journal's records of a profile to the profile."""

from typing import Any

from tfbench.records.journal_format import read_fields
from tfbench.records.lines import Record
from tfbench.records.profile import Profile, ProfileRound, VariantRound, VariantSetup


class ProfileReplay:
    """Rebuilds what was recorded of a profile."""

    def __init__(self) -> None:
        self._values: dict[str, Any] = {}
        self._rounds: list[ProfileRound] = []
        self._setups: list[VariantSetup] = []
        self._variant_rounds: list[VariantRound] = []

    def apply(self, record: Record) -> None:
        """Takes in one record whose kind begins with "profile_"."""
        fields = read_fields(record)
        match record["kind"]:
            case "profile_layers":
                self._values |= {"layers": fields["layers"], "layers_problem": fields["problem"]}
            case "profile_round":
                self._rounds.append(fields["round"])
            case "profile_bandwidth" | "profile_epoch":
                self._values |= fields
            case "profile_operations":
                self._values |= {
                    "operations": fields["operations"],
                    "host_waits": fields["host_waits"],  # None: an older profile, which did not look for any
                    "num_traced_steps": fields["num_steps"],
                    "traced_step_seconds": fields["step_seconds"],
                }
            case "profile_setup":
                self._setups.append(fields["setup"])
            case "profile_variant_round":
                self._variant_rounds.append(fields["round"])

    def result(self) -> Profile:
        """Returns what is known so far."""
        return Profile(
            rounds=tuple(self._rounds),
            setups=tuple(self._setups),
            variant_rounds=tuple(self._variant_rounds),
            **self._values,
        )
