"""Plain recurrent network over the rows of an image, or the steps of a sequence."""

from typing import Any, Literal

from tfbench.recipe.dataset_spec import DatasetSpec
from tfbench.schema import Width, schema


@schema
class Config:
    """The recurrent units."""

    units: Width = 100
    """Number of recurrent units."""
    activation: Literal["tanh", "relu", "sigmoid"] = "tanh"
    """Activation of the recurrent units."""


def build_model(config: Config, spec: DatasetSpec) -> Any:
    """Builds SimpleRNN(units) -> Dense(num_classes).

    Input shape: (batch, steps, ...), float32; each step flattened, so that a 28x28 image is 28
    steps of 28 values. Output shape: (batch, num_classes), logits. Source: Elman 1990; the size
    follows the Data Science Stack Exchange question on choosing between CPU and GPU for training,
    which asks about 100 hidden units.
    """
    import keras

    steps = spec.input_shape[0]
    return keras.Sequential(
        [
            keras.Input(spec.input_shape),
            keras.layers.Reshape((steps, -1)),
            keras.layers.SimpleRNN(config.units, activation=config.activation),
            keras.layers.Dense(spec.num_outputs),
        ],
        name="simple_rnn",
    )
