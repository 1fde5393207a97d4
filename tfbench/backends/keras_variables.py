"""The variables that training changes, as Keras keeps them, and their values as NumPy's arrays."""

from typing import Any

import numpy as np
import numpy.typing as npt


def training_variables(model: Any) -> list[Any]:
    """Returns all that training changes in a compiled model: weights, seed generators, the optimizer's variables.

    And what Keras does not count as a model's variables: the state that recurrent layers carry from batch to batch.
    """
    return [
        *model.trainable_variables,
        *model.non_trainable_variables,
        *carried_states(model),
        *model.optimizer.variables,
    ]


def carried_states(model: Any) -> list[Any]:
    """Returns the variables of the state that recurrent layers carry from batch to batch."""
    stateful = [layer for layer in model.layers if getattr(layer, "stateful", False)]
    return [state for layer in stateful for state in _flat(getattr(layer, "states", None) or ())]


def to_numpy(variable: Any) -> npt.NDArray[Any]:
    """Returns the value of a variable."""
    from keras import ops

    return np.array(ops.convert_to_numpy(variable.value))


def _flat(states: Any) -> list[Any]:
    """Returns the variables of stacked cells, which are in lists of lists, as one list."""
    return [one for state in states for one in (_flat(state) if isinstance(state, list | tuple) else [state])]
