"""A recipe's network, layer by layer: shapes, weights, and what a forward pass costs.

Run as `python -m tfbench.worker.model_table`, it reads a recipe's tables as JSON and prints the
table of its layers as one line of JSON: a process of its own, since whoever asks must not load
TensorFlow.
"""

import dataclasses
import json
import math
import sys
import traceback
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tfbench.errors import Notice, RecipeError, TfbenchError
from tfbench.recipe import registry
from tfbench.recipe.dataset_spec import DatasetSpec
from tfbench.recipe.sections import ModelConfig, TrainingConfig
from tfbench.recipe.tables import from_tables
from tfbench.records.model_table import LayerRow, ModelTable, SizesOrNone
from tfbench.schema import to_plain
from tfbench.worker.process_settings import configure_keras, import_keras, list_unneeded

if TYPE_CHECKING:
    from tfbench.models.structure.flops import CallFlops
    from tfbench.models.structure.graph import Call


_UNKNOWN = (
    "FLOPs are not available, since those of {} are not known. A layer of your own says them in a"
    " method forward_flops(input_shape, output_shape)."
)


def build_table(
    model_config: ModelConfig,
    training: TrainingConfig,
    spec: DatasetSpec,
    *,
    allows_code: bool = False,
) -> ModelTable:
    """Builds a model and counts; its weights take no memory, unless its layers insist on it.

    Args:
        model_config: Which model.
        training: Its precision.
        spec: The data.
        allows_code: Whether a function of the user's may be called to build it.

    Raises:
        TfbenchError: The model does not fit the data, or cannot be built.
    """
    from tfbench.models.structure.graph import without_weights

    configure_keras(training)
    try:
        with without_weights():
            return _build_and_tabulate(model_config, spec, allows_code=allows_code)
    except Exception as error:
        if "stateless scope" not in str(error):
            raise
    # A stateful recurrent layer, for one, makes variables of values, which Keras rejects where
    # weights have none.
    configure_keras(training)
    return _build_and_tabulate(model_config, spec, allows_code=allows_code)


def _build_and_tabulate(
    model_config: ModelConfig, spec: DatasetSpec, *, allows_code: bool
) -> ModelTable:
    import keras

    from tfbench.worker.compiled_model import build_model

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", Notice)
        model = build_model(model_config, spec, allows_code=allows_code)
        if spec.is_structured:
            if not getattr(model, "inputs", None):
                raise RecipeError(f"model {model_config.name}: has no graph of layers to be shown.")
            return tabulate(model, spec)
        # In a model around it, one that is a class of its own has a place in a graph, too.
        batch_size = model.inputs[0].shape[0] if getattr(model, "inputs", None) else None
        dtype = spec.input_dtype if spec.is_fed_as_stored else None
        inputs = keras.Input(spec.input_shape, batch_size=batch_size, dtype=dtype)
        table = tabulate(keras.Model(inputs, model(inputs)), spec)
    notices = [str(warning.message) for warning in caught if issubclass(warning.category, Notice)]
    return dataclasses.replace(table, notes=(*notices, *table.notes))


def tabulate(model: Any, spec: DatasetSpec) -> ModelTable:
    """Counts the layers of a functional model with one input and one output.

    Args:
        model: Gives out logits, if `spec` has classes.
        spec: The data; its input shape is the model's.
    """
    from tfbench.models.structure.flops import count_calls, count_model
    from tfbench.models.structure.graph import walk

    calls = list(walk(model))
    rows = [
        LayerRow(
            name="data",
            kind="data",
            output_shape=spec.input_shape,
            num_outputs=math.prod(spec.input_shape),
        ),
        LayerRow(
            name="labels" if spec.num_classes else "targets",
            kind="labels",
            output_shape=spec.target_shape,
            num_outputs=math.prod(spec.target_shape),
        ),
        *_tabulate_calls(calls, count_calls(calls, model.trainable_variables)),
    ]
    if spec.num_classes is not None:
        shape = model.outputs[0].shape[1:]
        rows.append(
            LayerRow(
                name="probs",
                kind="softmax",
                output_shape=shape,
                num_outputs=_size(shape),
                input_shape=shape,
            )
        )
    flops = count_model(model)
    return ModelTable(
        layers=tuple(rows),
        num_parameters=model.count_params(),
        num_trainable_parameters=sum(math.prod(weight.shape) for weight in model.trainable_weights),
        num_kernel_weights=sum(row.num_kernel_weights for row in rows),
        num_outputs=_add([row.num_outputs for row in rows]),
        flops_per_sample=flops.forward,
        training_flops_per_sample=flops.training,
        notes=(_UNKNOWN.format(", ".join(flops.unknown)),) if flops.unknown else (),
    )


