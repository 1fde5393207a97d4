"""Every shipped recipe loads, names what exists, and carries its published figures."""

import dataclasses
import functools
import math
import operator
import re
from pathlib import Path

import pytest

from tfbench.metrics import METRICS
from tfbench.profiles.readings import PHASES
from tfbench.recipe import files, registry, tables
from tfbench.recipe.sections import Recipe

NAMES = sorted(path.stem for path in files.shipped_folder().glob("*.toml"))

# Figures that are published but are no metric of a run.
OTHER_FIGURES = {
    "convolutions_flops_at_least",
    "convolutions_flops_at_most",
    "convolutions_weights",
    "dense_flops_at_least",
    "dense_flops_at_most",
    "dense_weights",
    "epochs",
    "forward_seconds",
    "backward_seconds",
    "update_seconds",
    "step_seconds",
    "cpu_to_gpu_speed_ratio",
}


def load(name: str) -> Recipe:
    return files.load_recipe(files.find_recipe(name))


@pytest.mark.parametrize("name", NAMES)
def test_loads_and_its_figures_have_known_names_and_whole_curves(name: str) -> None:
    recipe = load(name)
    assert re.match(rf"{recipe.dataset.name}\d*_", name)  # "features4": the number of features
    assert (recipe.dataset.data == "synthetic") == (
        name == "imagenet_alexnet"
    )  # which nobody has at hand
    for reference in recipe.reference:
        assert reference.figures.keys() <= METRICS.keys() | OTHER_FIGURES
        assert reference.curve.keys() <= METRICS.keys()
        if "forward_seconds" in reference.figures:
            phases = [reference.figures[f"{name}_seconds"] for name in PHASES]
            assert sum(phases) == pytest.approx(reference.figures["step_seconds"])
        for metric, values in reference.curve.items():
            assert len(values) == reference.figures["epochs"]
            assert values[-1] == pytest.approx(reference.figures[metric], abs=5e-5)


def test_the_recipe_in_the_docs_loads(tmp_path: Path) -> None:
    page = Path(__file__).parents[3] / "docs" / "how-to" / "recipes.md"
    (text,) = re.findall(r"```toml\n(\[recipe\].*?)```", page.read_text("utf-8"), re.DOTALL)
    (tmp_path / "mine.toml").write_text(text, encoding="utf-8")
    assert files.load_recipe(tmp_path / "mine.toml").recipe.title == "My network"


@pytest.mark.parametrize("name", NAMES)
def test_what_is_expected_agrees_with_what_is_published(name: str) -> None:
    recipe = load(name)
    training = recipe.training
    for metric in ("val_accuracy", "val_loss"):
        bands = getattr(recipe.expect, f"{metric}_at_epoch")
        for reference in recipe.reference:
            if "with Adadelta's former default learning rate" in reference.notes:
                continue  # another training
            curve = dict(enumerate(reference.curve.get(metric, ()), start=1))
            if metric in reference.figures and reference.figures.get("epochs") == training.epochs:
                curve[training.epochs] = reference.figures[metric]
            for epoch, (low, high) in bands.items():
                assert low <= curve.get(int(epoch), low) <= high
            if metric == "val_accuracy" and recipe.expect.target_accuracy and curve:
                assert max(curve.values()) >= recipe.expect.target_accuracy


