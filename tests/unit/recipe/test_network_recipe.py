"""A network named in place of a recipe.

Where its data comes from, and that nothing of it is imported.
"""

from pathlib import Path

import pytest

from tfbench.errors import RecipeError, UnknownNameError
from tfbench.recipe.files import find_recipe, load_recipe
from tfbench.runs.requests import load_request

TRACE = "import pathlib\npathlib.Path('imported').touch()\n"


@pytest.mark.parametrize(
    ("code", "dataset"),
    [
        ("", "network"),
        ("def other():\n    load_data = 1", "network"),
        ("import data.load_data", "network"),
        ("def load_data(): ...", "{file}:load_data"),
        ("from data import load_data", "{file}:load_data"),
        ("from data import other as load_data", "{file}:load_data"),
        ("load_data = functools.partial(print)", "{file}:load_data"),
        ("try:\n    from data import load_data\nexcept ImportError: ...", "{file}:load_data"),
    ],
)
def test_a_file_of_code_trains_on_the_data_of_its_own(
    in_tmp_path: Path, code: str, dataset: str
) -> None:
    file = in_tmp_path / "nets.py"
    file.write_text(f"{TRACE}{code}\n", encoding="utf-8")
    request = load_request("nets.py:build", values={"training.epochs": 2, "model.width": 3})
    recipe = request.recipe
    assert (recipe.model.name, recipe.model.options) == (f"{file}:build", {"width": 3})
    assert recipe.dataset.name == dataset.format(file=file)
    assert (recipe.name, recipe.training.epochs, request.allows_code) == ("nets", 2, True)
    assert not Path("imported").exists()


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("old.h5", "Keras's old format"),
        ("w.weights.h5", "weights without their network"),
        ("saved", "SavedModel"),
    ],
)
def test_a_network_saved_in_another_format_is_named_with_what_to_do(
    in_tmp_path: Path, name: str, told: str
) -> None:
    path = in_tmp_path / name
    if name == "saved":
        path.mkdir()
        path /= "saved_model.pb"
    path.touch()
    with pytest.raises(UnknownNameError, match=told):
        find_recipe(name)
    with pytest.raises(RecipeError, match=told):
        load_recipe(find_recipe("mnist_mlp"), {"model.file": name})


def test_a_saved_network_is_a_recipe_for_data_that_is_named(in_tmp_path: Path) -> None:
    (in_tmp_path / "net.keras").touch()
    recipe = load_recipe(find_recipe("net.keras"), {"dataset.name": "mnist"})
    assert recipe.model.options["file"] == f"{in_tmp_path}/net.keras"
    assert recipe.dataset.name == "mnist"
    assert load_recipe(find_recipe("net.keras")).dataset.options["num_samples"] == 1024
