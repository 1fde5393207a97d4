"""Names of models and data sets are file names."""

import dataclasses
import subprocess
import sys
from pathlib import Path

import pytest

from tfbench.errors import UnknownNameError
from tfbench.recipe import registry


@pytest.mark.parametrize("kind", ["models", "datasets"])
def test_every_name_has_a_summary_line_and_a_config(kind: registry.Kind) -> None:
    names = registry.list_names(kind)
    assert names
    for name, line in names.items():
        assert line.endswith("."), f"{kind}/{name}.py: the docstring's first line is what `tfbench list` prints"
        assert dataclasses.is_dataclass(registry.load(kind, name).Config)


def test_listing_imports_nothing() -> None:
    code = (
        "import sys; from tfbench.recipe import registry; registry.list_names('models'); "
        "print([m for m in sys.modules if m.startswith('tfbench.models')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_an_added_file_is_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "tiny.py").write_text('"""A tiny model.\n\nMore of it."""\n', encoding="utf-8")
    (tmp_path / "models" / "bare.py").write_text("x = 1\n", encoding="utf-8")
    monkeypatch.setattr(registry, "__file__", str(tmp_path / "recipe" / "registry.py"))
    assert registry.list_names("models") == {"bare": "", "tiny": "A tiny model."}


@pytest.mark.parametrize(
    ("kind", "name", "message"),
    [
        ("models", "mpl", "unknown model 'mpl'. Did you mean 'mlp'? Known: "),
        ("datasets", "mnits", "unknown data set 'mnits'. Did you mean 'mnist'? Known: "),
        ("models", "../errors", "unknown model '../errors'."),
        ("models", "layer_table", "unknown model 'layer_table'. Did you mean 'layers'?"),
        ("models", "__init__", "unknown model '__init__'."),
        ("models", "", "unknown model ''."),
    ],
)
def test_names_the_nearest_known_name(kind: registry.Kind, name: str, message: str) -> None:
    with pytest.raises(UnknownNameError) as caught:
        registry.load(kind, name)
    assert str(caught.value).startswith(message)
