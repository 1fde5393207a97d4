"""How a training of each recipe begins, at a small size, on the backend of this process.

    KERAS_BACKEND=tensorflow python tests/support/first_steps.py  # writes what every backend is compared with

The first batch, the initial weights, their loss in inference mode, and the losses of the first
steps, with the recipe's own optimizer. Dropout is off: each backend draws its own.
"""

import hashlib
import itertools
import json
import sys
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from tfbench import backends
from tfbench.datasets.sources import synthetic
from tfbench.measure.compiled_model import build_compiled_model
from tfbench.measure.process_settings import configure_keras
from tfbench.recipe import registry
from tfbench.recipe.dataset_spec import DatasetSpec
from tfbench.recipe.files import find_recipe, list_recipes, load_recipe
from tfbench.recipe.sections import Recipe

FILE = Path(__file__).parents[1] / "data" / "first_steps.json"
FACTOR = 10  # of what TensorFlow's two orders of sums differ by; seen: twice
ROUNDING = 2e-6  # of a loss, where these two happen to agree
FIRST_STEPS = 5
PARTED = 1e-5  # difference of the two from which on they are no guide
NUM_STEPS = 50

_SMALL: dict[str, dict[str, Any]] = {
    "mlp": {"model.hidden_units": [16]},
    "keras_mnist_cnn": {
        "model.filters": [4, 4],
        "model.dense_units": 8,
        "model.dropout_rates": [0.0, 0.0],
    },
    "simple_rnn": {},
    "sine_lstm": {"model.stateful": False},  # only TensorFlow carries a state on
    "lenet5": {"model.filters": [4, 4, 8], "model.dense_units": 8},
    # Of few samples, the statistics of a batch make rounding errors grow within steps.
    "resnet": {
        "model.blocks": [1, 1, 1, 1],
        "model.first_width": 4,
        "training.global_batch_size": 64,
    },
    "scratch_cnn": {"model.filters": 4, "model.dense_units": 8},
    "rcnn": {"model.channels": 4, "model.num_feedback_steps": 1, "model.dropout_rate": 0.0},
    "cifar10_convnet": {"model.filters": [4, 4, 4, 4]},
    "imagenet_alexnet": {
        "model.filters": [4, 4, 4, 4, 4],
        "model.dense_units": 8,
        "model.dropout_rate": 0.0,
        "dataset.num_classes": 10,
    },
    "vit": {"model.width": 8, "model.depth": 2, "model.num_heads": 2},
    "gpt": {"model.width": 8, "model.depth": 2, "model.num_heads": 2, "dataset.context": 16},
}
_OPTIMIZERS: dict[str, dict[str, Any]] = {
    "own": {},
    "sgd": {"training.optimizer": {"name": "sgd", "learning_rate": 0.001, "momentum": 0.9}},
}
# Dense, convolutional and recurrent; what an optimizer does is the same in every network.
_WITH_SGD = ("mnist_mlp", "cifar10_lenet5", "mnist_hidden100_rnn")


def list_cases() -> list[tuple[str, str]]:
    """Returns every recipe with its own optimizer, and some with SGD."""
    own = [(recipe, "own") for recipe in list_recipes()]
    return own + [(recipe, "sgd") for recipe in _WITH_SGD]


def load_small(name: str, optimizer: str, **values: Any) -> Recipe:
    """Loads a recipe with a small network and synthetic data, for the backend of this process."""
    path = find_recipe(name)
    model = load_recipe(path).model.name
    small: dict[str, Any] = {"training.backend": backends.find_name(), "dataset.data": "synthetic"}
    if not model.startswith("sine"):  # whose rows go on from batch to batch
        small["training.global_batch_size"] = 8
    small |= _SMALL[model]
    return load_recipe(path, small | _OPTIMIZERS[optimizer] | values)


def set_up(recipe: Recipe) -> None:
    """Sets what a measuring process sets, as far as it can still be set.

    A process that has computed already does not take all of it.
    """
    import keras

    keras.utils.set_random_seed(recipe.training.seed)
    configure_keras(recipe.training)


def describe(recipe: Recipe) -> DatasetSpec:
    """Returns what is known of a recipe's data."""
    module = registry.load("datasets", recipe.dataset.name)
    spec: DatasetSpec = module.describe(module.Config(**recipe.dataset.options))
    return spec


