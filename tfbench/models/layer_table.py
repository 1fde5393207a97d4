"""A network of your own, written as a table of layers in the recipe: [[model.layer]]."""

import math
from typing import TYPE_CHECKING

from tfbench.errors import RecipeError, did_you_mean
from tfbench.models._layer_types import AnyLayer, Merge
from tfbench.recipe.dataset_spec import DatasetSpec
from tfbench.schema import schema

if TYPE_CHECKING:
    import keras

DATA = "data"  # as an input: the samples


@schema
class Config:
    """The layers of the network."""

    layer: tuple[AnyLayer, ...]
    """The layers in order: each takes the output of layers above it; the last one's is the network's."""

    def __post_init__(self) -> None:
        problems = _find_graph_problems(self) if self.layer else ["layer: must hold one layer or more."]
        if problems:
            raise ValueError(" ".join(problems))


def build_model(config: Config, spec: DatasetSpec) -> "keras.Model":
    """Builds the layers one after the other, each with the shape that those before it give.

    Input shape: (batch, *input_shape), float32.
    Output shape: (batch, num_classes), logits; of a regression (batch, *target_shape).
    Source: the layer files of cuda-convnet, from which the types have their names.

    Raises:
        RecipeError: A layer does not suit its inputs, or the last one not the data.
    """
    import keras

    from tfbench.models.structure import foreign_model

    tensors = {DATA: keras.Input(spec.input_shape, name=DATA)}
    names = _names(config)
    before = DATA
    for name, layer in zip(names, config.layer, strict=True):
        inputs = [tensors[source] for source in layer.inputs or (before,)]
        try:
            tensors[name] = layer.connect(name, inputs)
        except ValueError as error:
            shapes = ", ".join(f"{tuple(tensor.shape[1:])}" for tensor in inputs)
            raise RecipeError(
                f"model.layer '{name}' ({layer.type}), fed with {shapes}: {foreign_model.reason_of(error)}"
            ) from error
        before = name
    shape = spec.target_shape if spec.num_classes is None else (spec.num_classes,)
    outputs = tensors[before]
    if math.prod(outputs.shape[1:]) != math.prod(shape):
        raise RecipeError(
            f"model.layer '{before}': the last layer must have {math.prod(shape)} outputs, as the data has "
            f"{'values to predict' if spec.num_classes is None else 'classes'}. Received: "
            f"{math.prod(outputs.shape[1:])}, of shape {tuple(outputs.shape[1:])}."
        )
    if tuple(outputs.shape[1:]) != shape:
        outputs = keras.layers.Reshape(shape, name=f"{before}-reshape")(outputs)
    return keras.Model(tensors[DATA], outputs, name="layers")


def _names(config: Config) -> list[str]:
    return [layer.name or f"{layer.type}{place}" for place, layer in enumerate(config.layer, start=1)]


def _find_graph_problems(config: Config) -> list[str]:
    """Returns what is wrong with names and inputs: the graph must lead from the data to the last layer."""
    problems = []
    names = _names(config)
    above = [DATA]
    used: set[str] = set()
    for place, (name, layer) in enumerate(zip(names, config.layer, strict=True), start=1):
        if name in above:
            problems.append(f"layer {place} ({layer.type}): the name '{name}' is taken already. Give it another one.")
        for source in layer.inputs:
            if source not in above:
                problems.append(f"layer '{name}': {_explain_input(source, name, names, above)}")
        if len(layer.inputs) > 1 and not isinstance(layer, Merge):
            problems.append(f"layer '{name}': {layer.type} takes one input; merge several with add or concat.")
        used.update(layer.inputs or above[-1:])
        above.append(name)
    for name in above[1:-1]:
        if name not in used:
            problems.append(f"layer '{name}': no other layer takes its output.")
    return problems


def _explain_input(source: str, name: str, names: list[str], above: list[str]) -> str:
    if source == name:
        return "it cannot be its own input."
    if source in names:
        return f"its input '{source}' comes later. A layer takes those above it: put '{source}' first."
    return f"unknown input '{source}'.{did_you_mean(source, above)} Known here: {', '.join(above)}."
