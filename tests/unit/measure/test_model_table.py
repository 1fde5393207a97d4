"""The table of a network's layers.

The two published tables, row by row, and networks that are nested or odd.
"""

import functools
import json
from typing import Any

import keras
import pytest
from keras import layers

from builders import build_recipe, build_spec
from kinds import Fields, Golden
from tfbench.cli.show import parse_report
from tfbench.errors import RecipeError, UnknownNameError
from tfbench.measure.layer_counts import build_table, report_on, tabulate
from tfbench.recipe import files, registry
from tfbench.recipe import tables as recipe_tables
from tfbench.recipe.dataset_spec import DatasetSpec
from tfbench.recipe.sections import ModelConfig, TrainingConfig
from tfbench.runs.layer_record import LayerRow, ModelTable
from tfbench.runs.layer_table import model_sections
from tfbench.schema import to_plain
from tfbench.show.table import text as text_of

SAMPLES = {"train_samples": 50_000, "validation_samples": 10_000}
CROPS = build_spec((24, 24, 3), stored_shape=(32, 32, 3), **SAMPLES)
PHOTOS = build_spec((224, 224, 3), 1000)


@functools.cache
def table_of(name: str, spec: DatasetSpec, **options: Any) -> ModelTable:
    training = TrainingConfig(global_batch_size=1, epochs=1)
    module = registry.load("models", name)
    return build_table(
        ModelConfig(name=name, options=to_plain(module.Config(**options))), training, spec
    )


# Slides "CUDA ConvNet and Deep Learning with MultiGPU": outputs, weights, channels and width of the
# input, filters, filter width, stride of each kind of layer; test_the_sums has all. None: the
# slides leave it blank, and so does the table.
IMAGENET = {
    "data": (150_528, 0, None, None, None, None, None),
    "conv1": (254_016, 23_232, 3, 224, 64, 11, 4),
    "rnorm1": (254_016, 0, 64, 63, None, 5, None),
    "pool1": (61_504, 0, 64, 63, None, 3, 2),
    "fc4096a": (4_096, 51_380_224, 256, 7, None, None, None),
    "dropout1": (4_096, 0, 4_096, None, None, None, None),
    "probs": (1_000, 0, 1_000, None, None, None, None),
}


def test_layers_have_the_published_sizes() -> None:
    rows = {row.name: row for row in table_of("imagenet_alexnet", PHOTOS).layers}
    for name, published in IMAGENET.items():
        row = rows[name]
        *places, channels = row.input_shape or (None,)
        window = [next(iter(sizes), None) for sizes in (places, row.kernel_size, row.strides)]
        place, kernel, stride = window
        counts = (row.num_outputs, row.num_kernel_weights)
        assert (*counts, channels, place, row.filters, kernel, stride) == published


@pytest.mark.parametrize(
    ("name", "spec", "num_outputs", "num_kernel_weights", "num_biases"),
    [
        ("cifar10_convnet", CROPS, 61_653, 1_048_512, 2_442),
        ("imagenet_alexnet", PHOTOS, 1_364_817, 74_721_984, 10_344),
    ],
)
def test_the_sums_are_the_published_ones(
    name: str, spec: DatasetSpec, num_outputs: int, num_kernel_weights: int, num_biases: int
) -> None:
    table = table_of(name, spec)
    assert (table.num_outputs, table.num_kernel_weights) == (num_outputs, num_kernel_weights)
    assert table.num_parameters == table.num_trainable_parameters == num_kernel_weights + num_biases
    assert sum(row.num_parameters for row in table.layers) == table.num_parameters
    assert sum(row.flops_per_sample or 0 for row in table.layers) == table.flops_per_sample
    assert (
        sum(row.training_flops_per_sample or 0 for row in table.layers)
        == table.training_flops_per_sample
    )


WAVES = build_spec((10, 1), None)
LSTM = {"num_parameters": 236, "flops_per_sample": 2 * 10 * (5 + 4 * 5 * (5 + 5) + 5)}


