"""What any version of tfbench does for its users, whatever it is made of.

Exit codes, JSON, and what MLflow holds.

Nothing of the product is imported here but `tfbench` itself, and no text is asked for that a person
reads.
"""

from pathlib import Path

import pytest

from contract import Cli


@pytest.fixture(scope="module")
def cli(tmp_path_factory: pytest.TempPathFactory) -> Cli:
    """The command line, in a folder that all tests of a file share."""
    return Cli(tmp_path_factory.mktemp("store"))


@pytest.fixture
def own_cli(tmp_path: Path) -> Cli:
    """The command line, in a folder of one test."""
    return Cli(tmp_path)
