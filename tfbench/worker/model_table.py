"""A recipe's network, layer by layer: shapes, weights, and what a forward pass costs.

Run as `python -m tfbench.worker.model_table`, it reads a recipe's tables as JSON and prints the table of its layers
as one line of JSON: a process of its own, since whoever asks must not load TensorFlow.
"""

import dataclasses
import json
import math
import sys
import traceback
import warnings
from collections.abc import Mapping
from typing import Any

from tfbench.errors import Notice, RecipeError, TfbenchError
from tfbench.recipe import registry
from tfbench.recipe.dataset_spec import DatasetSpec
from tfbench.recipe.sections import ModelConfig, TrainingConfig
from tfbench.recipe.tables import from_tables
from tfbench.records.model_table import LayerRow, ModelTable
from tfbench.schema import to_plain
from tfbench.worker.process_settings import configure_keras, import_keras

_UNKNOWN = (
    "FLOPs are not available, since those of {} are not known. A layer of your own says them in a method "
    "forward_flops(input_shape, output_shape)."
)


def build_table(
    model_config: ModelConfig, training: TrainingConfig, spec: DatasetSpec, *, allows_code: bool = False
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
    # A stateful recurrent layer, for one, makes variables of values, which Keras rejects where weights have none.
    configure_keras(training)
    return _build_and_tabulate(model_config, spec, allows_code=allows_code)


def _build_and_tabulate(model_config: ModelConfig, spec: DatasetSpec, *, allows_code: bool) -> ModelTable:
    import keras

    from tfbench.worker.compiled_model import build_model

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", Notice)
        model = build_model(model_config, spec, allows_code=allows_code)
        if spec.is_structured:
            if not getattr(model, "inputs", None):
                raise RecipeError(f"model {model_config.name}: has no graph of layers to be shown.")
            return tabulate(model)
        # In a model around it, one that is a class of its own has a place in a graph, too.
        batch_size = model.inputs[0].shape[0] if getattr(model, "inputs", None) else None
        inputs = keras.Input(spec.input_shape, batch_size=batch_size)
        table = tabulate(keras.Model(inputs, model(inputs)))
    notices = [str(warning.message) for warning in caught if issubclass(warning.category, Notice)]
    return dataclasses.replace(table, notes=(*notices, *table.notes))


def tabulate(model: Any) -> ModelTable:
    """Counts the layers of a functional model."""
    import keras

    from tfbench.models.structure.flops import add_up, count_calls
    from tfbench.models.structure.graph import walk

    calls = list(walk(model))
    counted = count_calls(calls, model.trainable_variables)
    flops = add_up(calls, counted)
    rows, seen = [], set[int]()
    for call, of_call in zip(calls, counted, strict=True):
        layer = call.operation
        if not isinstance(layer, keras.Layer):
            continue
        new = [weight for weight in layer.weights if id(weight) not in seen]
        seen |= {id(weight) for weight in new}
        rows.append(
            LayerRow(
                name=layer.name,
                kind=type(layer).__name__,
                output_shape=call.outputs[0].shape[1:],
                num_parameters=sum(math.prod(weight.shape) for weight in new),
                flops_per_sample=of_call.forward,
                training_flops_per_sample=of_call.training,
                is_used_again=bool(layer.weights) and not new,
            )
        )
    return ModelTable(
        layers=tuple(rows),
        num_parameters=model.count_params(),
        num_trainable_parameters=sum(math.prod(weight.shape) for weight in model.trainable_weights),
        flops_per_sample=flops.forward,
        training_flops_per_sample=flops.training,
        notes=(_UNKNOWN.format(", ".join(flops.unknown)),) if flops.unknown else (),
    )


def report_on(request: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what `parse_report` reads: the table for a recipe, or what is wrong with it.

    Args:
        request: "name" of the recipe, "tables", what a recipe file holds, and "allows_code", whether functions of the
            user's may be called.
    """
    try:
        recipe = from_tables(request["tables"], name=request["name"], source=request["name"])
        import_keras(recipe)
        data = registry.load("datasets", recipe.dataset.name)
        spec = data.describe(data.Config(**recipe.dataset.options))
        table = build_table(recipe.model, recipe.training, spec, allows_code=request.get("allows_code", False))
    except TfbenchError as error:
        return {"error": {"type": type(error).__name__, "message": str(error)}}
    except Exception as error:  # Keras raises what it likes where sizes do not fit together
        traceback.print_exc()
        reason = str(error).strip() or "no message"
        message = f"model {request['tables']['model']['name']}: cannot be built: {type(error).__name__}: {reason}"
        return {"error": {"type": "RecipeError", "message": message}}
    plain: dict[str, Any] = to_plain(table)
    return plain


if __name__ == "__main__":
    sys.stdout.write("\n" + json.dumps(report_on(json.load(sys.stdin))) + "\n")
