"""Small LSTM that continues a sine wave, one value a step."""

from typing import TYPE_CHECKING

from tfbench.results import DatasetSpec
from tfbench.schema import Width, schema

if TYPE_CHECKING:
    import keras


@schema
class Config:
    """Width of the first dense layer and of the LSTM."""

    units: Width = 5


def build_model(config: Config, spec: DatasetSpec) -> "keras.Model":
    """Builds, for each step, Dense(units) without activation -> LSTM(units) -> Dense(1); 236 parameters at 5 units.

    Input shape: (batch, steps, 1), float32.
    Output shape: (batch, steps, 1), the value predicted to come next.
    Source: Qiita article on CPU and GPU speed with Chainer (user AtomJamesScott). As in Chainer's LSTM link, both
    kernels start as untruncated LeCun normals and the forget gate's bias at 1.
    """
    import keras

    from tfbench.models.layers.initializers import build_initializer

    initializer = build_initializer("lecun_normal_untruncated")
    return keras.Sequential(
        [
            keras.Input(spec.input_shape),
            keras.layers.Dense(config.units, kernel_initializer=initializer.clone()),
            keras.layers.LSTM(
                config.units,
                return_sequences=True,
                kernel_initializer=initializer.clone(),
                recurrent_initializer=initializer.clone(),
                unit_forget_bias=True,
            ),
            keras.layers.Dense(spec.target_shape[-1], kernel_initializer=initializer.clone()),
        ],
        name="sine_lstm",
    )
