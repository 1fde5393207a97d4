"""A network of your own, written as a table of Keras's layers in the recipe: [[model.layer]]."""

import math
from typing import Any, NotRequired

import pydantic
from typing_extensions import TypedDict

from tfbench.errors import RecipeError, did_you_mean
from tfbench.models.structure import foreign_model
from tfbench.recipe.dataset_spec import DatasetSpec
from tfbench.schema import Text, schema

DATA = "data"  # as an input: the samples


@pydantic.with_config(pydantic.ConfigDict(extra="allow", use_attribute_docstrings=True))
class Layer(TypedDict):
    """One layer. All keys but these are its configuration, as its `get_config` has it."""

    type: Text
    """Its class, of `keras.layers` or of tfbench's own."""
    name: NotRequired[Text]
    """Its name; not set: its type and place, "dense3"."""
    inputs: NotRequired[tuple[Text, ...]]
    """Layers above whose outputs it takes, `data` for the data; not set: the layer before it."""


@schema
class Config:
    """The layers of the network."""

    layer: tuple[Layer, ...]
    """The layers in order."""

    def __post_init__(self) -> None:
        if not self.layer:
            raise ValueError("layer: must hold one layer or more.")
        problems = _find_problems(self.layer)
        if problems:
            raise ValueError(" ".join(problems))


def build_model(config: Config, spec: DatasetSpec) -> Any:
    """Builds the layers one after the other, by Keras's own deserialisation in its safe mode.

    Layers that hold code are rejected.

    Input shape: (batch, *input_shape), float32.
    Output shape: (batch, num_classes), logits; of a regression (batch, *target_shape).

    Raises:
        RecipeError: There is no such layer, it does not suit its inputs, or the last one not the
            data.
    """
    import keras

    tensors = {DATA: keras.Input(spec.input_shape, name=DATA)}
    before = DATA
    for name, layer in zip(_names(config.layer), config.layer, strict=True):
        sources = [tensors[source] for source in layer.get("inputs") or (before,)]
        try:
            tensors[name] = _make(name, layer)(sources if len(sources) > 1 else sources[0])
            if not isinstance(tensors[name], keras.KerasTensor):
                raise ValueError("it must have one output, which the next layer takes.")
        except (ValueError, TypeError, LookupError, NotImplementedError) as error:
            # Whatever Keras makes of its keys.
            shapes = ", ".join(f"{tuple(tensor.shape[1:])}" for tensor in sources)
            raise RecipeError(
                f"model.layer '{name}' ({layer['type']}), fed with {shapes}:"
                f" {foreign_model.reason_of(error)}"
            ) from error
        before = name
    outputs = tensors[before]
    shape = tuple(outputs.shape[1:])
    num_outputs = math.prod(spec.output_shape)
    if math.prod(shape) != num_outputs:
        targets = "values to predict" if spec.num_classes is None else "classes"
        raise RecipeError(
            f"model.layer '{before}': the last layer must have {num_outputs} outputs, as the data"
            f" has {targets}. Received: {math.prod(shape)}, of shape {shape}."
        )
    if shape != spec.output_shape:
        outputs = keras.layers.Reshape(spec.output_shape, name=f"{before}-reshape")(outputs)
    return keras.Model(tensors[DATA], outputs, name="layers")


def _make(name: str, layer: Layer) -> Any:
    import keras

    foreign_model.register_layers()
    kind = layer["type"]
    options = {key: value for key, value in layer.items() if key not in Layer.__annotations__}
    description = {
        "class_name": kind,
        "module": None,
        "registered_name": f"tfbench>{kind}",
        "config": {"name": name, **options},
    }
    if keras.saving.get_registered_object(f"tfbench>{kind}") is None:
        if not isinstance(getattr(keras.layers, kind, None), type):
            names = [layer_name for layer_name in dir(keras.layers) if layer_name[0].isupper()]
            raise ValueError(f"keras.layers has no {kind}.{did_you_mean(kind, names)}")
        description["module"] = "keras.layers"
        description["registered_name"] = None
    return keras.saving.deserialize_keras_object(description, safe_mode=True)


def _names(layers: tuple[Layer, ...]) -> list[str]:
    return [
        layer.get("name") or f"{layer['type'].lower()}{place}"
        for place, layer in enumerate(layers, start=1)
    ]


def _find_problems(layers: tuple[Layer, ...]) -> list[str]:
    """Returns what is wrong with the graph, which must lead to its last layer.

    What is wrong with the keys of a layer shows when Keras builds it.
    """
    problems = []
    above = [DATA]
    used = set[str]()
    for name, layer in zip(_names(layers), layers, strict=True):
        inputs = layer.get("inputs") or above[-1:]
        if name in above:
            problems.append(f"layer '{name}': the name is taken already. Give it another.")
        problems += [
            f"layer '{name}': no layer above is named '{source}'.{did_you_mean(source, above)} "
            f"Named are: {', '.join(above)}."
            for source in inputs
            if source not in above
        ]
        used.update(inputs)
        above.append(name)
    problems += [
        f"layer '{name}': no other layer takes its output."
        for name in above[1:-1]
        if name not in used
    ]
    return problems
