"""What is published is whole, and its links hold on an index page."""

import configparser
import re
import runpy
from pathlib import Path
from typing import Any

import pytest
import setuptools

ROOT = Path(__file__).parents[2]


def read_setup() -> configparser.ConfigParser:
    parser = configparser.ConfigParser(interpolation=None)
    parser.read(ROOT / "setup.cfg", encoding="utf-8")
    return parser


@pytest.fixture
def published(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Returns what setup.py says of the package."""
    said: dict[str, Any] = {}
    monkeypatch.setattr(setuptools, "setup", lambda **fields: said.update(fields))
    monkeypatch.chdir(ROOT)
    runpy.run_path("setup.py")
    return said


def test_every_package_is_published_with_the_recipes(published: dict[str, Any]) -> None:
    folders = (ROOT / "tfbench").rglob("__init__.py")
    found = {".".join(path.parent.relative_to(ROOT).parts) for path in folders}
    assert set(published["packages"]) == found | {"tfbench.recipe.shipped"}


def test_an_index_page_has_no_relative_links(published: dict[str, Any]) -> None:
    links = re.findall(r"\]\(([^)]+)\)", published["long_description"])
    assert links
    assert [link for link in links if not link.startswith("https://")] == []


def test_every_requirement_has_a_lower_bound() -> None:
    requirements = read_setup()["options"]["install_requires"].splitlines()
    bare = [r for r in requirements if r and not r.startswith("#") and ">=" not in r]
    assert bare == []


def test_every_folder_of_modules_is_a_package() -> None:
    folders = {path.parent for path in (ROOT / "tfbench").rglob("*.py")}
    assert [folder for folder in folders if not (folder / "__init__.py").is_file()] == []
