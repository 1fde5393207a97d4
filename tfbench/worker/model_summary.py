"""What a built network is: its size, its work, and whether its training step can be taken apart."""

import math
from typing import Any

from tfbench.datasets.sources.splits import Split, Splits, list_arrays
from tfbench.errors import RecipeError
from tfbench.records.run import ModelSummary


def summarize_model(model: Any, digest: str) -> ModelSummary:
    """Counts a built network; what cannot be counted is named. `digest` is of the file that it is from."""
    from tfbench.models.structure import flops, foreign_model

    outputs: Any = getattr(model, "outputs", None) or ()
    known: dict[str, Any] = {
        "digest": digest,
        "own_optimizer": type(model.optimizer).__name__ if foreign_model.comes_compiled(model) else "",
        "num_parameters": sum(math.prod(variable.shape) for variable in model.weights),
        "num_trainable_parameters": sum(math.prod(variable.shape) for variable in model.trainable_variables),
        "num_outputs": outputs[0].shape[-1] if len(outputs) == 1 else None,
    }
    has_own_step = foreign_model.has_own_step(model)
    if has_own_step or not outputs:  # may pass through its layers as often, and as it likes
        code = ".train_step" if has_own_step else ".call"
        return ModelSummary(**known, uncounted_layers=(f"{model.name} ({type(model).__name__}{code})",))
    counted = flops.count_model(model)
    return ModelSummary(
        **known,
        flops_per_sample=counted.forward,
        training_flops_per_sample=counted.training,
        main_product=flops.find_main_product(model) or (),
        uncounted_layers=counted.unknown,
    )


def require_apart(model: Any, splits: Splits) -> None:
    """Raises RecipeError unless a profile can take the step apart: it knows Keras's own, of a graph of layers."""
    from tfbench.models.structure.foreign_model import has_own_step

    ends = [getattr(model, name, None) or () for name in ("inputs", "outputs")]
    if has_own_step(model):
        problem = "a train_step of its own"
    elif [len(end) for end in ends] != [1, 1]:
        problem = "no graph of layers, or several inputs or outputs"
    elif isinstance(splits.train, Split) and len(list_arrays(splits.train.arrays)) != 2:  # inputs and targets
        problem = "data of several arrays"
    else:
        return
    raise RecipeError(
        f"a profile takes Keras's own training step of one input and one output apart. The network has {problem}. "
        "`tfbench run` measures its steps as a whole."
    )
