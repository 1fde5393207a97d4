"""The commands of all other pages work."""

from collections.abc import Callable

import pytest

from pages import FIRST_PAGES, list_pages_with_commands, open_shell, run_page

pytestmark = pytest.mark.slow

OTHERS = [page for page in list_pages_with_commands() if page not in FIRST_PAGES]


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], None]:
    """Runs a command in a folder that all pages share."""
    return open_shell(tmp_path_factory.mktemp("pages"))


@pytest.mark.parametrize("page", OTHERS)
def test_commands_of_a_page_work(page: str, shell: Callable[[str], None]) -> None:
    run_page(page, shell)
