"""From TOML and overrides to a recipe, and every mistake a user can make on the way."""

import dataclasses
import re
from pathlib import Path
from typing import Any

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


def load(folder: Path, text: str = MINIMAL, **overrides: Any) -> tables.Recipe:
    return files.load_recipe(
        write(folder, text), {key.replace("__", "."): value for key, value in overrides.items()}
    )


def load_with(folder: Path, model: str, **overrides: Any) -> tables.Recipe:
    return load(folder, MINIMAL.replace('name = "mlp"', model), **overrides)


def test_command_line_wins_over_the_file_and_the_file_over_the_defaults(tmp_path: Path) -> None:
    text = MINIMAL.replace('"adam"', '"adam", epsilon = 1e-8')
    training = load(
        tmp_path, text, training__epochs=9, training__optimizer__learning_rate=0.5
    ).training
    assert (training.epochs, training.global_batch_size) == (9, 32)
    assert training.optimizer == AdamConfig(learning_rate=0.5, epsilon=1e-8)
    other = load(tmp_path, text, training__optimizer={"name": "adadelta"}, measurement__steps=5)
    assert (other.training.optimizer, other.measurement.steps) == (AdadeltaConfig(), 5)


def test_a_run_is_limited_unless_the_recipe_or_the_command_line_limits_it(tmp_path: Path) -> None:
    def limits(text: str, **overrides: Any) -> tuple[int | None, float | None]:
        values = {f"measurement.{key}": value for key, value in overrides.items()}
        measurement = files.load_recipe(
            write(tmp_path, text), values, steady_seconds=5.0
        ).measurement
        return measurement.steps, measurement.seconds

    assert limits(MINIMAL) == (None, 5.0)
    assert limits(MINIMAL, steps=20) == (20, None)
    assert limits(f"{MINIMAL}[measurement]\nseconds = 2.0\n") == (None, 2.0)
    assert limits(f"{MINIMAL}[measurement]\nwarmup_steps = 20\n") == (None, 5.0)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "recipes/mnist_mpl.toml",
            "recipes/mnist_mpl.toml: no such file. Did you mean 'mnist_mlp'?",
        ),
        ("mnist_mpl", "unknown recipe 'mnist_mpl'. Did you mean 'mnist_mlp'?"),
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


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        ("training.epochs=0", "training.epochs: must be greater than or equal to 1. Received: 0."),
        (
            "training.global_batch_size=1000000000",
            "training.global_batch_size: must be less than or equal to 16777216.",
        ),
        ("training.optimizer.learning_rate=nan", "must be a finite number. Received: nan."),
        (
            "training.optimizer.name=adm",
            "must be one of adam, sgd, adadelta, keras. Received: 'adm'.",
        ),
        ("training.optimizer.momentum=0.5", "unknown key."),
        (
            "training.epoch=1",
            "training.epoch: unknown key. Did you mean 'epochs'? Known keys: backend,",
        ),
        (
            "training.loss=mean_squared_error",
            "must be sparse_categorical_crossentropy, since the data set mnist has",
        ),
        ("distribution.strategy=miror", "Did you mean 'mirrored'?"),
        ("model.name=mpl", "model.name: unknown model 'mpl'. Did you mean 'mlp'?"),
        ("model.name=../errors", "model.name: unknown model '../errors'."),
        (
            "model.hidden_unit=[1]",
            "model.hidden_unit: unknown key. Did you mean 'hidden_units'? Known keys: ",
        ),
        (
            "model.hidden_units=5",
            "model.hidden_units: must be a list, such as [1000, 1000]. Received: 5.",
        ),
        ("dataset.name=mnits", "dataset.name: unknown data set 'mnits'. Did you mean 'mnist'?"),
        (
            "training.learning_rate=0.1",
            "training.learning_rate: unknown key. It is training.optimizer.learning_rate. Known",
        ),
        (
            "training.hidden_units=[1]",
            "training.hidden_units: unknown key. It is model.hidden_units. Known keys: backend,",
        ),
        (
            "training.devices=[1]",
            "training.devices: unknown key. It is distribution.devices. Known keys: backend,",
        ),
        ("training.optimizer.epochs=2", "epochs: unknown key. It is training.epochs. Known keys:"),
        ("trainning.epochs=1", "trainning: unknown key. Did you mean 'training'?"),
        ("model.name=nets:", 'model.name: must be written as "package.module:function" or'),
        ("model.name=import:c", "must be written as"),
        (
            "training.data_on_device=true distribution.strategy=mirrored",
            "training.data_on_device: cannot be true with",
        ),
        (
            "training.data_on_device=true training.backend=jax",
            "data_on_device: must be false on backend jax.",
        ),
        (
            "dataset.name=my.data:load dataset.data=synthetic",
            "dataset.data: cannot be synthetic, since only loading",
        ),
        (
            "training.deterministic=true training.compiler=xla",
            'compiler cannot be "xla" with deterministic = true',
        ),
        (
            "training.compiler=inductor",
            "compiler: must be graph or xla or eager on backend tensorflow.",
        ),
        (
            "training.backend=jax training.compiler=graph",
            "must be xla or eager on backend jax. Received: graph.",
        ),
        (
            "training.backend=torch training.compiler=xla",
            "must be eager or inductor on backend torch. Received: xla.",
        ),
        (
            "distribution.num_workers=2",
            "num_workers: needs strategy multi_worker. Received: strategy default",
        ),
        (
            "distribution.mesh.data=2",
            "mesh: needs strategy model or hybrid. Received: strategy default.",
        ),
        (
            "distribution.strategy=model distribution.mesh.data=2",
            "mesh: strategy model does not split batches",
        ),
        (
            "distribution.strategy=hybrid distribution.mesh.rows=2",
            "mesh.rows: must be one of data, model",
        ),
    ],
)
def test_rejects_a_wrong_value_with_one_line(tmp_path: Path, typed: str, message: str) -> None:
    values = dict(map(tables.parse_override, typed.split()))
    path = write(tmp_path, MINIMAL)
    (line,) = error_of(RecipeError, files.load_recipe, path, values).splitlines()
    assert "mine.toml" not in line
    assert message in line


