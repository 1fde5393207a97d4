"""Every shipped recipe loads, names what exists, and carries its published figures."""

import math
import re

import pytest

from tfbench.metrics import METRICS
from tfbench.recipe import files
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


def test_the_recipes_are_there() -> None:
    data = {"mnist": "cnn hidden100_mlp hidden100_rnn hidden263_rnn mlp scratch_cnn", "svhn": "rcnn", "sine": "lstm"}
    data |= {"cifar10": "convnet lenet5 resnet152", "imagenet": "alexnet"}
    data |= {"features4": "hidden100_mlp hidden100_rnn hidden21_rnn hidden22_rnn"}
    assert {f"{name}_{model}" for name, models in data.items() for model in models.split()} <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_loads_and_names_its_data_set_first(name: str) -> None:
    recipe = load(name)
    assert re.match(rf"{recipe.dataset.name}\d*_", name)  # "features4": the number of features
    assert (recipe.dataset.data == "synthetic") == (name == "imagenet_alexnet")  # which nobody has at hand


@pytest.mark.parametrize("name", NAMES)
def test_figures_have_known_names(name: str) -> None:
    for reference in load(name).reference:
        assert reference.figures.keys() <= METRICS.keys() | OTHER_FIGURES
        assert reference.curve.keys() <= METRICS.keys()


@pytest.mark.parametrize("name", NAMES)
def test_a_curve_has_one_value_an_epoch_and_ends_in_the_figures(name: str) -> None:
    for reference in load(name).reference:
        for metric, values in reference.curve.items():
            assert len(values) == reference.figures["epochs"]
            assert values[-1] == pytest.approx(reference.figures[metric], abs=5e-5)


@pytest.mark.parametrize("name", NAMES)
def test_every_value_that_is_not_a_default_has_a_comment(name: str) -> None:
    # Names, titles and the published figures explain themselves.
    text = files.find_recipe(name).read_text(encoding="utf-8").partition("[[reference]]")[0]
    text = re.sub(r'"""(?s:.*?)"""', '""', text)
    bare = [
        line
        for line in text.splitlines()
        if "=" in line
        and "#" not in line
        and not line.startswith(("title", "source", "notes", "name", "variables", "instance", "#"))
    ]
    assert bare == []


@pytest.mark.parametrize("name", NAMES)
def test_what_is_expected_agrees_with_what_is_published(name: str) -> None:
    recipe = load(name)
    training = recipe.training
    for metric in ("val_accuracy", "val_loss"):
        bands = {int(epoch): band for epoch, band in getattr(recipe.expect, f"{metric}_at_epoch").items()}
        for reference in recipe.reference:
            if "with Adadelta's former default learning rate" in reference.notes:
                continue  # another training
            curve = dict(enumerate(reference.curve.get(metric, ()), start=1))
            if metric in reference.figures and reference.figures.get("epochs") == training.epochs:
                curve[training.epochs] = reference.figures[metric]
            assert all(low <= curve[epoch] <= high for epoch, (low, high) in bands.items() if epoch in curve)
            if metric == "val_accuracy" and recipe.expect.target_accuracy and curve:
                assert max(curve.values()) >= recipe.expect.target_accuracy


@pytest.mark.parametrize(
    ("name", "epoch", "seen"),
    [
        # Validation accuracies of the recipes as they are, with several seeds where there is more than one.
        ("mnist_mlp", "1", (0.9687, 0.9666, 0.9691, 0.9671)),
        ("mnist_mlp", "20", (0.9837, 0.9836, 0.976, 0.9789)),
        ("mnist_cnn", "5", (0.7246,)),
        ("mnist_cnn", "12", (0.8341,)),
        ("mnist_scratch_cnn", "5", (0.9789,)),
        ("cifar10_lenet5", "50", (0.5989, 0.605)),
    ],
)
def test_what_is_expected_was_seen(name: str, epoch: str, seen: tuple[float, ...]) -> None:
    low, high = load(name).expect.val_accuracy_at_epoch[epoch]
    assert all(low < accuracy < high for accuracy in seen)
    # As far from chance, and from knowing every answer, as a broken or a leaking network is not.
    assert 0.5 < low < high < 0.99


