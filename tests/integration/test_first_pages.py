"""The commands of the pages that a newcomer reads first work."""

from collections.abc import Callable

import pytest

from pages import FIRST_PAGES, open_shell, run_page

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], None]:
    """Runs a command in a folder that all pages share."""
    return open_shell(tmp_path_factory.mktemp("pages"))


@pytest.mark.parametrize("page", FIRST_PAGES)
def test_commands_of_a_page_work(page: str, shell: Callable[[str], None]) -> None:
    run_page(page, shell)