@pytest.mark.parametrize(
    ("name", "spec", "options", "figures"),
    [
        (  # moving averages are parameters, but neither kernels nor trained
            "rcnn",
            build_spec((32, 32, 3)),
            {},
            {
                "num_parameters": 1_193_610,
                "num_trainable_parameters": 1_192_330,
                "num_kernel_weights": 75 * 128 + 4 * 2 * 9 * 128 * 128 + 64 * 10,
                "flops_per_sample": 1_340_867_840,
            },
        ),
        (  # weights take no memory, so that any size can be looked at: 4 TB
            "mlp",
            build_spec((28, 28, 1)),
            {"hidden_units": (1_000_000, 1_000_000)},
            {"num_kernel_weights": 784 * 10**6 + 10**12 + 10 * 10**6},
        ),
        ("sine_lstm", WAVES, {"stateful": False}, LSTM),
        # A layer that makes its state from values is built with memory.
        ("sine_lstm", WAVES, {"stateful": True}, LSTM),
    ],
)
def test_a_table_has_the_figures_worked_out_by_hand(
    name: str, spec: DatasetSpec, options: Fields, figures: Fields
) -> None:
    table = table_of(name, spec, **options)
    assert {key: getattr(table, key) for key in figures} == figures


@pytest.mark.parametrize(
    ("name", "layer", "strides"), [("scratch_cnn", "pool", (2, 2)), ("rcnn", "rcl2", (1, 1))]
)
def test_layers_that_keras_lacks_have_their_strides_too(
    name: str, layer: str, strides: tuple[int, int]
) -> None:
    table = table_of(name, build_spec((28, 28, 1)))
    assert [row.strides for row in table.layers if row.name == layer] == [strides]


def bottlenecks(size: int, count: int, in_channels: int, middle: int, out: int) -> int:
    """Counts the products of one stage of a residual network.

    Its first block makes the image `size` wide.
    """
    places = size * size
    following = out * middle + 9 * middle * middle + middle * out
    first = in_channels * middle + 9 * middle * middle + middle * out + in_channels * out
    return places * (first + (count - 1) * following)


def blocks(count: int, positions: int, width: int) -> int:
    """Counts the products of blocks of a transformer.

    Four projections, and an MLP of four times the width and back.

    Each position has a score for every other, and a sum of the values that it weighs. Masked scores
    are computed, too.
    """
    return count * (positions * (4 + 2 * 4) * width * width + 2 * positions * positions * width)


# Products of the forward pass of one sample, weights times the places at which they are used; and
# those of them that are with the data: a step needs no gradient of them with respect to the data,
# which makes it fewer than three forward passes. Recurrent layers multiply their own state besides,
# which has one.
PRODUCTS = {
    "mnist_mlp": (784 * 1000 + 1000 * 1000 + 1000 * 10, 784 * 1000),
    "mnist_cnn": (676 * 9 * 32 + 576 * 9 * 32 * 64 + 9216 * 128 + 128 * 10, 676 * 9 * 32),
    "mnist_scratch_cnn": (784 * 9 * 10 + 1960 * 100 + 100 * 10, 784 * 9 * 10),
    "mnist_hidden100_mlp": (784 * 100 + 100 * 10, 784 * 100),
    "mnist_hidden100_rnn": (28 * (28 * 100 + 100 * 100) + 100 * 10, 28 * 28 * 100),
    "mnist_hidden263_rnn": (28 * (28 * 263 + 263 * 263) + 263 * 10, 28 * 28 * 263),
    "features4_hidden100_mlp": (4 * 100 + 100, 4 * 100),
    # One step each; test_flops.py has 28 of them.
    "features4_hidden100_rnn": (4 * 100 + 100 * 100 + 100, 4 * 100),
    "features4_hidden21_rnn": (4 * 21 + 21 * 21 + 21, 4 * 21),
    "features4_hidden22_rnn": (4 * 22 + 22 * 22 + 22, 4 * 22),
    "sine_lstm": (
        10 * (5 + 4 * (5 * 5 + 5 * 5) + 5),
        10 * 5,
    ),  # a dense layer before the recurrent one
    "cifar10_lenet5": (
        784 * 25 * 3 * 6 + 100 * 25 * 6 * 16 + 4 * 16 * 16 * 120 + 480 * 84 + 84 * 10,
        784 * 25 * 3 * 6,
    ),
    "cifar10_convnet": (576 * 4_800 + 144 * 36_864 + 663_552 + 331_776 + 11_520, 576 * 4_800),
    "cifar10_resnet152": (
        256 * 49 * 3 * 64
        + bottlenecks(8, 3, 64, 64, 256)
        + bottlenecks(4, 8, 256, 128, 512)
        + bottlenecks(2, 36, 512, 256, 1024)
        + bottlenecks(1, 3, 1024, 512, 2048)
        + 2048 * 1000,
        256 * 49 * 3 * 64,
    ),
    "cifar10_vit": (64 * 48 * 64 + blocks(4, 64, 64) + 64 * 10, 64 * 48 * 64),
    "text_gpt": (blocks(4, 64, 128) + 64 * 128 * 256, 0),  # the data are numbers of rows
    # conv1, then twice seven 3x3 convolutions of 128 channels at 16x16 places and twice at 8x8
    "svhn_rcnn": (1024 * 75 * 128 + 2 * 7 * (256 + 64) * 9 * 128 * 128 + 64 * 10, 1024 * 75 * 128),
    "imagenet_alexnet": (
        3969 * 23_232
        + 961 * 307_200
        + 225 * (663_552 + 884_736 + 589_824)
        + (51_380_224 + 16_777_216 + 4_096_000),
        3969 * 23_232,
    ),
}


