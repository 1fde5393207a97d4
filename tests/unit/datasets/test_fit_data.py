"""Everything that `fit` takes as data, and what becomes of it."""

import itertools
import time
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import pandas as pd
import pytest
import tensorflow as tf

from tfbench.datasets.sources import fit_data
from tfbench.datasets.sources.user_arrays import splits_of_arrays, splits_of_batches
from tfbench.errors import DatasetError
from tfbench.runs.batch_sizes import BatchSizes

X = np.arange(24, dtype="float32").reshape(8, 3)
Y = np.arange(8) % 2
W = np.linspace(0, 1, 8)


def read(loaded: Any) -> fit_data.FitData:
    return fit_data.read(loaded, "data.py:load_data")


def splits(loaded: Any) -> Any:
    return splits_of_arrays(loaded, source="", where="data.py:load_data")


@pytest.mark.parametrize(
    "loaded, has_validation",
    [
        ((X, Y), False),
        ([X, Y], False),
        ((X, Y, W), False),
        (((X, Y), (X, Y)), True),
        (((X, Y, W), (X, Y)), True),
        (X, False),
        ({"x": X, "y": Y}, False),
        ({"x": X, "y": Y, "sample_weight": W, "validation_data": (X, Y)}, True),
        ({"x": X, "y": Y, "validation_split": 0.25}, True),
        ((pd.DataFrame(X), pd.Series(Y)), False),
        ((tf.constant(X), tf.constant(Y)), False),
        ((X.tolist(), Y.tolist()), False),
        (((X.tolist(), Y.tolist()), (X.tolist(), Y.tolist())), True),
        (((X, Y), None), False),
        ({"x": X, "y": Y, "validation_data": (X, Y), "validation_split": 0.25}, True),
    ],
)
def test_arrays_in_every_form_become_splits(loaded: Any, has_validation: bool) -> None:
    found = splits(loaded)
    is_split = isinstance(loaded, dict) and "validation_split" in loaded
    num_held_out = 2 if is_split and "validation_data" not in loaded else 0
    np.testing.assert_array_equal(found.train.inputs, X[: 8 - num_held_out])
    if found.train.targets is not None:
        np.testing.assert_array_equal(found.train.targets.reshape(-1), Y[: 8 - num_held_out])
    assert (found.validation.num_samples > 0) == has_validation
    assert found.pipeline is None


def test_columns_of_a_frame_are_inputs_by_name_as_in_fit() -> None:
    frame = pd.DataFrame({"a": X[:, 0], "b": Y})
    found = splits((dict(frame), frame["b"]))
    assert {name: array.shape for name, array in found.train.inputs.items()} == {
        "a": (8, 1),
        "b": (8, 1),
    }


@pytest.mark.parametrize("labels", [Y, Y[:, None], np.eye(2)[Y]])
def test_weights_of_classes_are_those_of_fit(labels: Any) -> None:
    from keras.src.trainers.data_adapters.data_adapter_utils import class_weight_to_sample_weights

    weights = {0: 2.0, 1: 0.5}
    found = splits({"x": X, "y": labels, "class_weight": weights, "validation_data": (X, labels)})
    expected = np.asarray(class_weight_to_sample_weights(labels, weights))
    np.testing.assert_array_equal(found.train.weights, expected)
    np.testing.assert_array_equal(found.validation.weights, np.ones(8))


def test_samples_that_are_not_to_be_shuffled_are_not() -> None:
    assert splits({"x": X, "y": Y}).spec.shuffled
    assert not splits({"x": X, "y": Y, "shuffle": False}).spec.shuffled


class Batches(keras.utils.PyDataset):  # type: ignore[misc]  # Keras has no types
    def __len__(self) -> int:
        return 3

    def __getitem__(self, number: int) -> Any:
        rows = slice(3 * number, 3 * number + 3)
        return X[rows], Y[rows]


def endless() -> Iterator[Any]:
    while True:
        yield X[:3], Y[:3]


def batches_of(kind: str) -> Any:
    if kind == "tf.data":
        return tf.data.Dataset.from_tensor_slices((X, Y)).batch(3)
    if kind == "PyDataset":
        return Batches()
    return {"x": endless(), "steps_per_epoch": 3}