def test_an_unknown_key_within_a_list_of_tables_is_named(tmp_path: Path) -> None:
    table = '[[reference]]\nhardware = "x"\ndevices = "1 gpu"\nsource = "x"\nepochs = 1\n'
    path = write(tmp_path, MINIMAL + table)
    message = error_of(RecipeError, files.load_recipe, path)
    assert f"{path}: reference.0.epochs: unknown key. It is training.epochs." in message


@pytest.mark.parametrize(
    ("removed", "message"),
    [
        (r"\[dataset\][^\[]*", "dataset: missing table [dataset]."),
        ("epochs = 2\n", "training.epochs: missing."),
    ],
)
def test_rejects_a_recipe_without_a_table_or_a_required_key(
    tmp_path: Path, removed: str, message: str
) -> None:
    found = error_of(RecipeError, load, tmp_path, re.sub(removed, "", MINIMAL))
    assert found.endswith(f"mine.toml: {message}")


def test_names_all_problems_of_a_file_at_once(tmp_path: Path) -> None:
    text = (
        MINIMAL.replace("epochs = 2", "epochs = 0")
        .replace('"mlp"', '"mpl"')
        .replace('"mnist"', '"mnits"')
    )
    found = error_of(RecipeError, load, tmp_path, text + "[extra]\n", distribution__strategy="x")
    lines = found.splitlines()
    assert len(lines) == 5
    assert sorted("mine.toml: " in line for line in lines) == [False, True, True, True, True]
    assert [line for line in lines if line.startswith("distribution.strategy: ")]


@pytest.mark.parametrize(
    ("text", "key", "value"),
    [
        ("training.epochs=3", "training.epochs", 3),
        ("model.hidden_units=[4000, 4000]", "model.hidden_units", [4000, 4000]),
        ("training.optimizer.learning_rate = 1e-2", "training.optimizer.learning_rate", 0.01),
        ("distribution.strategy=mirrored", "distribution.strategy", "mirrored"),
        ('recipe.title="a = b"', "recipe.title", "a = b"),
    ],
)
def test_reads_an_override(text: str, key: str, value: object) -> None:
    assert tables.parse_override(text) == (key, value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        *(
            (text, "must be SECTION.KEY=VALUE, for example")
            for text in ("training.epochs", "epochs=3", "a..b=1", "")
        ),
        ("training.epochs=", "the value is not valid TOML"),
        ("model.hidden_units=[1", "the value is not valid TOML"),
    ],
)
def test_rejects_an_override_without_key_and_value(text: str, message: str) -> None:
    with pytest.raises(RecipeError, match=re.escape(message)):
        tables.parse_override(text)
    with pytest.raises(
        RecipeError, match=r"--set training\.epochs\.x: training\.epochs is not a table"
    ):
        tables.set_value({"training": {"epochs": 1}}, "training.epochs.x", 1)