@pytest.mark.parametrize(
    "name", sorted(path.stem for path in files.shipped_folder().glob("*.toml"))
)
def test_every_shipped_recipe_costs_what_was_worked_out_by_hand(name: str) -> None:
    tables = recipe_tables.to_tables(files.load_recipe(files.find_recipe(name)))
    report = report_on({"name": name, "tables": tables})
    products, with_data = PRODUCTS[name]
    assert report["flops_per_sample"] == 2 * products
    assert report["training_flops_per_sample"] == 2 * (3 * products - with_data)
    assert sum(row["num_parameters"] for row in report["layers"]) == report["num_parameters"]


def tabulate_layers(spec: DatasetSpec, *layers: Any) -> ModelTable:
    return tabulate(keras.Sequential([keras.Input(spec.input_shape), *layers]), spec)


def test_data_without_classes_has_targets_and_no_probabilities() -> None:
    table = table_of("sine_lstm", build_spec((10, 1), None))
    assert [(row.name, row.num_outputs) for row in table.layers] == [
        *[("data", 10), ("targets", 10)],
        *[(row.name, 10 * units) for row, units in zip(table.layers[2:], (5, 5, 1), strict=True)],
    ]


def test_layers_that_only_rearrange_have_no_row_and_their_input_is_the_next_ones() -> None:
    table = tabulate_layers(
        build_spec((4, 6, 3)),
        layers.Rescaling(2.0),
        layers.ZeroPadding2D(1),
        layers.Conv2D(2, (3, 1), strides=(1, 2), name="conv"),
        layers.ReLU(),
        layers.Permute((2, 1, 3)),
        layers.Flatten(),
        layers.Dense(10, name="dense"),
    )
    assert [row.name for row in table.layers] == ["data", "labels", "conv", "dense", "probs"]
    conv, dense = table.layers[2:4]
    assert (conv.input_shape, conv.output_shape, conv.num_outputs) == ((4, 6, 3), (4, 4, 2), 32)
    assert (conv.kernel_size, conv.strides) == ((3, 1), (1, 2))
    assert dense.input_shape == (4, 4, 2)
    assert dense.flops_per_sample == 2 * 32 * 10


def test_a_layer_that_is_used_again_has_its_weights_once_and_its_work_twice() -> None:
    shared = layers.Dense(4, name="shared")
    inputs = keras.Input((4,))
    table = tabulate(
        keras.Model(inputs, layers.Dense(10)(shared(shared(inputs)))), build_spec((4,))
    )
    first, second = table.layers[2:4]
    assert (first.num_parameters, first.is_used_again, first.flops_per_sample) == (20, False, 32)
    assert (second.num_parameters, second.is_used_again, second.flops_per_sample) == (0, True, 32)
    assert table.num_parameters == 20 + 50


def test_a_nested_model_is_taken_apart_and_joined_to_what_is_around_it() -> None:
    inner = keras.Sequential(
        [keras.Input((4, 4, 3)), layers.ZeroPadding2D(1), layers.Conv2D(2, 3), layers.Flatten()]
    )
    table = tabulate_layers(build_spec((4, 4, 3)), inner, layers.Dense(10, name="dense"))
    assert [row.kind for row in table.layers] == ["data", "labels", "Conv2D", "Dense", "softmax"]
    assert [row.input_shape for row in table.layers[2:4]] == [(4, 4, 3), (4, 4, 2)]


def test_a_model_class_without_a_graph_is_one_row_and_its_flops_are_not_known() -> None:
    class Net(keras.Model):
        def __init__(self) -> None:
            super().__init__(name="net")
            self.dense = keras.layers.Dense(10)

        def call(self, inputs: Any) -> Any:
            return self.dense(inputs)

    table = tabulate_layers(build_spec((4,)), Net())
    assert [(row.name, row.num_parameters) for row in table.layers[2:3]] == [("net", 50)]
    assert table.flops_per_sample is None
    assert table.notes == (
        (
            "FLOPs are not available, since those of net (Net) are not known. A layer of your own"
            " says them in a method forward_flops(input_shape, output_shape)."
        ),
    )


