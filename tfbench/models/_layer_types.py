"""The layers that a recipe's table of layers may hold: what each takes, and the Keras layers that it stands for."""

import abc
from typing import Annotated, Any, Literal

import pydantic

from tfbench.schema import Count, Flag, Fraction, NaturalNumber, Number, PositiveNumber, Text, Width, schema

Name = Annotated[str, pydantic.Field(pattern=r"^[A-Za-z][A-Za-z0-9_]*$", max_length=64)]
Size = Annotated[Count, pydantic.Field(le=10_000)]  # cells
Activation = Literal["linear", "relu", "leaky_relu", "elu", "gelu", "silu", "softplus", "sigmoid", "tanh"]


@schema
class Layer(abc.ABC):
    """What every layer has."""

    name: Name | None = None
    """Name of the layer; not set: its type and place, "conv1"."""
    inputs: tuple[Text, ...] = ()
    """Names of the layers that it takes, `data` for the data; none: the layer before it, or the data."""
    activation: Activation = "linear"
    """Applied to the layer's output."""

    @abc.abstractmethod
    def connect(self, name: str, inputs: list[Any]) -> Any:
        """Returns the layer's output, a Keras tensor with the batch in front.

        Keras layers that are added besides are named with a hyphen, which no name in a recipe has.

        Raises:
            ValueError: The inputs do not suit the layer.
        """

    def activate(self, name: str, outputs: Any) -> Any:
        """Applies the activation as a layer of its own, where the layer before has no place for it."""
        import keras

        if self.activation == "linear":
            return outputs
        return keras.layers.Activation(self.activation, name=f"{name}-{self.activation}")(outputs)


@schema
class WeightedLayer(Layer):
    """A layer with kernels."""

    use_bias: Flag = True
    """Whether the layer has biases."""
    kernel_initializer: Literal["glorot_uniform", "lecun_normal_untruncated", "he_normal_untruncated"] = (
        "glorot_uniform"
    )
    """How kernels start."""
    kernel_stddev: PositiveNumber | None = None
    """Kernels start from a normal distribution of this standard deviation, in place of `kernel_initializer`."""
    initial_bias: Number = 0.0
    """What biases start with."""

    def weight_arguments(self) -> dict[str, Any]:
        """Returns activation, biases and initialisers as Keras's layers take them."""
        import keras

        from tfbench.models.layers.initializers import build_initializer

        kernels = (
            build_initializer(self.kernel_initializer)
            if self.kernel_stddev is None
            else keras.initializers.RandomNormal(stddev=self.kernel_stddev)
        )
        return {
            "activation": self.activation,
            "use_bias": self.use_bias,
            "kernel_initializer": kernels,
            "bias_initializer": keras.initializers.Constant(self.initial_bias),
        }


@schema
class Dense(WeightedLayer):
    """Fully connected; flattens its input. "fc" is cuda-convnet's word for it."""

    type: Literal["dense", "fc"]
    """Chooses this layer."""
    units: Width
    """Outputs; of the last layer one a class."""

    def connect(self, name: str, inputs: list[Any]) -> Any:
        """Returns (batch, units)."""
        import keras

        flat = _one(inputs)
        if len(flat.shape) > 2:
            flat = keras.layers.Flatten(name=f"{name}-flatten")(flat)
        return keras.layers.Dense(self.units, name=name, **self.weight_arguments())(flat)


@schema
class Conv(WeightedLayer):
    """Convolution of an image. "local": with kernels of its own at each position."""

    type: Literal["conv", "local"]
    """Chooses this layer."""
    filters: Width
    """Channels that it gives out."""
    kernel_size: Size
    """Height and width of a kernel."""
    strides: Size = 1
    """Distance between two positions of the kernel, in both directions."""
    padding: NaturalNumber = 0
    """So many zeros on every side of the image."""

    def connect(self, name: str, inputs: list[Any]) -> Any:
        """Returns (batch, height, width, filters)."""
        import keras

        from tfbench.models.layers.locally_connected import LocallyConnected2D

        image = _image(inputs, window=self.kernel_size - 2 * self.padding)
        keeps_size = self.strides == 1 and self.padding * 2 == self.kernel_size - 1
        if self.padding and not keeps_size:
            image = keras.layers.ZeroPadding2D(self.padding, name=f"{name}-pad")(image)
        build = LocallyConnected2D if self.type == "local" else keras.layers.Conv2D
        return build(
            self.filters,
            self.kernel_size,
            strides=self.strides,
            padding="same" if keeps_size else "valid",  # one operation, where a padded copy would be two
            name=name,
            **self.weight_arguments(),
        )(image)


