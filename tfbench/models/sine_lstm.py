"""Small LSTM that continues a sine wave, one value per step."""

from typing import Any, Literal

from tfbench.recipe.dataset_spec import DatasetSpec
from tfbench.schema import Flag, Width, schema


@schema
class Config:
    """Width of the first dense layer and of the LSTM, and what becomes of the LSTM's state.

    Evaluations always start from a state of zero, and leave the state of the training as it was.
    """

    units: Width = 5
    """Width of the first dense layer and of the LSTM."""
    stateful: Flag = False
    """The training carries the state on from batch to batch, row by row.

    Gradients end at a batch's first step: truncated back-propagation. Otherwise each sequence
    starts from zero.
    """
    reset_state: Literal["never", "epoch"] = "never"
    """When the state of a stateful LSTM is set back to zero: never, or as an epoch begins."""

    def __post_init__(self) -> None:
        if self.reset_state == "epoch" and not self.stateful:
            raise ValueError(
                'reset_state = "epoch" needs stateful = true: no state goes on from batch to batch.'
            )


def build_model(config: Config, spec: DatasetSpec) -> Any:
    """Builds, for each step, Dense(units) without activation -> LSTM(units) -> Dense(1).

    It has 236 parameters at 5 units.

    Input shape: (batch, steps, 1), float32; a stateful model's batch is of
    `spec.per_replica_batch_size` samples, and of one where that is not said. Output shape: (batch,
    steps, 1), the value predicted to come next. Source: Qiita article on CPU and GPU speed with
    Chainer (user AtomJamesScott). As in Chainer's LSTM link, both kernels start as untruncated
    LeCun normals and the forget gate's bias at 1.
    """
    import keras

    from tfbench.models.custom_layers.initializers import build_initializer

    initializer = build_initializer("lecun_normal_untruncated")
    *_, num_values = spec.target_shape or (1,)
    batch_size = None
    if config.stateful:
        batch_size = spec.per_replica_batch_size or 1
    return keras.Sequential(
        [
            keras.Input(spec.input_shape, batch_size=batch_size),
            keras.layers.Dense(config.units, kernel_initializer=initializer.clone()),
            keras.layers.LSTM(
                config.units,
                return_sequences=True,
                stateful=config.stateful,
                kernel_initializer=initializer.clone(),
                recurrent_initializer=initializer.clone(),
                unit_forget_bias=True,
            ),
            keras.layers.Dense(num_values, kernel_initializer=initializer.clone()),
        ],
        name="sine_lstm",
    )
