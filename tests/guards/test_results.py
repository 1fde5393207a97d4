"""The pages in docs/results/ are what docs/results.py makes of the journals beside them."""

import importlib.util
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_pages_say_what_the_journals_say() -> None:
    spec = importlib.util.spec_from_file_location("results", ROOT / "docs" / "results.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    pages = module.write_pages()
    assert pages
    for path, text in pages.items():
        assert path.read_text(encoding="utf-8") == text, "run `python docs/results.py`"