@pytest.mark.parametrize("kind, num_samples", [("tf.data", 9), ("PyDataset", 9), ("generator", 9)])
def test_batches_of_the_users_stay_what_they_are(kind: str, num_samples: int) -> None:
    loaded = read(batches_of(kind))
    assert loaded.is_of_batches
    found = splits_of_batches(loaded, read(batches_of(kind)), 3, source="", where="")
    assert found.pipeline is not None
    assert found.pipeline.training is loaded.training
    assert (found.train.num_samples, found.spec.input_shape) == (num_samples, (3,))
    np.testing.assert_array_equal(found.train.inputs, X[:3])
    with pytest.raises(DatasetError, match="Use --global-batch-size 3"):
        splits_of_batches(loaded, read(batches_of(kind)), 4, source="", where="")


def test_batches_of_unknown_number_are_counted_to_the_last_sample() -> None:
    def uneven() -> Iterator[Any]:
        yield from ((X[:size], Y[:size]) for size in (3, 3, 2))

    found = splits_of_batches(read(uneven()), read(uneven()), 3, source="", where="")
    assert found.train.num_samples == 8
    assert found.pipeline
    assert found.pipeline.num_steps == 3
    assert found.pipeline.batches == BatchSizes(size=3, last_size=2, num_steps=3)


def test_single_samples_are_no_batches() -> None:
    samples = tf.data.Dataset.from_tensor_slices((X, Y))
    with pytest.raises(DatasetError, match=r"\.batch\(N\)"):
        splits_of_batches(read(samples), read(samples), 3, source="", where="")


def uneven() -> Iterator[Any]:
    yield from ((X[:size], Y[:size]) for size in (2, 5, 3))


def test_batches_of_several_sizes_count_as_their_mean() -> None:
    found = splits_of_batches(read(uneven()), read(uneven()), 5, source="", where="")
    assert found.train.num_samples == 10
    assert found.pipeline
    assert found.pipeline.num_steps == 3
    assert found.pipeline.batches == BatchSizes(size=10 / 3)
    with pytest.raises(DatasetError, match=r"up to 5 samples.*--global-batch-size 5"):
        splits_of_batches(read(uneven()), read(uneven()), 2, source="", where="")


def test_batches_of_several_sizes_must_all_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fit_data, "_INSPECTED_SECONDS", 0.0)
    moments = itertools.chain([0.0, 0.0, 0.0], itertools.repeat(1.0))
    monkeypatch.setattr(time, "monotonic", lambda: next(moments))
    loaded = read({"x": uneven(), "steps_per_epoch": 9})
    with pytest.raises(DatasetError, match="batches of 2 to 5 samples, and an epoch of them takes"):
        splits_of_batches(loaded, loaded, 5, source="", where="")


def test_batches_without_an_end_need_their_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fit_data, "_INSPECTED_SECONDS", 0.01)
    with pytest.raises(DatasetError, match='"steps_per_epoch": NUMBER'):
        splits_of_batches(read(endless()), read(endless()), 3, source="", where="")


@pytest.mark.parametrize(
    "loaded, message",
    [
        ({"x": X, "y": Y, "batch_size": 4}, "--global-batch-size sets it"),
        ({"x": X, "y": Y, "epochs": 4}, "--epochs sets them"),
        ({"x": X, "y": Y, "steps_per_epoch": 4}, "an epoch is all samples"),
        ({"x": X, "y": Y, "class_weight": {0: 1}, "sample_weight": W}, "of which fit takes one"),
        ({"x": Batches(), "y": Y}, "beside batches"),
        ({"x": X, "y": Y, "sample_weights": W}, "sample_weights, which fit does not take"),
        ({"x": X, "y": Y, "shuffle": "batch"}, "Return True or False"),
        (([X, X], [Y, Y]), "Use tuples"),
        ("text", "must return what fit takes"),
    ],
)
def test_what_a_run_cannot_take_is_refused_by_name(loaded: Any, message: str) -> None:
    with pytest.raises(DatasetError, match=message):
        splits(loaded)


def test_the_samples_themselves_have_a_digest() -> None:
    one, other = splits((X, Y)), splits((X + 1, Y))
    assert one.content == splits((X.copy(), Y)).content
    assert one.content != other.content
    assert one.content.endswith("of all")


def test_of_many_samples_some_are_digested(monkeypatch: pytest.MonkeyPatch) -> None:
    from tfbench.datasets.sources import user_arrays

    monkeypatch.setattr(user_arrays, "_DIGESTED_BYTES", 50)
    assert splits((X, Y)).content.endswith("of sample")
    assert splits((X, Y)).content != splits((X + 1, Y)).content
