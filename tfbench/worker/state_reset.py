"""When the state that recurrent layers carry from batch to batch is set back to zero."""

from typing import Any

import keras
import numpy as np
import numpy.typing as npt

from tfbench import backends


class StateReset(keras.callbacks.Callback):  # type: ignore[misc]  # Keras has no types
    """Lets evaluations start from zero and puts the state of the training back after them.

    Chainer's Evaluator does so with a copy of the model. Harmless for a model without carried state.

    Args:
        at_epochs: Whether each epoch of the training starts from zero, too.
    """

    def __init__(self, *, at_epochs: bool = False) -> None:
        super().__init__()
        self._at_epochs = at_epochs
        self._kept: list[Any] = []
        self._zeros: list[Any] = []  # made once: reading a state waits for its device

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Sets the state back as an epoch begins, if that is wanted."""
        if self._at_epochs:
            self._reset()

    def on_test_begin(self, logs: Any = None) -> None:
        """Keeps the state of the training."""
        self._kept = [_value_of(state) for state in self._states()]
        self._reset()

    def on_test_end(self, logs: Any = None) -> None:
        """Puts it back."""
        for state, values in zip(self._states(), self._kept, strict=True):
            state.assign(values)

    def _reset(self) -> None:
        states = self._states()
        self._zeros = self._zeros or [np.zeros_like(_value_of(state)) for state in states]
        for state, zeros in zip(states, self._zeros, strict=True):
            state.assign(zeros)

    def _states(self) -> list[Any]:
        return backends.current().carried_states(self.model)


def _value_of(state: Any) -> npt.NDArray[Any]:
    return backends.current().to_numpy(state)