def test_mnist_mlp_is_chainers_example() -> None:
    recipe = load("mnist_mlp")
    assert recipe.model.options["hidden_units"] == [1000, 1000]
    assert (recipe.training.global_batch_size, recipe.training.epochs) == (100, 20)
    assert (recipe.training.optimizer.name, recipe.training.optimizer.epsilon) == ("adam", 1e-8)
    assert [(r.devices, r.figures["elapsed_seconds"], r.figures["val_accuracy"]) for r in recipe.reference] == [
        ("cpu", 131.866, 0.9802),
        ("1 gpu", 34.7934, 0.9835),
        ("2 gpus", 75.3378, 0.9843),
    ]


def test_mnist_cnn_is_kerass_example() -> None:
    recipe = load("mnist_cnn")
    assert (recipe.model.name, recipe.model.options["filters"]) == ("keras_mnist_cnn", [32, 64])
    assert (recipe.training.global_batch_size, recipe.training.epochs) == (128, 12)
    assert (recipe.training.optimizer.name, recipe.training.optimizer.learning_rate) == ("adadelta", 0.001)
    assert set(recipe.reference[0].curve) == {"loss", "accuracy", "val_loss", "val_accuracy"}
    assert recipe.reference[0].figures["val_accuracy"] == 0.8356000185012817


def test_sine_lstm_makes_the_originals_number_of_updates() -> None:
    recipe = load("sine_lstm")
    updates = recipe.training.epochs * recipe.dataset.options["train_points"] // recipe.training.global_batch_size
    assert updates == 1000
    assert (recipe.training.loss, recipe.dataset.options["order"]) == ("summed_squared_error", "random_starts")
    assert recipe.model.options == {"units": 5, "stateful": True, "reset_state": "never"}


@pytest.mark.parametrize(
    ("data", "units"), [("mnist", 100), ("mnist", 263), ("features4", 100), ("features4", 21), ("features4", 22)]
)
def test_perceptron_and_recurrent_network_differ_only_in_the_model(data: str, units: int) -> None:
    dense, recurrent = load(f"{data}_hidden100_mlp"), load(f"{data}_hidden{units}_rnn")
    assert dense.model.options["hidden_units"] == [100]
    assert (recurrent.model.name, recurrent.model.options) == ("simple_rnn", {"units": units, "activation": "tanh"})
    assert (dense.training, dense.dataset) == (recurrent.training, recurrent.dataset)


@pytest.mark.parametrize("data", ["mnist", "features4"])
def test_an_experience_without_figures_of_its_workload_is_not_verified(data: str) -> None:
    claims = [r for r in load(f"{data}_hidden100_mlp").reference if "cpu_to_gpu_speed_ratio" in r.figures]
    assert [(claim.verified, claim.figures) for claim in claims] == [(False, {"cpu_to_gpu_speed_ratio": 10.0})]


def test_features4_recipes_have_four_features_and_one_value_to_predict() -> None:
    recipe = load("features4_hidden100_mlp")
    assert (recipe.dataset.options["num_features"], recipe.dataset.options["time_steps"]) == (4, 1)
    assert recipe.training.loss == "mean_squared_error"
    assert recipe.reference[0].figures == {"num_parameters": 400.0}


def test_cifar10_lenet5_is_as_published() -> None:
    recipe = load("cifar10_lenet5")
    training = recipe.training
    assert (training.global_batch_size, training.epochs, training.optimizer.epsilon) == (100, 50, 1e-8)
    assert (training.head, training.validation_head) == ("logits", "double_softmax")
    assert recipe.dataset.options["scaling"] == "unit"
    assert recipe.dataset.options["crop"] is None
    assert [(r.devices, r.figures["elapsed_seconds"], r.figures["val_loss"]) for r in recipe.reference] == [
        ("cpu", 1313.48, 1.92314),
        ("1 gpu", 127.483, 1.9345),
        ("2 gpus", 273.38, 1.94677),
    ]


