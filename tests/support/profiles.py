"""Profiles whose figures can be worked out by hand, for tests."""

from typing import Any

from builders import build_placement, build_recipe, build_request, build_result
from tfbench.machine.facts import PeakCheck
from tfbench.profiles.readings import (
    BandwidthCheck,
    Profile,
    ProfiledLayer,
    ProfileRequest,
    ProfileRound,
    TracedCall,
)
from tfbench.runs.record import RunResult

MS = 1e-3
CALLS = {"dispatch": 0.2, "forward": 1.2, "backward": 4.2, "update": 5.2}
# The phases of these are 0.3 input, 0.2 dispatch, 1 forward, 3 backward, 1 update, 0.4 of Keras;
# sum 5.9, full 6.
SECONDS = CALLS | {"keras": 5.9, "full": 6.0, "take": 0.5, "pipeline": 0.9}
FORWARD = {"forward/0": 0.4, "forward/1": 0.3, "forward/loss": 0.1}
BACKWARD = {"backward/0": 0.5, "backward/1": 1.8, "backward/loss": 0.3}
UPDATE = {"update": 0.7, "other": 0.1}
PARTS = {"forward": FORWARD, "backward": FORWARD | BACKWARD, "update": FORWARD | BACKWARD | UPDATE}
SLOWDOWN = 2.0  # of a call with a trace

CONV = ProfiledLayer(
    index=0,
    name="conv",
    kind="Conv2D",
    num_parameters=320,
    flops_per_sample=2_000_000,
    gradient_flops_per_sample=2_000_000,
    forward_bytes=1_000_000,
    backward_bytes=3_200_000,
)
POOL = ProfiledLayer(
    index=1,
    name="pool",
    kind="SwitchableMaxPooling2D",
    num_parameters=0,
    flops_per_sample=0,
    gradient_flops_per_sample=0,
    forward_bytes=400_000,
    backward_bytes=900_000,
)
PEAK = PeakCheck(
    size=1000, precision="float32", num_rounds=3, flops=10**9, seconds=0.01
)  # 100 GFLOP/s
BANDWIDTH = BandwidthCheck(num_bytes=10**9, num_rounds=3, seconds=0.1)  # 10 GB/s


def build_round(factor: float = 1.0, *, traced: bool = True, **milliseconds: float) -> ProfileRound:
    """Builds a round in which everything takes `factor` times as long.

    Others than the usual times by their names.
    """
    seconds = {name: factor * MS * value for name, value in (SECONDS | milliseconds).items()}
    calls = {name: build_call(name, factor) for name in PARTS} if traced else {}
    return ProfileRound(seconds=seconds, traced=calls)


def build_call(name: str, factor: float = 1.0, **parts: float) -> TracedCall:
    """Builds a traced call that takes twice as long as one without a trace.

    `parts` in ms without a trace.
    """
    scale = SLOWDOWN * factor * MS
    found = {part: scale * value for part, value in (PARTS[name] | parts).items()}
    return TracedCall(seconds=scale * CALLS[name], parts=found, active_seconds=sum(found.values()))


def build_partly_traced(rest: str, *, on_device: bool = False) -> ProfileRound:
    """Builds a round whose traces name operations for a tenth of each phase.

    0.1, 0.3 and 0.1 ms of 1, 3 and 1.

    Args:
        rest: "at work": for 0.8, 2.4 and 0.8 ms something else was, and for 0.1, 0.3 and 0.1
            nothing. "idle": nothing was for 0.9, 2.7 and 0.9. "not told": that the traces do not
            tell.
        on_device: Whether a GPU did all that.
    """
    parts = dict[str, float]()
    unnamed = 0.0
    scale = MS if on_device else SLOWDOWN * MS
    calls = {}
    for call, part, named in (
        ("forward", "forward/0", 0.1),
        ("backward", "backward/1", 0.3),
        ("update", "update", 0.1),
    ):
        parts = parts | {part: scale * named}
        unnamed = unnamed + 8 * scale * named
        active = {
            "at work": sum(parts.values()) + unnamed,
            "idle": sum(parts.values()),
            "not told": None,
        }[rest]
        calls[call] = TracedCall(
            seconds=SLOWDOWN * MS * CALLS[call],
            parts=parts,
            active_seconds=active,
            on_device=on_device,
        )
    return ProfileRound(seconds=build_round().seconds, traced=calls)


def build_profile(**fields: Any) -> Profile:
    """Builds a step's profile of two layers and three rounds, of which the first is the mean."""
    return Profile(
        **{
            "layers": (CONV, POOL),
            "rounds": (build_round(), build_round(1.1), build_round(0.9)),
            "bandwidth": BANDWIDTH,
        }
        | fields
    )


def build_profiled(profile: Profile | None = None, **fields: Any) -> RunResult:
    """Builds the result of a run with a step's profile, eight samples a step."""
    recipe = build_recipe(dataset={"data": "real"}, training={"global_batch_size": 8})
    return build_result(
        **{
            "request": build_request(recipe=recipe, profile=ProfileRequest()),
            "placement": build_placement(global_batch_size=8, per_replica_batch_size=8),
            "steps_per_epoch": 7500,
            "spans": (),
            "epochs": (),
            "peak_checks": (PEAK,),
            "profile": profile or build_profile(),
        }
        | fields
    )
