"""Networks and data from functions of the user's.

Called only when allowed, and every way in which they can fail.
"""

import contextlib
import functools
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from builders import build_recipe, build_request, build_spec
from kinds import Fields
from outcomes import error_of
from tfbench import backends
from tfbench.datasets.sources.splits import Splits
from tfbench.errors import DatasetError, Notice, RecipeError
from tfbench.measure import compiled_model, user_code
from tfbench.measure.compiled_model import summarize_model
from tfbench.measure.data import load_data
from tfbench.models.structure.foreign_model import digest_of
from tfbench.recipe.sections import DatasetConfig, ModelConfig, TrainingConfig
from tfbench.runs.record import RunResult
from tfbench.runs.requests import resumed_request
from tfbench.store.journal import files_folder

SPEC = build_spec((4,), 3, input_dtype="float32")
TRACE = "import pathlib\npathlib.Path('imported').touch()\n"
NET = """
import keras

def build_model(spec, width=2):
    layers = [keras.layers.Dense(width), keras.layers.Dense(spec.num_classes)]
    return keras.Sequential([keras.Input(spec.input_shape), *layers])
"""

pytestmark = pytest.mark.usefixtures("in_tmp_path", "without_modules_of_others")


@pytest.fixture
def without_modules_of_others(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Lets a test begin as a run does, which is a process of its own."""
    monkeypatch.setattr(user_code, "_imported", {})
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    yield
    for name in user_code._imported:
        if name not in before and not name.startswith("keras"):
            sys.modules.pop(name, None)


def write(file: str, code: str) -> None:
    Path(file).write_text(code, encoding="utf-8")


def build(code: str, name: str = "nets:build_model", **options: Any) -> Any:
    write("nets.py", code)
    return compiled_model.build_model(
        ModelConfig(name=name, options=options), SPEC, allows_code=True
    )


def test_a_network_is_made_once_and_rejected_for_a_weight_that_no_memory_holds() -> None:
    write("nets.py", f"print('made')\n{NET}")
    config = ModelConfig(name="nets:build_model", options={"width": 10**9})
    with pytest.raises(RecipeError, match=r"its weights take 14\.9 GiB, and this machine has 1\.0"):
        compiled_model.build_model(config, SPEC, allows_code=True, limit_bytes=2**30)


def load(code: str, name: str = "data:load_splits", **options: Any) -> Splits:
    write("data.py", f"import numpy as np\n{code}")
    config = DatasetConfig(name=name, options=options)
    return load_data(config, "mine", seed=0, allows_code=True)


def returning(expression: str) -> str:
    return f"def load_splits(data_dir):\n    return {expression}\n"


rejection = functools.partial(error_of, (RecipeError, DatasetError))


MANY = f"{NET}\nimport functools\nwide = functools.partial(build_model, width=7)\n"
PARSES = f"import argparse\nargparse.ArgumentParser().parse_args()\n{NET}"


@pytest.mark.parametrize(
    ("file", "code", "name", "options", "width"),
    [
        ("nets.py", NET, "nets:build_model", {"width": 5}, 5),  # the other keys are its arguments
        ("nets.py", MANY, "nets:wide", {}, 7),  # any object that can be called
        ("mine/nets.py", NET, "mine.nets:build_model", {}, 2),  # a package in the current folder
        # Without the process's arguments, and no stand-in for Python's own module.
        ("sub/json.py", PARSES, "{folder}/sub/json.py:build_model", {"width": 6}, 6),
    ],
)
def test_a_network_is_built_by_the_users_function(
    file: str, code: str, name: str, options: Fields, width: int
) -> None:
    path = Path.cwd() / file
    before = list(sys.argv)
    path.parent.mkdir(exist_ok=True)
    path.write_text(code, encoding="utf-8")
    config = ModelConfig(name=name.format(folder=Path.cwd()), options=options)
    model = compiled_model.build_model(config, SPEC, allows_code=True)
    assert model.count_params() == 4 * width + width + width * 3 + 3
    assert sys.argv == before
    found = user_code.find_files(config)
    assert found[file.removeprefix("sub/")] == digest_of(path)


def test_networks_and_data_have_the_digests_of_the_files_that_they_are_from() -> None:
    splits = load(returning("(np.zeros((5, 3)), np.zeros(5)), (np.zeros((2, 3)), np.zeros(2))"))
    data = user_code.find_files(DatasetConfig(name="data:load_splits"))
    assert splits.source.endswith(f"(SHA-256 {data['data.py']})") and len(data["data.py"]) == 12
    saved = ModelConfig(name="keras_file", options={"file": "data.py"})
    assert user_code.find_files(saved) == data
    assert user_code.find_files(ModelConfig(name="mlp")) == {}


PACKAGE = {
    "tfbench_mine/__init__.py": "",
    "tfbench_mine/blocks.py": "import json\nfrom helpers import *\nkind = 'relu'\n",
    "tfbench_mine/nets.py": NET.replace("import keras", "import keras\nfrom . import blocks"),
    "tfbench_mine/data.py": (
        "def load_splits():\n    import numpy as np, readers\n"
        "    return (np.zeros((4, 4)), np.zeros(4, int)), (np.zeros((2, 4)), np.zeros(2, int))\n"
    ),
    "tfbench_mine/unused.py": "",
    "helpers.py": "",
    "readers.py": "",
    "lib/python3/site-packages/installed.py": "",
}


def test_every_file_of_the_users_that_is_imported_counts_and_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, code in PACKAGE.items():
        Path(name).parent.mkdir(exist_ok=True, parents=True)
        write(name, code)
    monkeypatch.syspath_prepend(Path("lib/python3/site-packages").absolute())
    write("helpers.py", "import installed")
    data = DatasetConfig(name="tfbench_mine.data:load_splits")
    net = ModelConfig(name="tfbench_mine.nets:build_model")
    load_data(data, None, seed=0, allows_code=True)
    compiled_model.build_model(net, SPEC, allows_code=True)
    of_data = {"readers.py", "tfbench_mine/__init__.py", "tfbench_mine/data.py"}
    of_both = {*of_data, "helpers.py", "tfbench_mine/blocks.py", "tfbench_mine/nets.py"}
    assert set(user_code.find_files(data)) == of_data
    assert user_code.find_files(net) == {name: digest_of(Path(name)) for name in sorted(of_both)}


def test_files_of_one_name_are_told_apart_by_their_folders() -> None:
    for folder in ("a", "b"):
        Path(folder).mkdir()
        write(f"{folder}/nets.py", NET)
        net = ModelConfig(name=f"{folder}/nets.py:build_model")
        compiled_model.build_model(net, SPEC, allows_code=True)
    assert set(user_code.find_files(net)) == {"nets.py", "b/nets.py"}


def test_a_file_counts_once_and_what_tensorflow_makes_of_a_function_does_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write("generated.py", "")
    names = [f"alias{number}" for number in range(20)]
    lines = [f"sys.modules['{name}'] = sys.modules[__name__]" for name in names]
    lines.append("sys.modules['__autograph_generated_fileabc'] = types.ModuleType('generated')")
    lines.append(
        "sys.modules['__autograph_generated_fileabc'].__file__ = os.path.abspath('generated.py')"
    )
    write("nets.py", "\n".join(["import os, sys, types", *lines, NET]))
    for name in (*names, "__autograph_generated_fileabc"):
        monkeypatch.setitem(sys.modules, name, None)
        del sys.modules[name]
    net = ModelConfig(name="nets.py:build_model")
    compiled_model.build_model(net, SPEC, allows_code=True)
    assert set(user_code.find_files(net)) == {"nets.py"}


def test_the_runs_seed_alone_says_what_a_network_begins_with() -> None:
    draws = "import random\nkeras.utils.set_random_seed(7)\nrandom.random()\n"
    found = []
    for code, seed in ((NET, 1), (f"{NET}\n{draws}", 1), (NET, 2)):
        keras.utils.set_random_seed(seed)
        sys.modules.pop("nets", None)
        found.append(build(code).get_weights()[0])
    assert np.array_equal(found[0], found[1])
    assert not np.array_equal(found[0], found[2])


LATE = """
import keras

class Late(keras.layers.Layer):
    def build(self, shape):
        self.inner = keras.layers.Dense(3)
        self.inner.build(shape)

    def call(self, x):
        return self.inner(x)

def build_model():
    return keras.Sequential([keras.layers.Dense(4), Late()])
"""


def test_layers_made_later_do_not_begin_with_the_numbers_of_the_first() -> None:
    keras.utils.set_random_seed(1)
    first, late = build(LATE).layers
    seeds = {layer.kernel_initializer.seed for layer in (first, late.inner, keras.layers.Dense(4))}
    assert len(seeds) == 3


@pytest.mark.parametrize("line", ["    layers =", "def build_model"])
def test_code_that_sets_a_seed_leaves_the_runs_as_it_is_and_a_function_is_reported(
    line: str,
) -> None:
    keras.utils.set_random_seed(1)
    indent = " " * (len(line) - len(line.lstrip()))
    told = "--seed and --vary-seed do not change its initial weights"
    with pytest.warns(Notice, match=told) if indent else contextlib.nullcontext():
        build(NET.replace(line, f"{indent}keras.utils.set_random_seed(7)\n{line}"))
    assert keras.src.utils.rng_utils.get_random_seed() == 1


def test_a_compiled_network_keeps_its_training(monkeypatch: pytest.MonkeyPatch) -> None:
    code = """
import keras

def build_model():
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1, activation="sigmoid")])
    model.compile(keras.optimizers.AdamW(0.5), "binary_crossentropy")
    return model