# Between the processes


def request(**sections: Any) -> Fields:
    return {"name": "test", "tables": recipe_tables.to_tables(build_recipe(**sections))}


def parse(report: Fields) -> ModelTable:
    return parse_report(json.dumps(report), "", 0)


def test_the_table_comes_through_as_json() -> None:
    report = json.dumps(report_on(request()))
    table = parse_report(f"what a user's code prints\n{report}\n", "", 0)
    assert (table.num_parameters, table.layers[2].input_shape) == (
        784 * 4 + 4 + 4 * 10 + 10,
        (28, 28, 1),
    )
    assert parse(to_plain(table)) == table


def test_an_error_comes_through_as_the_class_that_it_is() -> None:
    tables = request()["tables"]
    tables["model"]["name"] = "mpl"
    report = report_on({"name": "mine.toml", "tables": tables})
    with pytest.raises(
        RecipeError, match=r"mine\.toml: model\.name: unknown model 'mpl'\. Did you mean 'mlp'\?"
    ):
        parse(report)
    report = {"error": {"type": "UnknownNameError", "message": "unknown model 'x'."}}
    with pytest.raises(UnknownNameError, match="unknown model 'x'"):
        parse(report)


def test_what_keras_cannot_build_is_said_in_its_words(capsys: pytest.CaptureFixture[str]) -> None:
    waves = {
        "dataset": {"name": "sine", "data": "synthetic"},
        "training": {"loss": "mean_squared_error"},
    }
    report = report_on(request(model={"name": "rcnn"}, **waves))
    with pytest.raises(
        RecipeError,
        match=r"model rcnn: cannot be built: ValueError: .*expected min_ndim=4, found ndim=3",
    ):
        parse(report)
    assert (
        "Traceback" in capsys.readouterr().err
    )  # for who looks for the bug: the parent does not show it


@pytest.mark.parametrize(
    ("stderr", "returncode", "message"),
    [
        ("chatter\nMemoryError: no room\n", 1, "ended with exit code 1. MemoryError: no room"),
        ("", 1, "ended with exit code 1.$"),
        ("chatter", -9, "was killed by SIGKILL; the system does this when memory runs out"),
    ],
)
def test_a_process_that_says_nothing_is_an_error_with_its_last_words(
    stderr: str, returncode: int, message: str
) -> None:
    with pytest.raises(RecipeError, match=message):
        parse_report("not json\n", stderr, returncode)


# As text


def test_text_of_a_network_of_images(golden: Golden) -> None:
    recipe = build_recipe(
        recipe={
            "title": "Small images",
            "source": "slides with a title that is too long for one line of the terminal",
        },
        dataset={"name": "mnist"},
        training={"global_batch_size": 128},
    )
    lines = text_of(model_sections(recipe, CROPS, table_of("cifar10_convnet", CROPS)), 80)
    assert max(map(len, lines)) <= 80
    golden("layers_images_80.txt", "\n".join(lines) + "\n")


def test_text_of_a_network_with_all_that_is_odd(golden: Golden) -> None:
    spec = build_spec((6, 4, 2), **SAMPLES)
    model = layers.Conv2D(8, (1, 3), name="conv"), layers.Flatten(), layers.Dense(10)
    data, _, conv, *_, probs = tabulate_layers(spec, *model).layers
    rows = (
        data,
        conv,
        LayerRow(
            name="own",
            kind="Own",
            output_shape=(None, 8),
            num_outputs=None,
            flops_per_sample=None,
            training_flops_per_sample=None,
        ),
        LayerRow(
            name="own",
            kind="Own",
            output_shape=(8,),
            num_outputs=8,
            input_shape=(None, 8),
            is_used_again=True,
        ),
        probs,
    )
    table = ModelTable(
        layers=rows,
        num_parameters=56,
        num_trainable_parameters=48,
        num_kernel_weights=48,
        num_outputs=None,
        flops_per_sample=None,
        training_flops_per_sample=None,
        notes=("FLOPs are not available.",),
    )
    recipe = build_recipe(training={"head": "double_softmax", "validation_head": "double_softmax"})
    lines = text_of(model_sections(recipe, spec, table), 120)
    golden("layers_odd_120.txt", "\n".join(lines) + "\n")
