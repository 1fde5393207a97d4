"""From a journal's records of a profile to the profile."""

from typing import Any

from tfbench.profile_records import (
    BandwidthCheck,
    EpochCheck,
    Profile,
    ProfiledLayer,
    ProfiledOperation,
    ProfileRound,
    VariantRound,
    VariantSetup,
)
from tfbench.schema import build


class ProfileReplay:
    """Rebuilds what was recorded of a profile."""

    def __init__(self) -> None:
        self._values: dict[str, Any] = {}
        self._rounds: list[ProfileRound] = []
        self._setups: list[VariantSetup] = []
        self._variant_rounds: list[VariantRound] = []

    def apply(self, record: dict[str, Any]) -> None:
        """Takes in one record whose kind begins with "profile_"."""
        match record["kind"]:
            case "profile_layers":
                layers = tuple(build(ProfiledLayer, layer, "layer") for layer in record["layers"])
                self._values |= {"layers": layers, "layers_problem": record["problem"]}
            case "profile_round":
                self._rounds.append(build(ProfileRound, record["round"], "round"))
            case "profile_bandwidth":
                self._values["bandwidth"] = build(BandwidthCheck, record["bandwidth"], "bandwidth")
            case "profile_epoch":
                self._values["epoch"] = build(EpochCheck, record["epoch"], "epoch")
            case "profile_operations":
                self._values |= {
                    "operations": tuple(build(ProfiledOperation, one, "operation") for one in record["operations"]),
                    "host_waits": _read_waits(record.get("host_waits")),
                    "num_traced_steps": record["num_steps"],
                    "traced_step_seconds": record["step_seconds"],
                }
            case "profile_setup":
                self._setups.append(build(VariantSetup, record["setup"], "setup"))
            case "profile_variant_round":
                self._variant_rounds.append(build(VariantRound, record["round"], "round"))

    def result(self) -> Profile:
        """Returns what is known so far."""
        return Profile(
            rounds=tuple(self._rounds),
            setups=tuple(self._setups),
            variant_rounds=tuple(self._variant_rounds),
            **self._values,
        )


def _read_waits(records: list[Any] | None) -> tuple[ProfiledOperation, ...] | None:
    """Returns None for an older profile, which did not look for any."""
    return None if records is None else tuple(build(ProfiledOperation, one, "host wait") for one in records)
