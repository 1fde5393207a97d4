"""A recipe to begin with: what must be chosen, and what its model and data set take."""

from typing import Any

from tfbench.errors import UnknownNameError
from tfbench.recipe import registry
from tfbench.recipe.optimizers import AdamConfig
from tfbench.recipe.toml_text import format_toml
from tfbench.schema import to_plain

_BATCH_SIZE, _EPOCHS = 128, 10
_MIN_STEPS = 8  # of an epoch
_HEAD = """\
#:schema recipe.schema.json
# Editors explain and complete the keys, and those left out, by that file, which `tfbench schema` prints."""


def write_template(model: str, dataset: str) -> str:
    """Returns a recipe file for a network and a data set.

    Args:
        model: A model of `registry.list_names`, the path of a `.keras` file, or a function of the user's.
        dataset: A data set, or such a function.

    Raises:
        UnknownNameError: There is no such model or data set.
    """
    num_outputs, num_samples = 10, _BATCH_SIZE * _MIN_STEPS  # of a user's data, of which only its code knows more
    data: dict[str, Any] = {"name": dataset}
    if not registry.is_code(dataset):
        module = registry.load("datasets", dataset)
        spec = module.describe(module.Config())
        num_outputs, num_samples = spec.num_classes or 0, spec.train_samples
        data |= {"data": "real", **to_plain(module.Config())}
    batch_size = min(_BATCH_SIZE, num_samples // _MIN_STEPS)
    loss = {} if num_outputs else {"loss": "mean_squared_error"}
    optimizer = to_plain(AdamConfig())
    tables = {
        "recipe": {"title": f"{model} on {dataset}", "source": "my own"},
        "model": _model_table(model, num_outputs or 1),
        "dataset": data,
        "training": {"global_batch_size": batch_size, "epochs": _EPOCHS, **loss, "optimizer": optimizer},
        "sweep": {"training.global_batch_size": [batch_size // 4 or 1, batch_size, batch_size * 4]},
    }
    return f"{_HEAD}\n\n{format_toml(tables)}"


def _model_table(model: str, num_outputs: int) -> dict[str, Any]:
    if model.endswith(".keras"):
        return {"file": model}
    if model == "keras_file":
        raise UnknownNameError("--model keras_file: name the file itself, such as net.keras.")
    options: dict[str, Any] = {}
    if model == "layers":
        hidden = {"type": "Dense", "units": 100, "activation": "relu"}
        options = {"layer": [{"type": "Flatten"}, hidden, {"type": "Dense", "units": num_outputs}]}
    elif not registry.is_code(model):
        needed = {"architecture": "ResNet50"} if model == "keras_application" else {}
        options = to_plain(registry.load("models", model).Config(**needed))
    return {"name": model, **options}