"""
    write("nets.py", code)
    recipe = build_recipe(model={"name": "nets.py:build_model"})
    arguments = (recipe.model, recipe.training, SPEC)
    model = compiled_model.build_compiled_model(*arguments, allows_code=True)
    assert model.loss == "binary_crossentropy"
    assert summarize_model(model, "", {}).own_optimizer == "AdamW"
    given = ["training.optimizer.momentum"]
    message = rejection(
        compiled_model.build_compiled_model, *arguments, allows_code=True, given=given
    )
    assert message.startswith(
        "training.optimizer.momentum: the network comes compiled, and trains with its own"
    )
    write("clips.py", code.replace("AdamW(0.5)", "AdamW(clipnorm=0.5)"))
    clips = ModelConfig(name="clips.py:build_model")
    monkeypatch.setattr(backends.current(), "count_replicas", lambda: 2)
    message = rejection(
        compiled_model.build_compiled_model, clips, *arguments[1:], allows_code=True
    )
    assert "clipnorm cannot be used with 2 replicas" in message


def test_nothing_is_imported_unless_it_was_allowed() -> None:
    write("nets.py", TRACE + NET)
    message = rejection(compiled_model.build_model, ModelConfig(name="nets:build_model"), SPEC)
    assert (
        message
        == "model.name: nets:build_model is code from outside of tfbench, which can do whatever you"
        " can. If you trust it, allow it with --allow-code."
    )
    message = rejection(load_data, DatasetConfig(name="nets:load_splits"), None, seed=0)
    assert message.startswith("dataset.name: nets:load_splits is code from outside of tfbench")
    assert not Path("imported").exists()


def test_a_run_that_was_allowed_to_run_code_is_not_resumed_without_being_allowed_again(
    in_tmp_path: Path,
) -> None:
    recipe = build_recipe(model={"name": "nets:build_model"}, training={"epochs": 5})
    checkpoints = files_folder(in_tmp_path / "run.jsonl") / "checkpoints"
    checkpoints.mkdir(parents=True)
    (checkpoints / "epoch_000000.npz").touch()
    previous = RunResult(request=build_request(recipe=recipe, allows_code=True))
    message = rejection(
        resumed_request, previous, in_tmp_path / "run.jsonl", overrides={}, name=None, data_dir=None
    )
    assert "model.name: nets:build_model is code from outside" in message


@pytest.mark.parametrize(
    ("code", "name", "options", "message"),
    [
        (
            "",
            "netz:build_model",
            {},
            "there is no module netz in PYTHONPATH or the current folder {folder}.",
        ),
        ("import netz", "nets:build_model", {}, "ModuleNotFoundError: No module named 'netz'"),
        ("", "netz.py:build_model", {}, "there is no file {folder}/netz.py."),
        (
            "",
            "nets:build_model",
            {},
            "a function build_model in {folder}/nets.py. Found: nothing of that name.",
        ),
        (
            "build_model = 3",
            "nets:build_model",
            {},
            "build_model in {folder}/nets.py. Found: a value of type int.",
        ),
        ("def build_model(", "nets:build_model", {}, "SyntaxError: "),
        ("raise ValueError('no luck')", "nets:build_model", {}, "ValueError: no luck"),
        ("import sys; sys.exit(0)", "nets:build_model", {}, "raised an error:"),
        (
            NET,
            "nets:build_model",
            {"widht": 3},
            "argument 'widht'. It is build_model(spec, width=2).",
        ),
    ],
)
def test_code_that_cannot_be_imported_or_called_is_explained(
    code: str, name: str, options: Fields, message: str
) -> None:
    found = rejection(build, code, name, **options)
    assert found.startswith(f"model.name: {name}: ")
    assert message.format(folder=Path.cwd()) in found


def test_what_the_code_raised_is_shown_with_its_line() -> None:
    code = (
        "def build_model(spec):\n    return inner()\n\ndef inner():\n    raise KeyError('width')\n"
    )
    lines = [line for line in rejection(build, code).splitlines() if "^" not in line]
    assert lines == [
        "model.name: nets:build_model: raised an error:",
        f'  File "{Path.cwd()}/nets.py", line 2, in build_model',
        "    return inner()",
        f'  File "{Path.cwd()}/nets.py", line 5, in inner',
        "    raise KeyError('width')",
        "  KeyError: 'width'",
    ]


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (
            "return None",
            "must be a keras.Sequential or a keras.Model(inputs, outputs). Received: NoneType.",
        ),
        (
            "class Own(keras.Model):\n        pass\n    return Own()",
            "Received: Own. A model class of your own must",
        ),
        (
            "return keras.Sequential([keras.layers.Dense(2)])",
            "must take samples of shape (4,) and give (3,)",
        ),
        (
            (
                "keras.config.set_dtype_policy('mixed_bfloat16'); return"
                " keras.Sequential([keras.layers.Dense(3)])"
            ),
            (
                "changed Keras's dtype policy (training.precision) from float32 to mixed_bfloat16."
                " Leave it alone"
            ),
        ),
    ],
)
def test_what_is_returned_must_be_a_model_for_this_data(code: str, message: str) -> None:
    try:
        found = rejection(build, f"import keras\n\ndef build_model(spec):\n    {code}\n")
    finally:
        keras.config.set_dtype_policy("float32")
    assert found.startswith("model.name: nets:build_model: ")
    assert message in found


@pytest.mark.parametrize(
    ("labels", "shape"),
    [("y.astype('float32')", (2,)), ("np.eye(2)[y]", (2,)), ("np.eye(2)[y]", (1,))],
)
def test_labels_that_are_no_integers_are_explained(labels: str, shape: tuple[int]) -> None:
    spec = load(
        f"x, y = np.zeros((6, 4)), np.arange(6) % 2\n{returning(f'((x, {labels}), (x, {labels}))')}"
    ).spec
    write("nets.py", NET.replace("spec.num_classes", str(shape[0])))
    own = ModelConfig(name="nets:build_model")
    training = TrainingConfig(global_batch_size=2, epochs=1)
    found = rejection(compiled_model.build_compiled_model, own, training, spec, allows_code=True)
    assert found.endswith(
        "make them integers: y.argmax(axis=1) of one-hot ones, y.astype('int64')."
    )


def test_arrays_become_splits_with_what_can_be_seen_from_them() -> None:
    code = """
