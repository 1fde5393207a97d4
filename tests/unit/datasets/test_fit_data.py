"""Everything that `fit` takes as data, and what becomes of it."""

import itertools
import time
from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np
import pandas as pd
import pytest
import tensorflow as tf

from tfbench.datasets.sources import fit_data, user_arrays
from tfbench.datasets.sources.splits import Splits
from tfbench.datasets.sources.user_arrays import splits_of_arrays, splits_of_batches
from tfbench.errors import DatasetError
from tfbench.runs.batch_sizes import BatchSizes

X = np.arange(24, dtype="float32").reshape(8, 3)
Y = np.arange(8) % 2
W = np.linspace(0, 1, 8)


def read(loaded: Any) -> fit_data.FitData:
    return fit_data.read(loaded, "data.py:load_data")


def splits(loaded: Any) -> Splits:
    return splits_of_arrays(loaded, source="", where="data.py:load_data")


def batched(make: Callable[[], Any], batch_size: int) -> Splits:
    return splits_of_batches(read(make()), read(make()), batch_size, source="", where="")


LISTS = (X.tolist(), Y.tolist())
NAMED = {"x": X, "y": Y}


@pytest.mark.parametrize(
    "loaded, num_samples, num_validated",
    [
        ((X, Y), 8, 0),
        ([X, Y], 8, 0),
        ((X, Y, W), 8, 0),
        (((X, Y), (X, Y)), 8, 8),
        (((X, Y, W), (X, Y)), 8, 8),
        (X, 8, 0),
        (NAMED, 8, 0),
        (NAMED | {"sample_weight": W, "validation_data": (X, Y)}, 8, 8),
        (NAMED | {"validation_split": 0.25}, 6, 2),
        ((pd.DataFrame(X), pd.Series(Y)), 8, 0),
        ((tf.constant(X), tf.constant(Y)), 8, 0),
        (LISTS, 8, 0),
        ((LISTS, LISTS), 8, 8),
        (((X, Y), None), 8, 0),
        (NAMED | {"validation_data": (X, Y), "validation_split": 0.25}, 8, 8),
    ],
)
def test_arrays_in_every_form_become_splits(
    loaded: Any, num_samples: int, num_validated: int
) -> None:
    found = splits(loaded)
    np.testing.assert_array_equal(found.train.inputs, X[:num_samples])
    if found.train.targets is not None:
        np.testing.assert_array_equal(found.train.targets.reshape(-1), Y[:num_samples])
    assert found.validation.num_samples == num_validated
    assert found.pipeline is None


def test_columns_of_a_frame_are_inputs_by_name_as_in_fit() -> None:
    frame = pd.DataFrame({"a": X[:, 0], "b": Y})
    found = splits((dict(frame), frame["b"]))
    assert found.spec.input_shape == {"a": (1,), "b": (1,)}


@pytest.mark.parametrize("labels", [Y, Y[:, None], np.eye(2)[Y]])
def test_weights_of_classes_are_those_of_fit(labels: Any) -> None:
    from keras.src.trainers.data_adapters.data_adapter_utils import class_weight_to_sample_weights

    weights = {0: 2.0, 1: 0.5}
    found = splits({"x": X, "y": labels, "class_weight": weights, "validation_data": (X, labels)})
    expected = np.asarray(class_weight_to_sample_weights(labels, weights))
    np.testing.assert_array_equal(found.train.weights, expected)
    np.testing.assert_array_equal(found.validation.weights, np.ones(8))


def test_samples_that_are_not_to_be_shuffled_are_not() -> None:
    assert splits(NAMED).spec.shuffled
    assert not splits(NAMED | {"shuffle": False}).spec.shuffled


class Batches(keras.utils.PyDataset):  # type: ignore[misc]  # Keras has no types
    def __len__(self) -> int:
        return 3

    def __getitem__(self, number: int) -> Any:
        rows = slice(3 * number, 3 * number + 3)
        return X[rows], Y[rows]


def of_sizes(*sizes: int) -> Iterator[Any]:
    yield from ((X[:size], Y[:size]) for size in sizes)


