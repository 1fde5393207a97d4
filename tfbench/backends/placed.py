"""Devices as a backend hands them over, and what it reads on them."""

from contextlib import AbstractContextManager
from typing import Any, Protocol

from tfbench.records.placement import Placement


class Placed(Protocol):
    """Devices that were resolved, ready for a model to be built on them."""

    @property
    def placement(self) -> Placement:
        """What the journal is told of them."""

    @property
    def device_names(self) -> tuple[str, ...]:
        """The devices, as the framework names them."""

    @property
    def gpu_names(self) -> tuple[str, ...]:
        """The GPUs among them, as the framework's memory statistics name them."""

    def scope(self) -> AbstractContextManager[Any]:
        """Returns the scope in which a model is built, to be trained on these devices."""


class Watch(Protocol):
    """Sees where a step runs, from `with` until it is asked."""

    def verify(self, placed: Any, model: Any) -> None:
        """Ends the watch, and makes sure that variables and step are on the devices asked for.

        Raises:
            MeasurementError: They are elsewhere.
        """
