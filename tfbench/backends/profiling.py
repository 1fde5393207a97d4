"""What the measuring process asks of a framework for the profile of a step."""

from collections.abc import Callable
from typing import Any, Protocol

from tfbench.backends.placed import Placed
from tfbench.records.profile import ProfiledLayer

Call = Callable[[], None]

_POOL_BATCHES, _POOL_BYTES = 32, 64 * 2**20  # at hand, so that a step learns from more than one batch


def count_at_hand(batch_bytes: int) -> int:
    """Returns how many batches of a size are at hand for a profile."""
    return max(2, min(_POOL_BATCHES, _POOL_BYTES // batch_bytes))


class ProfiledBatches(Protocol):
    """Some batches of a recipe's data, at hand on the device of the run, over and over."""

    def iterator(self, *, num_ahead: int = 0) -> Any:
        """Returns an iterator as Keras's training function takes it: of batches on the host, without any work.

        Args:
            num_ahead: Batches that a thread has ready, as in an input pipeline; 0: there is no such thread.
        """

    def pipeline(self) -> Any:
        """Returns an iterator as Keras's training function takes it, of the recipe's own input pipeline."""

    def draw_call(self) -> Call:
        """Returns what waits for the input pipeline's next batch."""

    def copy_call(self) -> Call | None:
        """Returns what copies a batch from the host to the device, and waits for it; None: no step does that."""


class StepCalls(Protocol):
    """A compiled model's step and what it is made of, as functions without arguments.

    Each waits until the device has done it; Keras's own does so if it is asked to.
    """

    model: Any

    @property
    def num_layers(self) -> int:
        """Uses of a layer."""

    @property
    def why_not_apart(self) -> str:
        """Why its layers cannot be told apart; "": they can."""

    def call(self, upto: str) -> Call:
        """Returns one call of the step up to "dispatch", "forward", "backward" or "update"."""

    def keras_call(self, iterator: Any, *, waits: bool = False) -> tuple[Call, int]:
        """Returns one call of Keras's training function, and the steps that it does.

        Args:
            iterator: Of its batches.
            waits: Whether it ends as calls of phases do.
        """

    def take_call(self, iterator: Any) -> Call:
        """Returns one call of a function that takes a batch of an iterator, as Keras's does, and nothing else."""

    def restore(self) -> None:
        """Gives all variables the values of the beginning, those of metrics included."""

    def describe_layers(self, batch_size: int) -> list[ProfiledLayer]:
        """Returns the layers; none where they cannot be told apart."""


class Profiling(Protocol):
    """A step taken apart."""

    def build_batches(self, dataset: Any, placed: Placed) -> ProfiledBatches:
        """Takes some batches of a recipe's endless stream for profiles of its step."""

    def build_step(self, model: Any, batches: Any, placed: Placed) -> StepCalls:
        """Takes the step of a compiled model apart.

        Args:
            model: Built in the scope of one replica.
            batches: As of `build_batches`, of this back end.
            placed: Where it runs.
        """