def endless() -> Iterator[Any]:
    return of_sizes(*[3] * 1_000_000)


SAMPLES = tf.data.Dataset.from_tensor_slices((X, Y))


@pytest.mark.parametrize(
    "make",
    [lambda: SAMPLES.batch(3), Batches, lambda: {"x": endless(), "steps_per_epoch": 3}],
    ids=["tf.data", "PyDataset", "generator"],
)
def test_batches_of_the_users_stay_what_they_are(make: Any) -> None:
    loaded = read(make())
    found = splits_of_batches(loaded, read(make()), 3, source="", where="")
    assert found.pipeline.training is loaded.training
    assert (found.train.num_samples, found.spec.input_shape) == (9, (3,))
    np.testing.assert_array_equal(found.train.inputs, X[:3])


@pytest.mark.parametrize(
    "sizes, batches",
    [
        ((3, 3, 2), BatchSizes(size=3, last_size=2, num_steps=3)),
        ((2, 5, 3), BatchSizes(size=10 / 3)),  # their mean
    ],
)
def test_batches_of_unknown_number_are_counted_to_the_last_sample(
    sizes: tuple[int, ...], batches: BatchSizes
) -> None:
    found = batched(lambda: of_sizes(*sizes), max(sizes))
    assert found.train.num_samples == sum(sizes)
    assert (found.pipeline.num_steps, found.pipeline.batches) == (3, batches)


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: SAMPLES, r"\.batch\(N\)"),
        (Batches, "batches of 3 samples, and the run counts 4. Use --global-batch-size 3"),
        (lambda: of_sizes(2, 5, 3), r"up to 5 samples.*--global-batch-size 5"),
    ],
)
def test_batches_of_another_size_are_refused(make: Any, message: str) -> None:
    with pytest.raises(DatasetError, match=message):
        batched(make, 4)


def test_batches_of_several_sizes_must_all_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fit_data, "_INSPECTED_SECONDS", 0.0)
    moments = itertools.chain([0.0, 0.0, 0.0], itertools.repeat(1.0))
    monkeypatch.setattr(time, "monotonic", lambda: next(moments))
    with pytest.raises(DatasetError, match="batches of 2 to 5 samples, and an epoch of them takes"):
        batched(lambda: {"x": of_sizes(2, 5, 3), "steps_per_epoch": 9}, 5)


def test_batches_without_an_end_need_their_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fit_data, "_INSPECTED_SECONDS", 0.01)
    with pytest.raises(DatasetError, match='"steps_per_epoch": NUMBER'):
        batched(endless, 3)


@pytest.mark.parametrize(
    "loaded, message",
    [
        (NAMED | {"batch_size": 4}, "--global-batch-size sets it"),
        (NAMED | {"epochs": 4}, "--epochs sets them"),
        (NAMED | {"steps_per_epoch": 4}, "an epoch is all samples"),
        (NAMED | {"class_weight": {0: 1}, "sample_weight": W}, "of which fit takes one"),
        ({"x": Batches(), "y": Y}, "beside batches"),
        ({"x": Batches(), "validation_split": 0.1}, "validation_split beside batches"),
        (NAMED | {"sample_weights": W}, "sample_weights, which fit does not take"),
        (NAMED | {"shuffle": "batch"}, "Return True or False"),
        (([X, X], [Y, Y]), "Use tuples"),
        ("text", "must return what fit takes"),
        (None, "must return what fit takes"),
    ],
)
def test_what_a_run_cannot_take_is_refused_by_name(loaded: Any, message: str) -> None:
    with pytest.raises(DatasetError, match=message):
        splits(loaded)


@pytest.mark.parametrize("digested_bytes, which", [(2**28, "all"), (50, "sample")])
def test_the_samples_themselves_have_a_digest(
    monkeypatch: pytest.MonkeyPatch, digested_bytes: int, which: str
) -> None:
    monkeypatch.setattr(user_arrays, "_DIGESTED_BYTES", digested_bytes)
    content = splits((X, Y)).content
    assert content.endswith(f" of {which}")
    assert content == splits((X.copy(), Y)).content != splits((X + 1, Y)).content
