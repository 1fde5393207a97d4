"""The table of a network's layers: published sums, work counted by hand, and networks that are nested or odd."""

import functools
import json
from collections.abc import Callable
from typing import Any

import pytest

from builders import build_recipe
from tfbench.errors import RecipeError, UnknownNameError
from tfbench.recipe import files, registry
from tfbench.recipe import tables as recipe_tables
from tfbench.recipe.dataset_spec import DatasetSpec
from tfbench.recipe.sections import ModelConfig, TrainingConfig
from tfbench.records.model_table import LayerRow, ModelTable, parse_report
from tfbench.report.run.layer_table import model_sections
from tfbench.report.table import text as text_of
from tfbench.schema import to_plain
from tfbench.worker.model_table import build_table, report_on, tabulate

Golden = Callable[[str, str], None]


def build_spec(shape: tuple[int, ...], num_classes: int | None = 10, **fields: Any) -> DatasetSpec:
    return DatasetSpec(
        **{
            "input_shape": shape,
            "input_dtype": "uint8" if num_classes else "float32",
            "target_shape": () if num_classes else shape,
            "num_classes": num_classes,
            "train_samples": 50_000,
            "validation_samples": 10_000,
        }
        | fields
    )


CROPS = build_spec((24, 24, 3), stored_shape=(32, 32, 3))
PHOTOS = build_spec((224, 224, 3), 1000)


@functools.cache
def table_of(name: str, spec: DatasetSpec, **options: Any) -> ModelTable:
    training = TrainingConfig(global_batch_size=1, epochs=1)
    module = registry.load("models", name)
    return build_table(ModelConfig(name=name, options=to_plain(module.Config(**options))), training, spec)


@pytest.mark.parametrize(
    ("name", "spec", "num_parameters"),
    [("cifar10_convnet", CROPS, 1_048_512 + 2_442), ("imagenet_alexnet", PHOTOS, 74_721_984 + 10_344)],
)
def test_the_sums_are_those_of_the_rows_and_the_published_ones(
    name: str, spec: DatasetSpec, num_parameters: int
) -> None:
    table = table_of(name, spec)
    assert table.num_parameters == table.num_trainable_parameters == num_parameters
    assert sum(row.num_parameters for row in table.layers) == table.num_parameters
    assert sum(row.flops_per_sample or 0 for row in table.layers) == table.flops_per_sample
    assert sum(row.training_flops_per_sample or 0 for row in table.layers) == table.training_flops_per_sample


def test_moving_averages_are_parameters_but_not_trained() -> None:
    table = table_of("rcnn", build_spec((32, 32, 3)))
    assert (table.num_parameters, table.num_trainable_parameters) == (1_193_610, 1_192_330)
    assert table.flops_per_sample == 1_340_867_840


def test_weights_take_no_memory_so_that_any_size_can_be_looked_at() -> None:
    table = table_of("mlp", build_spec((28, 28, 1)), hidden_units=(1_000_000, 1_000_000))  # 4 TB
    assert table.num_parameters == 784 * 10**6 + 10**12 + 10 * 10**6 + 2 * 10**6 + 10


def test_a_layer_that_makes_its_state_from_values_is_built_with_memory() -> None:
    free, stateful = (table_of("sine_lstm", build_spec((10, 1), None), stateful=stateful) for stateful in (False, True))
    assert stateful.num_parameters == free.num_parameters == 236
    assert stateful.flops_per_sample == free.flops_per_sample == 2 * 10 * (5 + 4 * 5 * (5 + 5) + 5)


def bottlenecks(size: int, count: int, in_channels: int, middle: int, out: int) -> int:
    """Counts the products of a stage of a residual network, whose first block makes the image `size` wide."""
    places, following = size * size, out * middle + 9 * middle * middle + middle * out
    first = in_channels * middle + 9 * middle * middle + middle * out + in_channels * out
    return places * (first + (count - 1) * following)


# Products of the forward pass of one sample, weights times the places at which they are used; and those of them that
# are with the data: a step needs no gradient of them with respect to the data, which makes it fewer than three forward
# passes. Recurrent layers multiply their own state besides, which has one.
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
    "sine_lstm": (10 * (5 + 4 * (5 * 5 + 5 * 5) + 5), 10 * 5),  # a dense layer before the recurrent one
    "cifar10_lenet5": (784 * 25 * 3 * 6 + 100 * 25 * 6 * 16 + 4 * 16 * 16 * 120 + 480 * 84 + 84 * 10, 784 * 25 * 3 * 6),
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
    # conv1, then twice seven 3x3 convolutions of 128 channels at 16x16 places and twice at 8x8
    "svhn_rcnn": (1024 * 75 * 128 + 2 * 7 * (256 + 64) * 9 * 128 * 128 + 64 * 10, 1024 * 75 * 128),
    "imagenet_alexnet": (
        3969 * 23_232 + 961 * 307_200 + 225 * (663_552 + 884_736 + 589_824) + (51_380_224 + 16_777_216 + 4_096_000),
        3969 * 23_232,
    ),
}