CHAINERS_ADAM = "training.optimizer.name=adam training.optimizer.epsilon=1e-8"
SOFTMAX_IN_VALIDATION = "training.head=logits training.validation_head=double_softmax"
# Adam's first step is corrected so for good; epsilon within the square root of summed gradients is
# this one outside, of their mean.
SCRATCH_RATE = 0.001 * math.sqrt(1 - 0.999) / (1 - 0.9)
SCRATCH_EPSILON = math.sqrt(1e-8) / 8
# Batch size, epochs, and what else the original has.
VALUES = [
    ("mnist_mlp", 100, 20, f"model.hidden_units=[1000,1000] {CHAINERS_ADAM}"),
    (
        "mnist_cnn",
        128,
        12,
        "training.optimizer.name=adadelta training.optimizer.learning_rate=0.001",
    ),
    (
        "sine_lstm",
        10,
        125,  # times 80 / 10: the original's 1,000 updates
        "model.units=5 model.stateful=true model.reset_state=never dataset.order=random_starts"
        " dataset.train_points=80 training.loss=summed_squared_error",
    ),
    ("cifar10_lenet5", 100, 50, f"dataset.scaling=unit {SOFTMAX_IN_VALIDATION} {CHAINERS_ADAM}"),
    (
        "cifar10_resnet152",
        2048,
        50,
        'recipe.not_meant_for=["cpu"] model.blocks=[3,8,36,3] model.num_outputs=1000'
        f" {SOFTMAX_IN_VALIDATION} {CHAINERS_ADAM}",
    ),
    (
        "mnist_scratch_cnn",
        8,
        5,
        "model.filters=10 model.dense_units=100 model.weight_width=0.05"
        " model.pooling_backward=mask_multiply training.evaluates_training=true"
        " training.stop_below_error_change=1e-8 output.num_predictions=16"
        f" training.optimizer.learning_rate={SCRATCH_RATE}"
        f" training.optimizer.epsilon={SCRATCH_EPSILON}",
    ),
    (
        "svhn_rcnn",
        1024,
        512,
        "model.channels=128 model.num_feedback_steps=3 model.recomputes_feed_forward=true"
        " model.rectifies_first=false model.rectifies_each_step=true model.normalization=bn"
        " model.dropout_rate=0.0 model.batch_statistics_always=true"
        " model.global_pooling=channel_max training.validation_batch_size=128"
        " training.head=double_softmax training.validation_head=double_softmax"
        f" output.checkpoint_every_epochs=10 output.saves_model=true {CHAINERS_ADAM}",
    ),
    (
        "cifar10_convnet",
        128,
        40,
        "model.conv2_kernel=3 dataset.crop=24 dataset.mirror=true dataset.views=10"
        " dataset.scaling=mean_image training.optimizer.name=sgd"
        " training.optimizer.learning_rate=0.001 training.optimizer.momentum=0.9",
    ),
    (
        "imagenet_alexnet",
        128,
        90,
        "model.first_map=63_padded training.optimizer.learning_rate=0.01"
        " training.optimizer.weight_decay=0.0005 training.optimizer.schedule.at=[0.25,0.5,0.75]"
        f" training.optimizer.schedule.divide_by={250 ** (1 / 3)}",
    ),
]


@pytest.mark.parametrize(("name", "batch_size", "epochs", "values"), VALUES)
def test_a_recipe_does_what_the_original_does(
    name: str, batch_size: int, epochs: int, values: str
) -> None:
    recipe = load(name)
    assert (recipe.training.global_batch_size, recipe.training.epochs) == (batch_size, epochs)
    found = tables.to_tables(recipe)
    for key, value in map(tables.parse_override, values.split()):
        value_there = functools.reduce(operator.getitem, key.split("."), found)
        if isinstance(value, float):
            value = pytest.approx(value, rel=1e-3)
        assert value_there == value


def test_cuda_convnet_trains_biases_and_some_kernels_otherwise() -> None:
    groups = load("cifar10_convnet").training.optimizer.groups
    kernels = [(f"{name}/kernel", None, 0.004) for name in ("local3", "local4", "fc10")]
    found = [(group.variables, group.learning_rate, group.weight_decay) for group in groups]
    assert found == [("*/bias", 0.002, None), *kernels]
    (biases,) = load("imagenet_alexnet").training.optimizer.groups
    assert (biases.variables, biases.learning_rate, biases.weight_decay) == ("*/bias", 0.02, 0.0)
    assert (biases.schedule.at, biases.schedule.divide_by) == ((0.5,), 10.0)


@pytest.mark.parametrize(
    ("data", "units"),
    [("mnist", 100), ("mnist", 263), ("features4", 100), ("features4", 21), ("features4", 22)],
)
def test_perceptron_and_recurrent_network_differ_only_in_the_model(data: str, units: int) -> None:
    dense = load(f"{data}_hidden100_mlp")
    recurrent = load(f"{data}_hidden{units}_rnn")
    assert dense.model.options["hidden_units"] == [100]
    assert recurrent.model.name == "simple_rnn"
    assert recurrent.model.options == {"units": units, "activation": "tanh"}
    assert (dense.training, dense.dataset) == (recurrent.training, recurrent.dataset)


@pytest.mark.parametrize("kind", ["models", "datasets"])
def test_every_name_has_a_summary_line_and_a_config(kind: registry.Kind) -> None:
    names = registry.list_names(kind)
    assert names
    for name, line in names.items():  # which `tfbench list` prints
        assert line.endswith("."), f"the first line of {kind}/{name}.py"
        assert dataclasses.is_dataclass(registry.load(kind, name).Config)
