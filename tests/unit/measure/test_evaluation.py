"""What is made of a trained model, against plain NumPy."""

import dataclasses
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from builders import build_recipe, build_spec
from prepared import build_prepared, read_result
from tfbench.datasets.sources.splits import Split, Splits
from tfbench.measure import evaluation
from tfbench.store.journal import files_folder

RNG = np.random.default_rng(0)
SPEC = build_spec(
    (4, 4, 1),
    3,
    train_samples=5,
    validation_samples=5,
    stored_shape=(6, 6, 1),
    views=9,
    test_samples=7,
)


def split(count: int) -> Split:
    images = RNG.integers(0, 256, (count, 6, 6, 1), np.uint8)
    return Split(inputs=images, targets=RNG.integers(0, 3, count), num_samples=count)


SPLITS = Splits(spec=SPEC, train=split(5), validation=split(5), test=split(7), source="test")


@pytest.fixture(scope="module")
def model() -> Any:
    keras.utils.set_random_seed(0)
    made = keras.Sequential(
        [keras.Input((4, 4, 1)), keras.layers.Flatten(), keras.layers.Dense(3, name="fc")]
    )
    made.get_layer("fc").kernel.assign(RNG.normal(size=(16, 3)) / 100)
    made.compile(
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=[keras.metrics.SparseCategoricalAccuracy(name="accuracy")],
        jit_compile=False,
    )
    return made


def probabilities(model: Any, images: np.ndarray) -> np.ndarray:
    powers = np.exp(
        images.reshape(len(images), -1).astype(np.float64)
        @ model.get_weights()[0].astype(np.float64)
    )
    return powers / powers.sum(axis=1, keepdims=True)


def test_evaluates_the_test_split_and_averages_probabilities_over_views(
    model: Any, tmp_path: Path
) -> None:
    recipe = build_recipe(
        training={"global_batch_size": 2, "epochs": 1},
        output={"num_predictions": 4, "per_class_accuracy": True},
    )
    prepared = build_prepared(tmp_path, recipe, splits=SPLITS, model=model)
    evaluation.evaluate_trained(prepared)
    result = read_result(prepared)
    found = {entry.name: entry for entry in result.evaluations}

    test = SPLITS.test
    of_test = probabilities(model, test.inputs[:, 1:5, 1:5])
    assert found["test"].num_samples == 7
    assert found["test"].loss == pytest.approx(
        -np.log(of_test[np.arange(7), test.targets]).mean(), rel=1e-4
    )
    assert found["test"].accuracy == pytest.approx((of_test.argmax(axis=1) == test.targets).mean())

    images = SPLITS.validation.inputs
    labels = SPLITS.validation.targets
    views = [images[:, top : top + 4, left : left + 4] for top in range(3) for left in range(3)]
    mean = np.mean([probabilities(model, view) for view in views], axis=0)
    assert found["multiview"].loss == pytest.approx(
        -np.log(mean[np.arange(5), labels]).mean(), rel=1e-4
    )
    assert found["multiview"].accuracy == pytest.approx((mean.argmax(axis=1) == labels).mean())

    predicted = probabilities(model, images[:, 1:5, 1:5]).argmax(axis=1)
    predictions = result.predictions
    assert predictions.first_labels == tuple(labels[:4])
    assert predictions.first_predictions == tuple(predicted[:4])
    assert predictions.class_samples == tuple(np.bincount(labels, minlength=3))
    assert predictions.class_correct == tuple(np.bincount(labels[predicted == labels], minlength=3))


def test_a_compiled_network_that_ends_in_a_softmax_gets_no_second_one(
    model: Any, tmp_path: Path
) -> None:
    ending = keras.Sequential([keras.Input((4, 4, 1)), *model.layers, keras.layers.Softmax()])
    ending.compile(loss="sparse_categorical_crossentropy")
    ending._comes_compiled = True
    prepared = build_prepared(
        tmp_path, build_recipe(training={"global_batch_size": 2}), splits=SPLITS, model=model
    )
    found = evaluation._evaluate_views(dataclasses.replace(prepared, model=ending))
    assert found == pytest.approx(evaluation._evaluate_views(prepared), rel=1e-5)


def write_files(model: Any, folder: Path, **output: Any) -> Path:
    """Writes what a recipe's output asks for; returns the journal's path."""
    prepared = build_prepared(folder, build_recipe(output=output), model=model)
    evaluation.write_model_files(prepared)
    prepared.journal.close()
    return prepared.journal.path


@pytest.mark.filterwarnings(
    "ignore:__array__ implementation:DeprecationWarning"
)  # Keras's own saving under NumPy 2
def test_saved_model_gives_the_same_outputs_and_no_part_is_left(model: Any, tmp_path: Path) -> None:
    folder = files_folder(write_files(model, tmp_path, saves_model=True))
    assert [path.name for path in folder.iterdir()] == ["model.keras"]
    again = keras.saving.load_model(folder / "model.keras")
    images = RNG.random((2, 4, 4, 1), np.float32)
    np.testing.assert_allclose(again(images), model(images), rtol=1e-6)


def test_says_what_a_picture_needs_where_it_cannot_be_drawn(
    model: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: Any, **options: Any) -> None:
        raise ImportError("You must install pydot")

    monkeypatch.setattr(keras.utils, "plot_model", fail)
    text = write_files(model, tmp_path, draws_model=True).read_text()
    assert "model.png was not written: " in text and "You must install pydot" in text
