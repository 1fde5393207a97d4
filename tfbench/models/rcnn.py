"""Recurrent convolutional network: each convolution feeds its output back to itself a few times."""

from typing import Any, Literal

from tfbench.recipe.dataset_spec import DatasetSpec
from tfbench.schema import Count, Flag, Fraction, Width, schema


@schema
class Config:
    """Size and form of the network.

    The defaults are those of the article that the recipe svhn_rcnn follows.
    """

    channels: Width = 128
    """Channels of each convolution."""
    num_feedback_steps: Count = 3
    """Additions of the fed-back output, in each recurrent layer."""
    recomputes_feed_forward: Flag = True
    """The convolution of a layer's input is computed anew in each step instead of once.

    Same values, more work.
    """
    rectifies_first: Flag = False
    """The state before the first feedback goes through ReLU too, as in Liang & Hu 2015."""
    rectifies_each_step: Flag = True
    """The ReLU follows every step, or the last one alone.

    The article's code, printed without its indentation, can be read both ways.
    """
    normalization: Literal["bn", "lrn", "none"] = "bn"
    """Where to normalise: "bn" after layers, "lrn" in each recurrent step.

    "bn" follows the first convolution and each recurrent layer; "lrn" is as in Liang & Hu 2015.
    """
    batch_statistics_always: Flag = True
    """Batch normalisation uses the statistics of the batch in validation, too.

    So the size of the validation batches matters.
    """
    dropout_rate: Fraction = 0.0
    """Dropout after each layer but the last recurrent one.

    The article's code has 0.5, but runs with dropout switched off.
    """
    global_pooling: Literal["channel_max", "spatial_max"] = "channel_max"
    """Maximum over channels or over positions, before the last layer.

    "channel_max" is over the channels of each position (the article), "spatial_max" over the
    positions of each channel (Liang & Hu 2015).
    """


def build_model(config: Config, spec: DatasetSpec) -> Any:
    """Builds a network with four recurrent convolutions.

    Its layers: conv 5x5 -> max 3/2 -> two recurrent convolutions -> max 3/2 -> two more -> global
    max -> dense.

    It has 1,192,330 trainable parameters on SVHN, and 1,280 moving averages of the batch
    normalisation.

    Input shape: (batch, 32, 32, 3), float32.
    Output shape: (batch, num_classes), logits (the original returns their softmax: a recipe's
    `head`).
    Source: blog article on SVHN with a recurrent CNN on an EC2 p2.xlarge, after Liang & Hu 2015,
    "Recurrent Convolutional Neural Network for Object Recognition".
    """
    import keras

    from tfbench.models.custom_layers.convolutions import RecurrentConvolution2D
    from tfbench.models.custom_layers.initializers import build_initializer
    from tfbench.models.custom_layers.normalization import BatchStatisticsNormalization
    from tfbench.models.custom_layers.pooling import CeilMaxPooling2D, ChannelMax

    def normalize(x: Any, name: str) -> Any:
        if config.normalization != "bn":
            return x
        kind = keras.layers.BatchNormalization
        if config.batch_statistics_always:
            kind = BatchStatisticsNormalization
        return kind(momentum=0.9, epsilon=2e-5, name=name)(x)

    def drop(x: Any, name: str) -> Any:
        return keras.layers.Dropout(config.dropout_rate, name=name)(x) if config.dropout_rate else x

    initializer = build_initializer("lecun_normal_untruncated")
    inputs = keras.Input(spec.input_shape)
    x = keras.layers.Conv2D(
        config.channels,
        5,
        padding="same",
        activation="relu",
        kernel_initializer=initializer,
        name="conv1",
    )(inputs)
    x = normalize(x, "bnorm1")
    x = CeilMaxPooling2D(3, 2, name="pool1")(x)  # rounds up, as Chainer's cover_all
    x = drop(x, "dropout1")
    for number in (2, 3, 4, 5):
        x = RecurrentConvolution2D(
            config.channels,
            num_feedback_steps=config.num_feedback_steps,
            recomputes_feed_forward=config.recomputes_feed_forward,
            rectifies_first=config.rectifies_first,
            rectifies_each_step=config.rectifies_each_step,
            normalization="lrn" if config.normalization == "lrn" else None,
            kernel_initializer=build_initializer("lecun_normal_untruncated"),
            name=f"rcl{number}",
        )(x)
        x = normalize(x, f"bnorm{number}")
        if number == 3:
            x = CeilMaxPooling2D(3, 2, name="pool3")(x)
        if number != 5:
            x = drop(x, f"dropout{number}")
    if config.global_pooling == "channel_max":
        x = ChannelMax(name="gmax")(x)
    else:
        x = keras.layers.GlobalMaxPooling2D(name="gmax")(x)
    outputs = keras.layers.Dense(
        spec.num_outputs, kernel_initializer=initializer.clone(), name="l6"
    )(x)
    return keras.Model(inputs, outputs, name="rcnn")
