"""From TOML and overrides to a recipe, and every mistake a user can make on the way."""

import dataclasses
from pathlib import Path

import pytest

from outcomes import error_of
from tfbench.errors import RecipeError, UnknownNameError
from tfbench.recipe import files, tables
from tfbench.recipe.optimizers import AdadeltaConfig, AdamConfig

MINIMAL = """
[recipe]
title = "Mine"
source = "me"

[model]
name = "mlp"

[dataset]
name = "mnist"

[training]
global_batch_size = 32
epochs = 2
optimizer = { name = "adam" }
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "mine.toml"
    path.write_text(text, encoding="utf-8")
    return path


def load(folder: Path, text: str, *typed: str, seconds: float | None = None) -> tables.Recipe:
    """Reads a recipe, with overrides as they are typed."""
    overrides = dict(map(tables.parse_override, typed))
    return files.load_recipe(write(folder, text), overrides, steady_seconds=seconds)


def load_with(folder: Path, model: str, *typed: str) -> tables.Recipe:
    return load(folder, MINIMAL.replace('name = "mlp"', model), *typed)


def load_shipped(name: str, *typed: str) -> tables.Recipe:
    return files.load_recipe(files.find_recipe(name), dict(map(tables.parse_override, typed)))


def test_command_line_wins_over_the_file_and_the_file_over_the_defaults(tmp_path: Path) -> None:
    text = MINIMAL.replace('"adam"', '"adam", epsilon = 1e-8')
    typed = ("training.epochs=9", "training.optimizer.learning_rate=0.5")
    training = load(tmp_path, text, *typed).training
    assert (training.epochs, training.global_batch_size) == (9, 32)
    assert training.optimizer == AdamConfig(learning_rate=0.5, epsilon=1e-8)
    other = load(tmp_path, text, 'training.optimizer={ name = "adadelta" }', "measurement.steps=5")
    assert (other.training.optimizer, other.measurement.steps) == (AdadeltaConfig(), 5)


@pytest.mark.parametrize(
    ("table", "typed", "steps", "seconds"),
    [
        ("", [], None, 5.0),
        ("", ["measurement.steps=20"], 20, None),
        ("seconds = 2.0", [], None, 2.0),
        ("warmup_steps = 20", [], None, 5.0),
    ],
)
def test_a_run_is_limited_unless_the_recipe_or_the_command_line_limits_it(
    tmp_path: Path, table: str, typed: list[str], steps: int | None, seconds: float | None
) -> None:
    recipe = load(tmp_path, f"{MINIMAL}[measurement]\n{table}\n", *typed, seconds=5.0)
    assert (recipe.measurement.steps, recipe.measurement.seconds) == (steps, seconds)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "recipes/mnist_mpl.toml",
            "recipes/mnist_mpl.toml: no such file. Did you mean 'mnist_mlp'?",
        ),
        ("mine", "unknown recipe 'mine'. `tfbench list` shows the recipes"),
    ],
)
def test_a_recipe_that_is_not_there_is_named(in_tmp_path: Path, name: str, message: str) -> None:
    assert error_of(UnknownNameError, files.find_recipe, name).startswith(message)


@pytest.mark.parametrize(
    ("contents", "message"),
    [
        (b"\n[training\n", r"mine\.toml: is not valid TOML: .*line 2"),
        (b'[recipe]\ntitle = "\xff\xfe"\n', r"mine\.toml: is not UTF-8 text"),
        (None, r"mine\.toml: cannot be read: Is a directory"),
    ],
)
def test_a_file_that_is_no_recipe_is_named(
    tmp_path: Path, contents: bytes | None, message: str
) -> None:
    path = tmp_path / "mine.toml"
    path.mkdir() if contents is None else path.write_bytes(contents)
    with pytest.raises(RecipeError, match=message):
        files.load_recipe(path)


# What is typed, and words of the one line that rejects it
REJECTED = {
    "training.optimizer.name=adm": "must be one of adam, sgd, adadelta, keras. Received: 'adm'.",
    "training.optimizer.momentum=0.5": "unknown key.",
    "training.epoch=1": (
        "training.epoch: unknown key. Did you mean 'epochs'? Known keys: backend,"
    ),
    "training.loss=mean_squared_error": (
        "must be sparse_categorical_crossentropy, since the data set mnist has"
    ),
    "distribution.strategy=miror": "Did you mean 'mirrored'?",
    "model.name=mpl": "model.name: unknown model 'mpl'. Did you mean 'mlp'?",
    "model.name=../errors": "model.name: unknown model '../errors'.",
    "model.hidden_unit=[1]": (
        "model.hidden_unit: unknown key. Did you mean 'hidden_units'? Known keys: "
    ),
    "dataset.name=mnits": "dataset.name: unknown data set 'mnits'. Did you mean 'mnist'?",
    "training.learning_rate=0.1": (
        "training.learning_rate: unknown key. It is training.optimizer.learning_rate. Known"
    ),
    "training.hidden_units=[1]": (
        "training.hidden_units: unknown key. It is model.hidden_units. Known keys: backend,"
    ),
    "training.devices=[1]": (
        "training.devices: unknown key. It is distribution.devices. Known keys: backend,"
    ),
    "training.optimizer.epochs=2": "epochs: unknown key. It is training.epochs. Known keys:",
    "trainning.epochs=1": "trainning: unknown key. Did you mean 'training'?",
    "model.name=nets:": 'model.name: must be written as "package.module:function" or',
    "model.name=import:c": "must be written as",
    "training.data_on_device=true distribution.strategy=mirrored": (
        "training.data_on_device: cannot be true with"
    ),
    "dataset.name=my.data:load dataset.data=synthetic": (
        "dataset.data: cannot be synthetic, since only loading"
    ),
    "training.deterministic=true training.compiler=xla": (
        'compiler cannot be "xla" with deterministic = true'
    ),
    "training.compiler=inductor": "must be graph or xla or eager on backend tensorflow.",
    "training.backend=jax training.compiler=graph": "must be xla or eager on backend jax.",
    "training.backend=torch training.compiler=xla": "must be eager or inductor on backend torch.",
    "distribution.num_workers=2": "num_workers: needs strategy multi_worker. Received: strategy",
    "distribution.mesh.data=2": "mesh: needs strategy model or hybrid. Received: strategy default.",
    "distribution.strategy=hybrid distribution.mesh.rows=2": "mesh.rows: must be one of data, model",
}


@pytest.mark.parametrize("typed", REJECTED)
def test_rejects_a_wrong_value_with_one_line(tmp_path: Path, typed: str) -> None:
    (line,) = error_of(RecipeError, load, tmp_path, MINIMAL, *typed.split()).splitlines()
    assert "mine.toml" not in line
    assert REJECTED[typed] in line


REFERENCE = '[[reference]]\nhardware = "x"\ndevices = "1 gpu"\nsource = "x"\nepochs = 1\n[recipe]'


@pytest.mark.parametrize(
    ("replaced", "by", "message"),
    [
        ('[dataset]\nname = "mnist"', "", "dataset: missing table [dataset]."),
        ("epochs = 2\n", "", "training.epochs: missing."),
        ("[recipe]", REFERENCE, "reference.0.epochs: unknown key. It is training.epochs."),
    ],
)
def test_what_is_wrong_in_a_file_is_named_with_the_file(
    tmp_path: Path, replaced: str, by: str, message: str
) -> None:
    found = error_of(RecipeError, load, tmp_path, MINIMAL.replace(replaced, by))
    assert f"{tmp_path}/mine.toml: {message}" in found


def test_names_all_problems_of_a_file_at_once(tmp_path: Path) -> None:
    text = MINIMAL.replace("epochs = 2", "epochs = 0").replace('"mlp"', '"mpl"')
    found = error_of(RecipeError, load, tmp_path, f"{text}[extra]", "distribution.strategy=x")
    of_file = [line for line in found.splitlines() if line.startswith(f"{tmp_path}/mine.toml: ")]
    assert (len(of_file), len(found.splitlines())) == (3, 4)
    assert "\ndistribution.strategy: " in found


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a.b=3", 3),
        ("a.b=[4000, 4000]", [4000, 4000]),
        ("a.b = 1e-2", 0.01),
        ("a.b=mirrored", "mirrored"),
        ('a.b="a = b"', "a = b"),
    ],
)
def test_reads_an_override(text: str, value: object) -> None:
    assert tables.parse_override(text) == ("a.b", value)


@pytest.mark.parametrize("text", ["training.epochs", "epochs=3", "a..b=1", "", "a.b=", "a.b=[1"])
def test_rejects_an_override_without_key_and_value(text: str) -> None:
    problem = "must be SECTION.KEY=VALUE, for example"
    if text.startswith("a.b="):
        problem = "the value is not valid TOML"
    assert problem in error_of(RecipeError, tables.parse_override, text)


def test_a_value_has_no_keys(tmp_path: Path) -> None:
    message = error_of(RecipeError, load, tmp_path, MINIMAL, "training.epochs.x=1")
    assert message.startswith("--set training.epochs.x: training.epochs is not a table")


def test_a_saved_network_lies_beside_its_recipe_or_in_the_current_folder_for_the_command_line(
    in_tmp_path: Path,
) -> None:
    for folder in ("a", "a/nets", "b"):
        Path(folder).mkdir()
        Path(folder, "net.keras").touch()
    Path("b/linked.keras").symlink_to("net.keras")
    in_file = load_with(in_tmp_path / "a", 'file = "nets/../net.keras"')
    assert in_file.model.name == "keras_file"
    assert in_file.model.options["file"] == f"{in_tmp_path}/a/net.keras"
    assert load_with(in_tmp_path / "a", 'name = "keras_file"\nfile = "net.keras"') == in_file
    typed = load_with(in_tmp_path / "a", 'file = "net.keras"', "model.file=b/linked.keras")
    assert typed.model.options["file"] == f"{in_tmp_path}/b/linked.keras"
    assert tables.from_tables(tables.to_tables(typed), name="mine", source="again") == typed


def test_a_key_of_the_file_is_not_taken_for_one_of_its_section_that_was_set(tmp_path: Path) -> None:
    text = MINIMAL.replace("epochs = 2", 'epochs = 2\ncompiler = "inductor"')
    problem = "training: compiler: must be"
    message = error_of(RecipeError, load, tmp_path, text, "training.epochs=3")
    assert message.startswith(f"{tmp_path}/mine.toml: {problem}")
    message = error_of(RecipeError, load, tmp_path, text, "training.compiler=inductor")
    assert message.startswith(problem)


@pytest.mark.parametrize(
    ("model", "typed", "message"),
    [
        ('file = "net.keras"', [], "{0}/mine.toml: model.file: no such file: {0}/net.keras."),
        ('name = "mlp"', ["model.file=/no/net.keras"], "model.file: no such file: /no/net.keras."),
        ('file = "net.onnx"', [], "{0}/mine.toml: model: file must end in .keras"),
    ],
)
def test_a_saved_network_that_is_not_there_is_named(
    tmp_path: Path, model: str, typed: list[str], message: str
) -> None:
    found = error_of(RecipeError, load_with, tmp_path, model, *typed)
    assert found.startswith(message.format(tmp_path))


def test_a_network_named_on_the_command_line_is_not_taken_for_that_of_the_recipe(
    tmp_path: Path,
) -> None:
    path = tmp_path / "net.keras"
    path.touch()
    shipped = load_shipped("svhn_rcnn")
    info = shipped.recipe
    assert info.notes and shipped.reference
    assert shipped.training.head == shipped.training.validation_head == "double_softmax"
    own = load_shipped("svhn_rcnn", f"model.file={path}")
    assert own.recipe.title == f"net.keras in place of the network of {info.title}"
    assert own.recipe.source == f"net.keras with data and training of: {info.source}"
    assert (own.recipe.notes, own.reference) == ("", ())
    plain = {"head": "logits", "validation_head": "logits"}
    assert own.training == dataclasses.replace(shipped.training, **plain)
    replaced = load_shipped("mnist_mlp", f"model.file={path}")
    assert "model.hidden_units" not in replaced.sweep
    assert (replaced.expect.val_accuracy_at_epoch, replaced.expect.target_accuracy) == ({}, 0.98)
    asked = load_shipped("svhn_rcnn", f"model.file={path}", "training.head=double_softmax")
    assert (asked.training.head, asked.training.validation_head) == ("double_softmax", "logits")
    same = load_shipped("svhn_rcnn", f"model.name={shipped.model.name}")
    assert (same.recipe, same.reference) == (info, shipped.reference)


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("inf", "must be a finite number. Received: inf."),
        (
            "2024-05-01",
            "must be a string, number, boolean, or an array or table of such. Received:",
        ),
        (
            "9223372036854775808",
            "holds an integer of more than 64 bits. Received: 9223372036854775808.",
        ),
        ("0x" + "f" * 5000, "holds an integer of more than 64 bits."),
        ('"a\\u0000"', "holds a NUL character, which no path can have."),
        ("[" * 40 + "]" * 40, "holds arrays or tables of more than 32 levels."),
    ],
)
def test_rejects_what_no_record_can_hold(tmp_path: Path, value: str, problem: str) -> None:
    found = error_of(RecipeError, load_with, tmp_path, f'name = "a:b"\nx = {value}')
    assert found.startswith(f"{tmp_path}/mine.toml: model.x")
    assert f": {problem}" in found


def test_a_network_named_on_the_command_line_does_not_get_the_options_of_another(
    tmp_path: Path,
) -> None:
    model = 'name = "mlp"\nhidden_units = [3]'
    assert load_with(tmp_path, model, "model.name=simple_rnn").model.options["units"] == 100
    own = load_with(tmp_path, model, "model.name=a.b:c", "model.width=2")
    assert own.model.options == {"width": 2}
    assert load_with(tmp_path, model, "model.name=mlp").model.options["hidden_units"] == [3]
    synthetic = MINIMAL.replace('"mnist"', '"sine"\nnum_points = 200\ndata = "synthetic"')
    recipe = load(tmp_path, synthetic, "dataset.name=mnist")
    assert (recipe.dataset.options, recipe.dataset.data) == ({}, "synthetic")