@pytest.mark.parametrize("name", sorted(path.stem for path in files.shipped_folder().glob("*.toml")))
def test_every_shipped_recipe_costs_what_was_worked_out_by_hand(name: str) -> None:
    tables = recipe_tables.to_tables(files.load_recipe(files.find_recipe(name)))
    report = report_on({"name": name, "tables": tables})
    products, with_data = PRODUCTS[name]
    assert report["flops_per_sample"] == 2 * products
    assert report["training_flops_per_sample"] == 2 * (3 * products - with_data)
    assert sum(row["num_parameters"] for row in report["layers"]) == report["num_parameters"]


def test_each_use_of_a_layer_has_a_row_and_its_weights_are_counted_once() -> None:
    import keras
    from keras import layers

    shared, inputs = layers.Dense(4, name="shared"), keras.Input((4,))
    inner = keras.Sequential([keras.Input((4,)), layers.ReLU(), layers.Dense(10)])
    table = tabulate(keras.Model(inputs, inner(shared(shared(inputs)))))
    assert [row.kind for row in table.layers] == ["Dense", "Dense", "ReLU", "Dense"]  # of the model within, too
    first, second = table.layers[:2]
    assert (first.num_parameters, first.is_used_again, first.flops_per_sample) == (20, False, 32)
    assert (second.num_parameters, second.is_used_again, second.flops_per_sample) == (0, True, 32)
    assert table.num_parameters == 20 + 50


def test_a_model_class_without_a_graph_is_one_row_and_its_flops_are_not_known() -> None:
    import keras

    class Net(keras.Model):
        def __init__(self) -> None:
            super().__init__(name="net")
            self.dense = keras.layers.Dense(10)

        def call(self, inputs: Any) -> Any:
            return self.dense(inputs)

    table = tabulate(keras.Sequential([keras.Input((4,)), Net()]))
    assert [(row.name, row.num_parameters) for row in table.layers] == [("net", 50)]
    assert table.flops_per_sample is None
    assert "net (Net)" in table.notes[0]


# Between the processes


def request(**sections: Any) -> dict[str, Any]:
    return {"name": "test", "tables": recipe_tables.to_tables(build_recipe(**sections))}


def test_the_table_comes_through_as_json() -> None:
    report = json.dumps(report_on(request()))
    table = parse_report(f"what a user's code prints\n{report}\n", "", 0)
    assert table.num_parameters == 784 * 4 + 4 + 4 * 10 + 10
    assert parse_report(json.dumps(to_plain(table)), "", 0) == table


def test_an_error_comes_through_as_the_class_that_it_is() -> None:
    tables = request()["tables"]
    tables["model"]["name"] = "mpl"
    report = report_on({"name": "mine.toml", "tables": tables})
    with pytest.raises(RecipeError, match=r"mine\.toml: model\.name: unknown model 'mpl'\. Did you mean 'mlp'\?"):
        parse_report(json.dumps(report), "", 0)
    report = {"error": {"type": "UnknownNameError", "message": "unknown model 'x'."}}
    with pytest.raises(UnknownNameError, match="unknown model 'x'"):
        parse_report(json.dumps(report), "", 0)


def test_what_keras_cannot_build_is_said_in_its_words(capsys: pytest.CaptureFixture[str]) -> None:
    waves = {"dataset": {"name": "sine", "data": "synthetic"}, "training": {"loss": "mean_squared_error"}}
    report = report_on(request(model={"name": "rcnn"}, **waves))
    with pytest.raises(
        RecipeError, match=r"model rcnn: cannot be built: ValueError: .*expected min_ndim=4, found ndim=3"
    ):
        parse_report(json.dumps(report), "", 0)
    assert "Traceback" in capsys.readouterr().err  # for who looks for the bug: the parent does not show it


@pytest.mark.parametrize(
    ("stderr", "returncode", "message"),
    [
        ("chatter\nMemoryError: no room\n", 1, "ended with code 1: MemoryError: no room"),
        ("", 1, "ended with code 1: no message"),
        ("chatter", -9, "was killed by signal 9; the system does this, with signal 9, when memory runs out"),
    ],
)
def test_a_process_that_says_nothing_is_an_error_with_its_last_words(
    stderr: str, returncode: int, message: str
) -> None:
    with pytest.raises(RecipeError, match=message):
        parse_report("not json\n", stderr, returncode)


# As text


def test_the_text_names_what_is_not_known_and_what_is_used_again(golden: Golden) -> None:
    known = {"kind": "Own", "output_shape": (None, 8)}
    rows = (
        LayerRow(name="conv", kind="Conv2D", output_shape=(6, 2, 8), num_parameters=56, flops_per_sample=1152),
        LayerRow(name="own", **known, flops_per_sample=None, training_flops_per_sample=None),
        LayerRow(name="own", **known, is_used_again=True),
    )
    sums = {"num_parameters": 56, "num_trainable_parameters": 48}
    notes = ("FLOPs are not available.",)
    table = ModelTable(layers=rows, **sums, flops_per_sample=None, training_flops_per_sample=None, notes=notes)
    recipe = build_recipe(training={"head": "double_softmax", "validation_head": "double_softmax"})
    sections = model_sections(recipe, build_spec((6, 4, 2), stored_shape=(8, 8, 2)), table)
    golden("layers_80.txt", "\n".join(text_of(sections, 80)) + "\n")
