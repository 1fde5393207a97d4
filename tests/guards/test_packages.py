"""The wheel holds every package.

Setup.cfg lists them, since `recipes/` lies outside of `tfbench/`.
"""

import configparser
from pathlib import Path

ROOT = Path(__file__).parents[2]


def read_setup() -> configparser.ConfigParser:
    parser = configparser.ConfigParser(interpolation=None)
    parser.read(ROOT / "setup.cfg", encoding="utf-8")
    return parser


def test_setup_lists_every_package() -> None:
    listed = read_setup()["options"]["packages"].split()
    found = [
        ".".join(path.parent.relative_to(ROOT).parts)
        for path in (ROOT / "tfbench").rglob("__init__.py")
    ]
    assert sorted(listed) == sorted([*found, "tfbench.recipe.shipped"])


def test_every_requirement_has_a_lower_bound() -> None:
    requirements = read_setup()["options"]["install_requires"].splitlines()
    bare = [r for r in requirements if r and not r.startswith("#") and ">=" not in r]
    assert bare == []


def test_every_folder_of_modules_is_a_package() -> None:
    folders = {path.parent for path in (ROOT / "tfbench").rglob("*.py")}
    assert [folder for folder in folders if not (folder / "__init__.py").is_file()] == []