def test_cifar10_resnet152_is_as_published() -> None:
    recipe = load("cifar10_resnet152")
    training = recipe.training
    assert (recipe.model.name, recipe.model.options["blocks"]) == ("resnet", [3, 8, 36, 3])
    assert recipe.model.options["num_outputs"] == 1000
    assert (training.global_batch_size, training.epochs, training.optimizer.epsilon) == (2048, 50, 1e-8)
    assert (training.head, training.validation_head) == ("logits", "double_softmax")
    assert recipe.recipe.not_meant_for == ("cpu",)
    assert [(r.devices, r.figures["elapsed_seconds"], r.figures["val_accuracy"]) for r in recipe.reference] == [
        ("1 gpu", 1211.89, 0.474124),
        ("2 gpus", 789.439, 0.459237),
    ]
    # The published losses are out of reach of ten outputs: the second softmax gives at most log(9 + e).
    assert all(r.figures["val_loss"] > math.log(9 + math.e) for r in recipe.reference)
    assert all(r.figures["val_loss"] < math.log(999 + math.e) for r in recipe.reference)


def test_mnist_scratch_cnn_is_as_published() -> None:
    recipe = load("mnist_scratch_cnn")
    training = recipe.training
    assert recipe.model.options == {
        "filters": 10,
        "dense_units": 100,
        "weight_width": 0.05,
        "pooling_backward": "mask_multiply",
    }
    assert (training.global_batch_size, training.epochs) == (8, 5)
    assert (training.evaluates_training, training.stop_below_error_change) == (True, 1e-8)
    # The correction of Adam's first step, for good.
    assert training.optimizer.learning_rate == pytest.approx(0.001 * math.sqrt(1 - 0.999) / (1 - 0.9), rel=1e-3)
    # Within the square root, of summed gradients; outside, of their mean.
    assert training.optimizer.epsilon == pytest.approx(math.sqrt(1e-8) / 8)
    assert recipe.output.num_predictions == 16
    assert [r.figures.get("elapsed_seconds") for r in recipe.reference] == [None, 483.0, 287.0]
    assert [r.figures.get("val_accuracy") for r in recipe.reference] == [None, 9758 / 10000, 9803 / 10000]
    measured = [r.figures["inference_accuracy"] for r in recipe.reference[1:]]
    assert measured == pytest.approx([59148 / 60000, 59528 / 60000], abs=1e-6)
    _, first, last = recipe.reference
    phases = [first.figures[f"{name}_seconds"] for name in ("forward", "backward", "update")]
    assert sum(phases) == pytest.approx(first.figures["step_seconds"])
    assert list(first.layer_seconds) == [f"backward/{name}" for name in ("output", "middle", "pool", "conv")]
    assert sum(first.layer_seconds.values()) == pytest.approx(0.010538)  # 0.152 + 0.224 + 9.72 + 0.442 ms
    assert first.layer_seconds["backward/pool"] / last.layer_seconds["backward/pool"] == pytest.approx(34.7, abs=0.05)
    assert f"{(8 * 14 * 14 * 10) ** 2:,}" in first.not_comparable


def test_svhn_rcnn_is_the_faithful_port() -> None:
    recipe = load("svhn_rcnn")
    training = recipe.training
    assert recipe.model.options == {
        "channels": 128,
        "num_feedback_steps": 3,
        "recomputes_feed_forward": True,
        "rectifies_first": False,
        "rectifies_each_step": True,
        "normalization": "bn",
        "batch_norm_momentum": 0.9,
        "batch_norm_epsilon": 2e-5,
        "batch_statistics_always": True,
        "dropout_rate": 0.0,
        "global_pooling": "channel_max",
    }
    assert (training.global_batch_size, training.validation_batch_size, training.epochs) == (1024, 128, 512)
    assert (training.head, training.validation_head) == ("double_softmax", "double_softmax")
    assert (training.optimizer.name, training.optimizer.epsilon) == ("adam", 1e-8)
    assert (recipe.output.snapshot_every_epochs, recipe.output.saves_model) == (10, True)