def report_on(request: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what `parse_report` reads: the table for a recipe, or what is wrong with it.

    Args:
        request: "name" of the recipe, "tables", what a recipe file holds, and "allows_code",
            whether functions of the user's may be called.
    """
    try:
        recipe = from_tables(request["tables"], name=request["name"], source=request["name"])
        import_keras(
            recipe.training.backend,
            list_unneeded(recipe.training.backend, is_users=recipe.is_users),
        )
        data = registry.load("datasets", recipe.dataset.name)
        spec = data.describe(data.Config(**recipe.dataset.options))
        table = build_table(
            recipe.model, recipe.training, spec, allows_code=request.get("allows_code", False)
        )
    except TfbenchError as error:
        return {"error": {"type": type(error).__name__, "message": str(error)}}
    except Exception as error:  # Keras raises what it likes where sizes do not fit together
        traceback.print_exc()
        reason = str(error).strip() or "no message"
        message = (
            f"model {request['tables']['model']['name']}: cannot be built: {type(error).__name__}:"
            f" {reason}"
        )
        return {"error": {"type": "RecipeError", "message": message}}
    plain: dict[str, Any] = to_plain(table)
    return plain


def _tabulate_calls(calls: "Sequence[Call]", counted: "Sequence[CallFlops]") -> list[LayerRow]:
    """Returns the rows."""
    import keras

    from tfbench.models.structure.products import kernels_of

    rows = []
    shapes: dict[
        Any, SizesOrNone
    ] = {}  # tensor from a layer without a row: shape of what that layer was given
    seen: set[int] = set()
    for call, flops in zip(calls, counted, strict=True):
        layer = call.operation
        inputs = call.inputs[0] if call.inputs else None
        before = shapes.get(inputs, inputs.shape[1:]) if inputs is not None else None
        weights = layer.weights if isinstance(layer, keras.Layer) else []
        if not weights and (
            isinstance(layer, _without_row()) or not isinstance(layer, keras.Layer)
        ):
            if isinstance(layer, keras.Layer) and before is not None:
                shapes |= dict.fromkeys(call.outputs, before)
            continue
        new = [weight for weight in weights if id(weight) not in seen]
        kernels = {id(weight) for weight in kernels_of(layer)}
        shape = call.outputs[0].shape[1:]
        rows.append(
            LayerRow(
                name=layer.name,
                kind=type(layer).__name__,
                output_shape=shape,
                num_outputs=_size(shape),
                num_kernel_weights=sum(
                    math.prod(weight.shape) for weight in new if id(weight) in kernels
                ),
                num_parameters=sum(math.prod(weight.shape) for weight in new),
                filters=getattr(layer, "filters", None),
                **_read_window(layer, rank=len(shape) - 1),
                input_shape=before,
                flops_per_sample=flops.forward,
                training_flops_per_sample=flops.training,
                is_used_again=bool(weights) and not new,
            )
        )
        seen |= {id(weight) for weight in weights}
    return rows


def _without_row() -> tuple[type, ...]:
    """Returns the layers that only rearrange values or apply a function to each."""
    from keras import layers

    return (
        *(
            layers.Activation,
            layers.ReLU,
            layers.LeakyReLU,
            layers.ELU,
            layers.Softmax,
            layers.Rescaling,
        ),
        *(
            layers.Flatten,
            layers.Reshape,
            layers.Permute,
            layers.RepeatVector,
            layers.Identity,
            layers.InputLayer,
        ),
        *(layers.ZeroPadding1D, layers.ZeroPadding2D, layers.ZeroPadding3D),
        *(layers.Cropping1D, layers.Cropping2D, layers.Cropping3D),
    )


def _read_window(layer: Any, *, rank: int) -> dict[str, tuple[int, ...]]:
    """Returns the size and strides of a layer's window along `rank` axes.

    What the layer does not have is left out.
    """
    window = {}
    for key, names in {
        "kernel_size": ("kernel_size", "pool_size"),
        "strides": ("strides",),
    }.items():
        found = next(
            (value for name in names if (value := getattr(layer, name, None)) is not None), None
        )
        if found is not None:
            window[key] = (found,) * rank if isinstance(found, int) else tuple(found)
    if "kernel_size" not in window and isinstance(size := getattr(layer, "size", None), int):
        window["kernel_size"] = (size,)  # of a normalisation over neighbouring channels
    return window


def _size(shape: SizesOrNone) -> int | None:
    sizes = [size for size in shape if size is not None]
    return math.prod(sizes) if len(sizes) == len(shape) else None


def _add(numbers: Sequence[int | None]) -> int | None:
    known = [number for number in numbers if number is not None]
    return sum(known) if len(known) == len(numbers) else None


if __name__ == "__main__":
    sys.stdout.write("\n" + json.dumps(report_on(json.load(sys.stdin))) + "\n")
