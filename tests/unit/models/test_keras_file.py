"""Networks from .keras files: no code runs, weights are kept, a softmax at the end stays."""

import dataclasses
import json
import zipfile
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from builders import build_spec
from outcomes import error_of
from tfbench.errors import Notice, RecipeError
from tfbench.models.keras_file import Config, build_model
from tfbench.recipe.dataset_spec import DatasetSpec

# Keras 3.15 reads a variable in a way that NumPy 2 deprecates, when it saves it.
pytestmark = pytest.mark.filterwarnings(
    "ignore:__array__ implementation doesn't accept a copy:DeprecationWarning"
)

SPEC = build_spec((4,), 3)
STARTS = r"brings its weights along: training starts from them, not from training\.seed\.$"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "net.keras"


def save(path: Path, *layers: Any) -> Any:
    model = keras.Sequential([keras.Input((4,)), *layers], name="net")
    model.save(path)
    return model


def load(path: Path, spec: DatasetSpec = SPEC, **options: Any) -> Any:
    with pytest.warns(Notice, match=STARTS) as caught:
        model = build_model(Config(file=str(path), **options), spec)
    assert len(caught) == 1
    return model


def rejection(path: Path, spec: DatasetSpec = SPEC) -> str:
    message = error_of(RecipeError, build_model, Config(file=str(path)), spec)
    assert message.startswith(f"model.file: {path}: ")
    assert "\n" not in message
    return message


def test_layers_of_tfbench_are_known_and_weights_are_the_files(path: Path) -> None:
    from tfbench.models.custom_layers.normalization import LocalResponseNormalization

    original = save(path, LocalResponseNormalization(), keras.layers.Dense(3))
    model = load(path)
    assert type(model.layers[0]) is LocalResponseNormalization
    assert (model.layers[1].kernel.numpy() == original.layers[1].kernel.numpy()).all()


def test_it_trains_as_it_was_compiled_unless_the_recipe_says_otherwise(path: Path) -> None:
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3)])
    model.compile("adam", "mse")
    model.save(path)
    assert load(path).loss == "mse"
    assert not load(path, compiled=False).compiled


@pytest.mark.parametrize(
    ("units", "shape", "received"),
    [(2, (4,), "Received: (None, 4) to (None, 2)"), (3, (5,), "Received: (None, 4) to (None, 3)")],
)
def test_shapes_that_do_not_fit_are_named(
    path: Path, units: int, shape: tuple[int, ...], received: str
) -> None:
    inputs = [keras.Input((4,)), keras.Input((4,))]
    keras.Model(inputs, keras.layers.Add()(inputs)).save(path)
    assert "Received: 2 inputs, 1 outputs." in rejection(path)
    save(path, keras.layers.Dense(units))
    message = rejection(path, dataclasses.replace(SPEC, input_shape=shape))
    assert f"of shape {shape} and give (3,), a logit for each of 3 classes" in message
    assert received in message


def test_a_fixed_batch_size_must_be_the_runs(path: Path) -> None:
    keras.Sequential([keras.Input((4,), batch_size=8), keras.layers.Dense(3)]).save(path)
    spec = dataclasses.replace(SPEC, per_replica_batch_size=8, validation_samples=16)
    assert load(path, spec).input_shape == (8, 4)
    other = dataclasses.replace(spec, per_replica_batch_size=4)
    assert "Use --global-batch-size 8, or" in rejection(path, other)
    short = dataclasses.replace(spec, validation_samples=17)
    assert "do not divide the 17 validation samples" in rejection(path, short)


def test_a_list_or_dictionary_of_one_tensor_is_taken_for_that_tensor_and_a_softmax_stays(
    path: Path,
) -> None:
    inputs = keras.Input((4,), name="x")
    keras.Model({"x": inputs}, [keras.layers.Dense(3, activation="softmax")(inputs)]).save(path)
    shares = load(path)(np.zeros((2, 4), "float32"))
    assert np.sum(shares, axis=1) == pytest.approx([1, 1])


def test_layers_of_another_precision_are_rejected(path: Path) -> None:
    save(path, keras.layers.Dense(3, dtype="mixed_bfloat16"))
    message = rejection(path)
    assert "its layers compute in mixed_bfloat16, the run in float32." in message
    assert "Use --set training.precision=mixed_bfloat16." in message


def test_code_in_a_file_does_not_run(in_tmp_path: Path, path: Path) -> None:
    def leave_trace(x: Any) -> Any:
        import pathlib

        pathlib.Path("trace").touch()
        return x

    leave_trace.__name__ = "<lambda>"  # by which Keras knows a function whose code it must save
    save(path, keras.layers.Lambda(leave_trace, name="evil"), keras.layers.Dense(3))
    (in_tmp_path / "trace").unlink()
    keras.saving.load_model(path, safe_mode=False)
    (in_tmp_path / "trace").unlink()  # loaded by someone careless, the code does run
    assert "ValueError: It holds code, and files must not run any." in rejection(path)
    assert not (in_tmp_path / "trace").exists()


def test_a_layer_that_calls_a_named_function_is_told_from_a_damaged_file(path: Path) -> None:
    def double(x: Any) -> Any:
        return x * 2

    save(path, keras.layers.Lambda(double), keras.layers.Dense(3))
    reason = "It calls the function double, which neither the file nor this Keras holds."
    assert reason in rejection(path)


def test_what_is_no_keras_file_is_named(path: Path) -> None:
    assert rejection(path).endswith("cannot be read: No such file or directory.")
    save(path, keras.layers.Dense(3))
    for contents in (b"", b"\x89HDF\r\n\x1a\n" * 100, path.read_bytes()[:-100]):
        path.write_bytes(contents)
        assert rejection(path).endswith('or no file as model.save("net.keras") writes it.')
    unheard = {"class_name": "Unheard", "module": None, "registered_name": "Unheard", "config": {}}
    network = {"class_name": "Sequential", "module": "keras", "config": {"layers": [unheard]}}
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("config.json", json.dumps(network))
    assert 'of your own is built by a function: name = "module:function".' in rejection(path)