def test_svhn_rcnn_carries_what_the_article_paid_and_reached() -> None:
    recipe = load("svhn_rcnn")
    ours, month_before, *paper = recipe.reference
    assert (ours.figures["accuracy"], ours.figures["val_accuracy"]) == (0.9866, 0.9577)
    averages = [bill.figures["cost/machine"] / bill.figures["cost/hours"] for bill in (ours, month_before)]
    assert averages == pytest.approx([0.171, 0.196], abs=5e-4)
    assert [(r.verified, r.figures["test_accuracy"]) for r in paper] == [
        (True, 0.9813),
        (False, 0.9813),
        (False, 0.982),
        (False, 0.9823),
    ]
    assert recipe.cost.price_per_hour is None  # a run elsewhere does not cost what that machine did


def test_cifar10_convnet_trains_as_cuda_convnet() -> None:
    recipe = load("cifar10_convnet")
    optimizer = recipe.training.optimizer
    assert recipe.training.global_batch_size == 128
    assert (optimizer.name, optimizer.learning_rate, optimizer.momentum, optimizer.weight_decay) == (
        "sgd",
        0.001,
        0.9,
        0.0,
    )
    assert [(g.variables, g.learning_rate, g.weight_decay) for g in optimizer.groups] == [
        ("*/bias", 0.002, None),
        ("local3/kernel", None, 0.004),
        ("local4/kernel", None, 0.004),
        ("fc10/kernel", None, 0.004),
    ]
    assert recipe.model.options["conv2_kernel"] == 3
    assert recipe.dataset.options == {"crop": 24, "mirror": True, "scaling": "mean_image", "views": 10}
    assert [(r.verified, r.figures) for r in recipe.reference] == [
        (False, {"elapsed_seconds": 1200.0, "val_accuracy": 0.87}),
        (True, {"num_parameters": 1_048_512.0}),
    ]


def test_imagenet_alexnet_trains_as_cuda_convnet2() -> None:
    recipe = load("imagenet_alexnet")
    training, optimizer = recipe.training, recipe.training.optimizer
    assert (training.global_batch_size, training.epochs) == (128, 90)
    assert (optimizer.learning_rate, optimizer.momentum, optimizer.weight_decay) == (0.01, 0.9, 0.0005)
    assert optimizer.schedule.at == (0.25, 0.5, 0.75)
    assert optimizer.schedule.divide_by**3 == pytest.approx(250)
    (biases,) = optimizer.groups
    assert (biases.variables, biases.learning_rate, biases.weight_decay) == ("*/bias", 0.02, 0.0)
    assert (biases.schedule.at, biases.schedule.divide_by) == ((0.5,), 10.0)
    assert recipe.model.options["first_map"] == "63_padded"
    assert recipe.reference[0].figures == {"num_parameters": 74_721_984.0}


def test_imagenet_alexnets_figures_from_memory_are_not_verified_and_fit_their_speed_ups() -> None:
    *remembered, shares = [r for r in load("imagenet_alexnet").reference if not r.verified]
    one_gpu = remembered[0].figures["elapsed_seconds"]
    assert [(r.devices, round(one_gpu / r.figures["elapsed_seconds"], 2)) for r in remembered] == [
        ("1 gpu", 1.0),
        ("2 gpus", 1.95),
        ("2 gpus", 1.93),
        ("4 gpus", 3.74),
        ("4 gpus", 3.66),
        ("8 gpus", 6.25),
        ("8 gpus", 6.16),
    ]
    assert shares.figures.keys() == SHARES
