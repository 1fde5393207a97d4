"""What a profile records: the readings of a step's phases and layers, before any statistics."""

import dataclasses
from typing import Literal

from tfbench.schema import PositiveNumber, schema

# Functions that are timed, each with what the one before it does, and more: a phase is the
# difference of two.
PHASES: tuple[Literal["forward", "backward", "update"], ...] = ("forward", "backward", "update")
CALLS = ("dispatch", *PHASES)
# Beside them "keras", Keras's own training step on batches at hand; "full", the same as `fit` runs
# it with its input pipeline; "take", taking a batch that is ready; and "pipeline", making one with
# nothing else going on.
# beside the journal, and among the artifacts: what TensorBoard and XProf are pointed at
TRACE_FOLDER = "trace"


@schema
class ProfileRequest:
    """What is to be found out of a recipe's step, in a measuring process of its own.

    "step": its phases and layers. "trace": the framework's own trace of it.
    """

    kind: Literal["step", "trace"] = "step"
    seconds: float = 20.0  # after which no more rounds are begun, once there are enough


@schema
class ProfiledLayer:
    """One use of a layer.

    Bytes are those that a step must move at least: each tensor of its batch once, in its dtype.
    `flops_per_sample` counts the forward pass, `gradient_flops_per_sample` the gradients of its
    products that training needs, None where they are not known.
    """

    index: int
    name: str
    kind: str
    num_parameters: int
    flops_per_sample: int | None
    forward_bytes: int | None
    backward_bytes: int | None
    is_trained: bool = True  # False: no gradient goes through it
    gradient_flops_per_sample: int | None = None


@schema
class BandwidthCheck:
    """An array is added to another in place: two are read, one is written.

    `seconds` are those of the fastest round, which gives the bandwidth.
    """

    num_bytes: int  # read and written in a round
    num_rounds: int
    seconds: float

    @property
    def bytes_per_second(self) -> float:
        """The bandwidth."""
        return self.num_bytes / self.seconds


@schema
class TracedCall:
    """Calls of one function while the framework's profiler was on, all figures for one call.

    `parts` holds for how long operations ran, by what they belong to: "forward/3" and "backward/3"
    for the layer of that index, "forward/loss", "backward/loss", "update", "other". No moment is in
    two of them.

    `active_seconds`: for how long anything was at work, an operation that the trace names or not:
    TensorFlow's executor on the host, any kernel or copy on a GPU. None: not known. `on_device`:
    parts ran on a GPU, and took their own time; on the host a trace makes them longer.
    """

    seconds: PositiveNumber
    parts: dict[str, float]
    active_seconds: float | None = None
    on_device: bool = False


@schema
class ProfileRound:
    """One round: each function called several times in a row; mean seconds of a call."""

    seconds: dict[str, PositiveNumber]
    # "forward", "backward" and "update"
    traced: dict[str, TracedCall] = dataclasses.field(default_factory=dict)


@schema
class ProfiledOperation:
    """An operation of a trace; figures for one step."""

    name: str  # with the scopes that it is in, such as its layer
    kind: str  # "MatMul"
    occurrences: float
    seconds: float  # for which it ran
    own_seconds: float  # shares with what ran at the same time, so that all of them add up


@schema
class Profile:
    """All that a measuring process recorded of a profile."""

    layers: tuple[ProfiledLayer, ...] = ()
    layers_problem: str = ""  # why layers cannot be timed apart
    rounds: tuple[ProfileRound, ...] = ()
    bandwidth: BandwidthCheck | None = None
    operations: tuple[ProfiledOperation, ...] = ()
    num_traced_steps: int = 0
    traced_step_seconds: float | None = None