@schema
class Pool(Layer):
    """Largest value or average of a window, or of the whole image."""

    type: Literal["pool"]
    """Chooses this layer."""
    kind: Literal["max", "average"] = "max"
    """The largest value, or the average."""
    size: Size | None = None
    """Height and width of a window; not set: the whole image, which leaves one value a channel."""
    strides: Size | None = None
    """Distance between two windows, in both directions; not set: as `size`."""
    ceil: Flag = False
    """The last windows may hang over the edge, so that every cell is in one, as in cuda-convnet; for `kind = "max"`."""

    def __post_init__(self) -> None:
        if self.ceil and (self.kind != "max" or self.size is None):
            raise ValueError('ceil is for windows of kind = "max" only.')

    def connect(self, name: str, inputs: list[Any]) -> Any:
        """Returns (batch, height, width, channels), or (batch, channels) of the whole image."""
        import keras

        from tfbench.models.layers.ceil_max_pooling import CeilMaxPooling2D

        image = _image(inputs, window=1 if self.ceil else self.size or 1)
        layers = keras.layers
        if self.size is None:
            pool = (layers.GlobalMaxPooling2D if self.kind == "max" else layers.GlobalAveragePooling2D)(name=name)
        elif self.ceil:
            pool = CeilMaxPooling2D(self.size, self.strides or self.size, name=name)
        else:
            build = layers.MaxPooling2D if self.kind == "max" else layers.AveragePooling2D
            pool = build(self.size, self.strides or self.size, name=name)
        return self.activate(name, pool(image))


@schema
class ResponseNorm(Layer):
    """Local response normalisation, x / (bias + alpha * sum of squares over `size` channels) ^ beta."""

    type: Literal["rnorm"]
    """Chooses this layer."""
    size: Size = 5
    """Channels of a sum of squares."""
    alpha: PositiveNumber = 1e-4
    """Factor of the sum of squares; cuda-convnet's `scale` is size * alpha."""
    beta: PositiveNumber = 0.75
    """Exponent of the divisor."""
    bias: PositiveNumber = 1.0
    """Added to the sum of squares."""

    def connect(self, name: str, inputs: list[Any]) -> Any:
        """Returns the input's shape."""
        from tfbench.models.layers.local_response_normalization import LocalResponseNormalization

        norm = LocalResponseNormalization(self.size, bias=self.bias, alpha=self.alpha, beta=self.beta, name=name)
        return self.activate(name, norm(_one(inputs)))


@schema
class BatchNorm(Layer):
    """Batch normalisation over all axes but the last, with Keras's defaults."""

    type: Literal["batch_norm"]
    """Chooses this layer."""
    momentum: Fraction = 0.99
    """How much of the moving mean and variance stays at each step."""
    epsilon: PositiveNumber = 1e-3
    """Added to the variance."""

    def connect(self, name: str, inputs: list[Any]) -> Any:
        """Returns the input's shape."""
        import keras

        norm = keras.layers.BatchNormalization(momentum=self.momentum, epsilon=self.epsilon, name=name)
        return self.activate(name, norm(_one(inputs)))


@schema
class Dropout(Layer):
    """Sets values to 0 in training, each with the probability `rate`."""

    type: Literal["dropout"]
    """Chooses this layer."""
    rate: Fraction = 0.5
    """Probability of a value to be set to 0."""

    def connect(self, name: str, inputs: list[Any]) -> Any:
        """Returns the input's shape."""
        import keras

        return self.activate(name, keras.layers.Dropout(self.rate, name=name)(_one(inputs)))


@schema
class Flatten(Layer):
    """All values of a sample in one row."""

    type: Literal["flatten"]
    """Chooses this layer."""

    def connect(self, name: str, inputs: list[Any]) -> Any:
        """Returns (batch, values)."""
        import keras

        return self.activate(name, keras.layers.Flatten(name=name)(_one(inputs)))


@schema
class Merge(Layer):
    """Sum of several inputs of one shape, or all of them one behind the other in the last axis."""

    type: Literal["add", "concat"]
    """Chooses the sum, or one behind the other."""

    def __post_init__(self) -> None:
        if len(self.inputs) < 2:
            raise ValueError(f"inputs must name two layers or more. Received: {list(self.inputs)}.")

    def connect(self, name: str, inputs: list[Any]) -> Any:
        """Returns the inputs' shape, for "concat" with a longer last axis."""
        import keras

        shapes = [tuple(x.shape[1:]) for x in inputs]
        if len({shape if self.type == "add" else shape[:-1] for shape in shapes}) > 1:
            but = "" if self.type == "add" else " but for the last axis"
            raise ValueError(f"its inputs must have one shape{but}. Received: {', '.join(map(str, shapes))}.")
        build = keras.layers.Add if self.type == "add" else keras.layers.Concatenate
        return self.activate(name, build(name=name)(inputs))


AnyLayer = Annotated[
    Dense | Conv | Pool | ResponseNorm | BatchNorm | Dropout | Flatten | Merge, pydantic.Field(discriminator="type")
]


def _one(inputs: list[Any]) -> Any:
    (tensor,) = inputs
    return tensor


def _image(inputs: list[Any], *, window: int) -> Any:
    """Returns the one input, an image that a window of so many cells in height and width fits into."""
    image = _one(inputs)
    if len(image.shape) != 4:
        raise ValueError("needs an image, (height, width, channels).")
    if min(image.shape[1:3]) < window:
        raise ValueError("its window is larger than the image, padding included.")
    return image