def test_a_saved_network_lies_beside_its_recipe_or_in_the_current_folder_for_the_command_line(
    in_tmp_path: Path,
) -> None:
    for folder in ("a", "a/nets", "b"):
        Path(folder).mkdir()
        Path(folder, "net.keras").touch()
    Path("b/linked.keras").symlink_to("net.keras")
    in_file = load_with(in_tmp_path / "a", 'file = "nets/../net.keras"')
    assert (in_file.model.name, in_file.model.options["file"]) == (
        "keras_file",
        f"{in_tmp_path}/a/net.keras",
    )
    assert load_with(in_tmp_path / "a", 'name = "keras_file"\nfile = "net.keras"') == in_file
    typed = load_with(in_tmp_path / "a", 'file = "net.keras"', model__file="b/linked.keras")
    assert typed.model.options["file"] == f"{in_tmp_path}/b/linked.keras"
    assert tables.from_tables(tables.to_tables(typed), name="mine", source="again") == typed


def test_a_key_of_the_file_is_not_taken_for_one_of_its_section_that_was_set(tmp_path: Path) -> None:
    text = MINIMAL.replace("epochs = 2", 'epochs = 2\ncompiler = "inductor"')
    with pytest.raises(RecipeError, match=r"mine\.toml: training: compiler: must be"):
        load(tmp_path, text, training__epochs=3)
    with pytest.raises(RecipeError, match=r"^training: compiler: must be"):
        load(tmp_path, text, training__compiler="inductor")


def test_a_saved_network_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(
        RecipeError, match=rf"mine\.toml: model\.file: no such file: {tmp_path}/net\.keras\."
    ):
        load_with(tmp_path, 'file = "net.keras"')
    with pytest.raises(RecipeError, match=r"^model\.file: no such file: /nowhere/net\.keras\."):
        load_with(tmp_path, 'name = "mlp"', model__file="/nowhere/net.keras")
    with pytest.raises(RecipeError, match=r"mine\.toml: model: file must end in \.keras"):
        load_with(tmp_path, 'file = "net.onnx"')


def test_a_network_named_on_the_command_line_is_not_taken_for_that_of_the_recipe(
    tmp_path: Path,
) -> None:
    path = tmp_path / "net.keras"
    path.touch()
    shipped = files.load_recipe(files.find_recipe("svhn_rcnn"))
    info = shipped.recipe
    assert info.notes and shipped.reference
    assert shipped.training.head == shipped.training.validation_head == "double_softmax"
    own = files.load_recipe(files.find_recipe("svhn_rcnn"), {"model.file": str(path)})
    assert own.recipe.title == f"net.keras in place of the network of {info.title}"
    assert own.recipe.source == f"net.keras with data and training of: {info.source}"
    assert (own.recipe.notes, own.reference) == ("", ())
    assert own.training == dataclasses.replace(
        shipped.training, head="logits", validation_head="logits"
    )
    replaced = files.load_recipe(files.find_recipe("mnist_mlp"), {"model.file": str(path)})
    assert "model.hidden_units" not in replaced.sweep
    assert (replaced.expect.val_accuracy_at_epoch, replaced.expect.target_accuracy) == ({}, 0.98)
    values = {"model.file": str(path), "training.head": "double_softmax"}
    asked = files.load_recipe(files.find_recipe("svhn_rcnn"), values)
    assert (asked.training.head, asked.training.validation_head) == ("double_softmax", "logits")
    same = files.load_recipe(files.find_recipe("svhn_rcnn"), {"model.name": shipped.model.name})
    assert (same.recipe, same.reference) == (info, shipped.reference)


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("inf", "must be a finite number. Received: inf."),
        (
            "2024-05-01",
            (
                "must be a string, number, boolean, or an array or table of such. Received:"
                " 2024-05-01."
            ),
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
    assert found.endswith(f": {problem}")


def test_a_network_named_on_the_command_line_does_not_get_the_options_of_another(
    tmp_path: Path,
) -> None:
    model = 'name = "mlp"\nhidden_units = [3]'
    assert load_with(tmp_path, model, model__name="simple_rnn").model.options["units"] == 100
    assert load_with(tmp_path, model, model__name="a.b:c", model__width=2).model.options == {
        "width": 2
    }
    assert load_with(tmp_path, model, model__name="mlp").model.options["hidden_units"] == [3]
    synthetic = MINIMAL.replace('"mnist"', '"sine"\nnum_points = 200\ndata = "synthetic"')
    recipe = load(tmp_path, synthetic, dataset__name="mnist")
    assert (recipe.dataset.options, recipe.dataset.data) == ({}, "synthetic")
