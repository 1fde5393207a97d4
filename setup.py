"""What setup.cfg cannot say: packages are found, and links of the README hold on an index page."""

import re
from pathlib import Path

from setuptools import find_packages, setup

# The project's place, which all addresses are made from. TO BE FILLED IN before a release.
HOME = "https://example.invalid/tfbench"

ROOT = Path(__file__).parent


def absolute(readme: str) -> str:
    """Returns a text whose relative links and pictures are addresses."""
    return re.sub(r"\]\((?!https?:|#)", rf"]({HOME}/blob/main/", readme)


def read_readme() -> str:
    """Returns the README as an index shows it."""
    readme = absolute((ROOT / "README.md").read_text(encoding="utf-8"))
    return re.sub(r"!\[([^]]*)\]\((\S+)/blob/", r"![\1](\2/raw/", readme)


setup(
    packages=[*find_packages(include=["tfbench", "tfbench.*"]), "tfbench.recipe.shipped"],
    package_dir={"tfbench.recipe.shipped": "recipes"},
    long_description=read_readme(),
    long_description_content_type="text/markdown",
    url=HOME,
    project_urls={
        "Documentation": f"{HOME}/tree/main/docs",
        "Issues": f"{HOME}/issues",
        "Changelog": f"{HOME}/blob/main/CHANGELOG.md",
    },
)