def begin(recipe: Recipe, *, num_steps: int = NUM_STEPS) -> dict[str, Any]:
    """Trains for some steps, and returns what they began with and their losses."""
    backend = backends.current()
    training = recipe.training
    spec = describe(recipe)
    set_up(recipe)
    with mock.patch.object(synthetic, "POOL_BYTES", 2**24):  # of images; a run makes more
        splits = synthetic.generate_splits(spec, seed=training.seed)
    model = build_compiled_model(recipe.model, training, spec)
    weights = hashlib.sha256()
    for variable in model.weights:
        weights.update(backend.to_numpy(variable).tobytes())
    stream = backend.build_training_dataset(
        splits, global_batch_size=training.global_batch_size, seed=training.seed
    )
    batches = [
        [np.asarray(values) for values in batch] for batch in itertools.islice(stream, num_steps)
    ]
    batch = hashlib.sha256(b"".join(array.tobytes() for array in batches[0])).hexdigest()
    inference = float(model.test_on_batch(*batches[0], return_dict=True)["loss"])
    return {
        "batch": batch[:16],
        "weights": weights.hexdigest()[:16],
        "inference_loss": inference,
        "losses": [_step(model, batch) for batch in batches],
    }


def read_expected() -> dict[str, dict[str, Any]]:
    """Returns how training of each recipe begins, by "recipe optimizer".

    It was recorded with TensorFlow on a processor.
    """
    known: dict[str, dict[str, Any]] = json.loads(FILE.read_text(encoding="utf-8"))
    return known


def find_apart(found: dict[str, Any], expected: dict[str, Any], *, times: float = 1) -> list[Any]:
    """Returns what differs by more than rounding may.

    Other batches and weights, and losses by their steps.

    How far losses may be apart comes from two computations of the same by TensorFlow, in another
    order of sums: its graph's and XLA's. What differs in the last bit after one step differs by
    more after each later one, in some networks until nothing is alike; beyond the first steps,
    losses are compared until these two part.

    Args:
        found: As of `begin`.
        expected: As of `read_expected`.
        times: By how much more than a sum in another order the device's way of computing may lose.
    """
    apart: list[Any] = [name for name in ("batch", "weights") if found[name] != expected[name]]
    before = found["inference_loss"]
    known = expected["inference_loss"]
    if not abs(before - known) <= times * 1e-5 * abs(known):
        apart.append(("before", before, known))
    steps = zip(found["losses"], expected["losses"], expected["spread"], strict=True)
    for number, (loss, known, spread) in enumerate(steps, 1):
        bound = ROUNDING * max(1.0, abs(known))
        if number > 1:
            bound = max(bound, FACTOR * spread)
        is_held = number <= FIRST_STEPS or spread < PARTED
        if is_held and not abs(loss - known) <= times * bound:  # nan is apart, too
            apart.append((number, loss, known))
    return apart


def _step(model: Any, batch: list[Any]) -> float:
    """Returns the loss of one step; Keras's own is a mean over all steps since the last reset."""
    model.reset_metrics()
    return float(model.train_on_batch(*batch, return_dict=True)["loss"])


def main() -> None:
    """Writes what TensorFlow's graph does, and how far another order of sums, XLA's, is from it.

    Of the recipes named on the command line; without any, of all.
    """
    known: dict[str, Any] = (
        json.loads(FILE.read_text(encoding="utf-8")) if len(sys.argv) > 1 else {}
    )
    found = {key: one for key, one in known.items() if key in map(" ".join, list_cases())}
    for name, optimizer in list_cases():
        if name not in (sys.argv[1:] or [name]):
            continue
        one = begin(load_small(name, optimizer))
        other = begin(load_small(name, optimizer, **{"training.compiler": "xla"}))
        spread = np.maximum.accumulate(np.abs(np.subtract(one["losses"], other["losses"])))
        found[f"{name} {optimizer}"] = one | {
            "losses": [float(f"{loss:.9g}") for loss in one["losses"]],
            "spread": [float(f"{value:.2g}") for value in spread],
        }
        shown = (name, optimizer, one["losses"][0], one["losses"][-1], spread[4], spread[-1])
        print(*shown, file=sys.stderr)  # noqa: T201
    FILE.write_text(
        json.dumps(found, indent=None, separators=(",", ":")).replace('},"', '},\n"') + "\n",
        encoding="utf-8",
    )


if __name__ == "__main__":
    main()
