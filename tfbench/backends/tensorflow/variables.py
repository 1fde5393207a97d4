"""The variables that training changes, each with its copies under a strategy, and their values as NumPy's arrays."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tfbench.backends import keras_variables


def training_variables(model: Any) -> list[Any]:
    """Returns all that training changes in a compiled model: weights, seed generators, the optimizer's variables.

    And what Keras does not count as a model's variables: the state that recurrent layers carry from batch to batch.
    """
    # Under `mirrored`, Keras lets the moving statistics of batch normalisation differ from replica to replica.
    fixed = [copy for variable in model.non_trainable_variables for copy in copies_of(variable)]
    return [*model.trainable_variables, *fixed, *carried_states(model), *model.optimizer.variables]


def carried_states(model: Any) -> list[Any]:
    """Returns TensorFlow's variables of the state that recurrent layers carry from batch to batch, one a replica."""
    return [copy for state in keras_variables.carried_states(model) for copy in copies_of(state)]


def copies_of(variable: Any) -> Sequence[Any]:
    """Returns TensorFlow's variables behind one of Keras's, one a replica."""
    return getattr(variable.value, "values", (variable.value,))


def to_numpy(variable: Any) -> npt.NDArray[Any]:
    """Returns the value of a variable, of Keras or of TensorFlow; under a strategy, that of the first replica."""
    of_keras = not callable(variable.value)  # a method of TensorFlow's variables, what Keras's hold in theirs
    return np.asarray((variable.value if of_keras else variable).numpy())
