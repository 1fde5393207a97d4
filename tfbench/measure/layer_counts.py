"""A recipe's network, layer by layer: shapes, weights, and what a forward pass costs.

Run as `python -m tfbench.measure.layer_counts`, it reads a recipe's tables as JSON and prints the
table of its layers as one line of JSON: a process of its own, since whoever asks must not load
TensorFlow.
"""

import dataclasses
import json
import math
import sys
import traceback
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tfbench.errors import RecipeError, TfbenchError
from tfbench.measure.compiled_model import build_model, count_values, notices_kept
from tfbench.measure.process_settings import configure_keras, import_keras, list_unneeded
from tfbench.recipe import registry
from tfbench.recipe.dataset_spec import DatasetSpec
from tfbench.recipe.sections import ModelConfig, TrainingConfig
from tfbench.recipe.tables import from_tables
from tfbench.runs.layer_record import LayerRow, ModelTable, SizesOrNone
from tfbench.schema import to_plain

if TYPE_CHECKING:
    from tfbench.models.structure.flops import CallFlops
    from tfbench.models.structure.graph import Call


_UNKNOWN = (
    "FLOPs are not available, since those of {} are not known. A layer of your own says them in a"
    " method forward_flops(input_shape, output_shape)."
)

# Layers that only rearrange values or apply a function to each.
_WITHOUT_ROW = (
    "Activation",
    "ReLU",
    "LeakyReLU",
    "ELU",
    "Softmax",
    "Rescaling",
    "Flatten",
    "Reshape",
    "Permute",
    "RepeatVector",
    "Identity",
    "InputLayer",
    "ZeroPadding1D",
    "ZeroPadding2D",
    "ZeroPadding3D",
    "Cropping1D",
    "Cropping2D",
    "Cropping3D",
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

    with notices_kept() as notices:
        model = build_model(model_config, spec, allows_code=allows_code)
        known_inputs: Any = getattr(model, "inputs", None)
        if spec.is_structured:
            if not known_inputs:
                raise RecipeError(f"model {model_config.name}: has no graph of layers to be shown.")
            return tabulate(model, spec)
        # A model around it gives a place in a graph to a model that is a class of its own, too.
        batch_size = known_inputs[0].shape[0] if known_inputs else None
        dtype = spec.input_dtype if spec.is_fed_as_stored else None
        inputs = keras.Input(spec.input_shape, batch_size=batch_size, dtype=dtype)
        table = tabulate(keras.Model(inputs, model(inputs)), spec)
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
        _row("data", "data", spec.input_shape),
        _row("labels" if spec.num_classes else "targets", "labels", spec.target_shape),
        *_tabulate_calls(calls, count_calls(calls, model.trainable_variables)),
    ]
    if spec.num_classes is not None:
        shape = model.outputs[0].shape[1:]
        rows.append(_row("probs", "softmax", shape, input_shape=shape))
    flops = count_model(model)
    num_outputs: list[Any] = [row.num_outputs for row in rows]
    return ModelTable(
        layers=tuple(rows),
        num_parameters=model.count_params(),
        num_trainable_parameters=count_values(model.trainable_weights),
        num_kernel_weights=sum(row.num_kernel_weights for row in rows),
        num_outputs=None if None in num_outputs else sum(num_outputs),
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
        name = request["name"]
        recipe = from_tables(request["tables"], name=name, source=name)
        backend = recipe.training.backend
        import_keras(backend, list_unneeded(backend, is_users=recipe.is_users))
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
    return to_plain(table)  # type: ignore[no-any-return]  # a table becomes a dict


def _tabulate_calls(calls: "Sequence[Call]", counted: "Sequence[CallFlops]") -> list[LayerRow]:
    """Returns a row for each call of a layer, but for those that only rearrange values."""
    import keras

    from tfbench.models.structure.products import kernels_of

    rows = []
    without_row = tuple(getattr(keras.layers, name) for name in _WITHOUT_ROW)
    # From a tensor of a layer without a row to the shape of that layer's input.
    shapes: dict[Any, SizesOrNone] = {}
    seen: set[int] = set()
    for call, flops in zip(calls, counted, strict=True):
        layer = call.operation
        is_layer = isinstance(layer, keras.Layer)
        input_shape = None
        if call.inputs:
            tensor = call.inputs[0]
            input_shape = shapes.get(tensor, tensor.shape[1:])
        weights = layer.weights if is_layer else []
        if not weights and (not is_layer or isinstance(layer, without_row)):
            if is_layer and input_shape is not None:
                shapes |= dict.fromkeys(call.outputs, input_shape)
            continue
        new = [weight for weight in weights if id(weight) not in seen]
        kernel_ids = {id(weight) for weight in kernels_of(layer)}
        new_kernels = [weight for weight in new if id(weight) in kernel_ids]
        shape = call.outputs[0].shape[1:]
        rows.append(
            _row(
                layer.name,
                type(layer).__name__,
                shape,
                num_kernel_weights=count_values(new_kernels),
                num_parameters=count_values(new),
                filters=getattr(layer, "filters", None),
                **_read_window(layer, rank=len(shape) - 1),
                input_shape=input_shape,
                flops_per_sample=flops.forward,
                training_flops_per_sample=flops.training,
                is_used_again=bool(weights) and not new,
            )
        )
        seen |= {id(weight) for weight in weights}
    return rows


def _read_window(layer: Any, *, rank: int) -> dict[str, tuple[int, ...]]:
    """Returns the size and strides of a layer's window along `rank` axes.

    What the layer does not have is left out.
    """
    window = {}
    sources = (
        ("pool_size", "kernel_size"),
        ("kernel_size", "kernel_size"),
        ("strides", "strides"),
    )
    for attribute, key in sources:
        sizes = getattr(layer, attribute, None)
        if isinstance(sizes, int):
            window[key] = (sizes,) * rank
        elif sizes is not None:
            window[key] = tuple(sizes)
    size = getattr(layer, "size", None)
    if "kernel_size" not in window and isinstance(size, int):
        window["kernel_size"] = (size,)  # of a normalisation over neighbouring channels
    return window


def _row(name: str, kind: str, shape: Any, **fields: Any) -> LayerRow:
    num_outputs = None if None in shape else math.prod(shape)
    return LayerRow(name=name, kind=kind, output_shape=shape, num_outputs=num_outputs, **fields)


if __name__ == "__main__":
    sys.stdout.write("\n" + json.dumps(report_on(json.load(sys.stdin))) + "\n")