def load_splits(data_dir, size):
    assert data_dir == "mine"
    x = np.arange(size * 6, dtype="uint8").reshape(size, 2, 3)
    y = np.arange(size) % 4
    return (x, y), (x[:2], y[:2, None])
"""
    splits = load(code, size=8)
    assert splits.spec == build_spec((2, 3), 4, train_samples=8, validation_samples=2)
    assert splits.validation.targets.tolist() == [0, 1]


WORDS = "(np.array([[2**24 + 1, 3]] * 4, 'int64'), np.arange(4))"


@pytest.mark.parametrize(
    ("returned", "dtypes", "num_classes"),
    [
        (
            (
                "((np.zeros((5, 3)), np.zeros(5)), (np.zeros((2, 3), 'int64'), np.zeros(2,"
                " 'float16')))"
            ),
            "float32",
            None,
        ),
        (f"({WORDS}, {WORDS})", "int64", 4),
    ],
)
def test_values_become_a_regression_and_integers_stay_integers(
    returned: str, dtypes: str, num_classes: int | None
) -> None:
    splits = load(returning(returned))
    assert (splits.spec.input_dtype, splits.spec.num_classes, splits.spec.target_shape) == (
        dtypes,
        num_classes,
        (),
    )
    assert {
        str(array.dtype) for part in (splits.train, splits.validation) for array in part.arrays
    } == {dtypes}


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        ("None", "must return what fit takes: (x, y)"),
        ("(1, 2)", "Received as x_train: int"),
        ("((X, Y, Y[:5]), (X, Y, Y))", "train: found 6 inputs, but 5 weights."),
        ("((X, Y), (X, Y, Y))", "training and validation data must have the same arrays. "),
        (
            "((dict(a=X, b=Y[:5]), Y), (X, Y))",
            "train: found 6 inputs, but 5 samples of another input.",
        ),
        ("((X, Y), ('abc', Y))", "Received as x_val: str"),
        (
            "((Y, Y), (Y, Y))",
            "Received as x_train: an array of shape (6,), int64; it must be an array of numbers",
        ),
        ("((X.astype(str), Y), (X, Y))", "Received as x_train: an array of shape (6, 4), <U3"),
        ("((X, Y), (X[:0], Y[:0]))", "x_val holds no sample."),
        ("((X, Y), (X, Y[:5]))", "validation: found 6 inputs, but 5 targets."),
        (
            "((X, Y), (X[:, :3], Y))",
            "validation: expected inputs of shape (4,), float32; found (3,), float32.",
        ),
        ("((X, Y - 1), (X, Y))", "train: expected labels 0 to 2, found -1 to 1."),
        ("((X, X), (X, X[:, :2]))", "validation: expected targets of shape (4,), found (2,)."),
    ],
)
def test_arrays_that_do_not_fit_together_are_rejected(returned: str, message: str) -> None:
    code = f"X = np.zeros((6, 4))\nY = np.arange(6) % 3\n{returning(returned)}"
    found = rejection(load, code)
    assert found.startswith("dataset.name: data:load_splits: ")
    assert message in found
