"""Random samples for a network without data, and structures of arrays on their way to `fit`."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tfbench.backends.array_feeding import ArrayFeeding
from tfbench.backends.tensorflow import input_pipeline
from tfbench.datasets.sources.splits import Splits
from tfbench.datasets.sources.user_arrays import splits_of_arrays
from tfbench.errors import DatasetError, RecipeError
from tfbench.measure import data
from tfbench.recipe.sections import DatasetConfig, ModelConfig

CODE = """
import keras

def build():
    words, numbers = keras.Input((None,), dtype="int32"), keras.Input((3,))
    embedded = keras.layers.Embedding(7, 4)(words)
    outputs = [keras.layers.Dense(5)(embedded), keras.layers.Dense(2, activation="sigmoid")(numbers)]
    model = keras.Model([words, numbers], outputs)
    losses = [keras.losses.SparseCategoricalCrossentropy(from_logits=True), "binary_crossentropy"]
    model.compile("sgd", losses)
    return model

def build_layers():
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(4, activation="softmax")])
    model.compile("sgd", "sparse_categorical_crossentropy")
    return model

class Own(keras.Model):
    pass

def build_own():
    model = Own()
    model.compile("sgd", "mse")
    return model

def build_bare():
    return keras.Sequential([keras.Input((3,)), keras.layers.Dense(4)])
"""


@pytest.mark.filterwarnings("ignore::tfbench.errors.Notice")
def test_samples_have_the_shapes_that_inputs_outputs_and_losses_ask_for(in_tmp_path: Path) -> None:
    Path("nets.py").write_text(CODE, encoding="utf-8")
    config = DatasetConfig(
        name="network", options={"num_samples": 50, "validation_samples": 6, "length": 9}
    )

    def make(function: str) -> Splits:
        model = ModelConfig(name=f"{in_tmp_path}/nets.py:{function}")
        return data.make_splits(config, model, allows_code=True)

    splits = make("build")
    (words, numbers), (tokens, signs) = splits.train.arrays
    assert [array.shape for array in (words, numbers, tokens, signs)] == [
        (50, 9),
        (50, 3),
        (50, 9),
        (50, 2),
    ]
    assert (words.max(), tokens.max(), set(np.unique(signs))) == (6, 4, {0.0, 1.0})
    assert (splits.validation.num_samples, splits.synthetic) == (6, True)
    layers = make("build_layers").train
    assert (layers.inputs.shape, layers.targets.shape) == (
        (50, 3),
        (50,),
    )
    with pytest.raises(DatasetError, match="load_data"):
        make("build_own")
    with pytest.raises(RecipeError, match=r"tfbench run mnist_mlp --set model\.name="):
        make("build_bare")


def test_structures_are_fed_as_they_are_and_alike_by_both_ways() -> None:
    def part(start: int, stop: int) -> Any:
        numbers = np.arange(start, stop)
        return (
            {"b": numbers + 2**24, "a": [numbers.astype("uint8")]},
            {"y": numbers / 3},
            numbers / 2,
        )

    splits = splits_of_arrays((part(0, 10), part(10, 15)), source="", where="")
    options = {"global_batch_size": 4, "seed": 1}
    ours, theirs = (
        one.build_training_dataset(splits, **options) for one in (ArrayFeeding(), input_pipeline)
    )
    for _, (x, y, weights), batch in zip(range(4), ours, theirs.as_numpy_iterator(), strict=False):
        (a,) = x["a"]
        assert (a.dtype, x["b"].dtype, y["y"].dtype, weights.dtype) == (
            "uint8",
            "int64",
            "float32",
            "float32",
        )
        assert (x["b"] - 2**24).tolist() == a.tolist() == (weights * 2).tolist()
        assert batch[0]["b"].tolist() == x["b"].tolist()
        assert batch[0]["a"][0].dtype == "uint8"
        assert [batch[1]["y"].tolist(), batch[2].tolist()] == [y["y"].tolist(), weights.tolist()]
    (x, y, weights), *_ = input_pipeline.build_validation_dataset(
        splits, batch_size=3
    ).as_numpy_iterator()
    assert (x["b"] - 2**24).tolist() == [10, 11, 12]
