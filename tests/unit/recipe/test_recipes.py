"""Every shipped recipe loads, names what exists, and carries its published figures."""

import functools
import math
import operator
import re
from pathlib import Path

import pytest

from tfbench.metrics import METRICS
from tfbench.recipe import files, tables
from tfbench.recipe.sections import Recipe

NAMES = sorted(path.stem for path in files.shipped_folder().glob("*.toml"))

# Figures that are published but are no metric of a run.
SHARES = {
    *("convolutions_flops_at_least", "convolutions_flops_at_most", "convolutions_weights"),
    *("dense_flops_at_least", "dense_flops_at_most", "dense_weights"),
}
OTHER_FIGURES = SHARES | {
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
        for metric, values in reference.curve.items():
            assert len(values) == reference.figures["epochs"]
            assert values[-1] == pytest.approx(reference.figures[metric], abs=5e-5)


def test_the_recipe_in_the_docs_loads(tmp_path: Path) -> None:
    page = (Path(__file__).parents[3] / "docs" / "how-to" / "recipes.md").read_text(
        encoding="utf-8"
    )
    (text,) = re.findall(r"```toml\n(\[recipe\].*?)```", page, re.DOTALL)
    (tmp_path / "mine.toml").write_text(text, encoding="utf-8")
    assert files.load_recipe(tmp_path / "mine.toml").recipe.title == "My network"


@pytest.mark.parametrize("name", NAMES)
def test_what_is_expected_agrees_with_what_is_published(name: str) -> None:
    recipe = load(name)
    training = recipe.training
    for metric in ("val_accuracy", "val_loss"):
        bands = {
            int(epoch): band for epoch, band in getattr(recipe.expect, f"{metric}_at_epoch").items()
        }
        for reference in recipe.reference:
            if "with Adadelta's former default learning rate" in reference.notes:
                continue  # another training
            curve = dict(enumerate(reference.curve.get(metric, ()), start=1))
            if metric in reference.figures and reference.figures.get("epochs") == training.epochs:
                curve[training.epochs] = reference.figures[metric]
            assert all(
                low <= curve[epoch] <= high
                for epoch, (low, high) in bands.items()
                if epoch in curve
            )
            if metric == "val_accuracy" and recipe.expect.target_accuracy and curve:
                assert max(curve.values()) >= recipe.expect.target_accuracy


CHAINERS_ADAM = "training.optimizer.name=adam training.optimizer.epsilon=1e-8"
SOFTMAX_IN_VALIDATION = "training.head=logits training.validation_head=double_softmax"
# Adam's first step is corrected so for good; epsilon within the square root of summed gradients is
# this one outside, of their mean.
SCRATCH_RATE = 0.001 * math.sqrt(1 - 0.999) / (1 - 0.9)
SCRATCH_EPSILON = math.sqrt(1e-8) / 8
# Batch size, epochs, and what else the original has.
VALUES = {
    "mnist_mlp": (100, 20, f"model.hidden_units=[1000,1000] {CHAINERS_ADAM}"),
    "mnist_cnn": (
        128,
        12,
        "training.optimizer.name=adadelta training.optimizer.learning_rate=0.001",
    ),
    "sine_lstm": (  # 125 times 80 / 10: the original's 1,000 updates
        *(
            10,
            125,
            "model.units=5 model.stateful=true model.reset_state=never dataset.order=random_starts",
        ),
        "dataset.train_points=80 training.loss=summed_squared_error",
    ),
    "cifar10_lenet5": (100, 50, f"dataset.scaling=unit {SOFTMAX_IN_VALIDATION} {CHAINERS_ADAM}"),
    "cifar10_resnet152": (
        *(2048, 50, 'recipe.not_meant_for=["cpu"] model.blocks=[3,8,36,3] model.num_outputs=1000'),
        f"{SOFTMAX_IN_VALIDATION} {CHAINERS_ADAM}",
    ),
    "mnist_scratch_cnn": (
        *(
            8,
            5,
            (
                "model.filters=10 model.dense_units=100 model.weight_width=0.05"
                " model.pooling_backward=mask_multiply"
            ),
        ),
        (
            "training.evaluates_training=true training.stop_below_error_change=1e-8"
            " output.num_predictions=16"
        ),
        (
            f"training.optimizer.learning_rate={SCRATCH_RATE}"
            f" training.optimizer.epsilon={SCRATCH_EPSILON}"
        ),
    ),
    "svhn_rcnn": (
        *(
            1024,
            512,
            "model.channels=128 model.num_feedback_steps=3 model.recomputes_feed_forward=true",
        ),
        (
            "model.rectifies_first=false model.rectifies_each_step=true model.normalization=bn"
            " model.dropout_rate=0.0"
        ),
        (
            "model.batch_statistics_always=true model.global_pooling=channel_max"
            " training.validation_batch_size=128"
        ),
        "training.head=double_softmax training.validation_head=double_softmax",
        f"output.checkpoint_every_epochs=10 output.saves_model=true {CHAINERS_ADAM}",
    ),
    "cifar10_convnet": (
        *(128, 40, "model.conv2_kernel=3 dataset.crop=24 dataset.mirror=true dataset.views=10"),
        (
            "dataset.scaling=mean_image training.optimizer.name=sgd"
            " training.optimizer.learning_rate=0.001"
        ),
        "training.optimizer.momentum=0.9",
    ),
    "imagenet_alexnet": (
        *(128, 90, "model.first_map=63_padded training.optimizer.learning_rate=0.01"),
        "training.optimizer.weight_decay=0.0005 training.optimizer.schedule.at=[0.25,0.5,0.75]",
        f"training.optimizer.schedule.divide_by={250 ** (1 / 3)}",
    ),
}


@pytest.mark.parametrize("name", VALUES)
def test_a_recipe_does_what_the_original_does(name: str) -> None:
    found = tables.to_tables(load(name))
    batch_size, epochs, *others = VALUES[name]
    wanted = dict(tables.parse_override(text) for text in " ".join(others).split())
    for key, value in (
        wanted | {"training.global_batch_size": batch_size, "training.epochs": epochs}
    ).items():
        value_there = functools.reduce(operator.getitem, key.split("."), found)
        assert value_there == (
            pytest.approx(value, rel=1e-3) if isinstance(value, float) else value
        )


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
    assert (recurrent.model.name, recurrent.model.options) == (
        "simple_rnn",
        {"units": units, "activation": "tanh"},
    )
    assert (dense.training, dense.dataset) == (recurrent.training, recurrent.dataset)


def test_mnist_scratch_cnn_carries_what_was_published() -> None:
    recipe = load("mnist_scratch_cnn")
    assert [r.figures.get("elapsed_seconds") for r in recipe.reference] == [None, 483.0, 287.0]
    assert [r.figures.get("val_accuracy") for r in recipe.reference] == [
        None,
        9758 / 10000,
        9803 / 10000,
    ]
    measured = [r.figures["inference_accuracy"] for r in recipe.reference[1:]]
    assert measured == pytest.approx([59148 / 60000, 59528 / 60000], abs=1e-6)
    first = recipe.reference[1]
    phases = [first.figures[f"{name}_seconds"] for name in ("forward", "backward", "update")]
    assert sum(phases) == pytest.approx(first.figures["step_seconds"])
    assert f"{(8 * 14 * 14 * 10) ** 2:,}" in first.not_comparable
