"""The pages in docs/results/ are what docs/results.py makes of the journals beside them."""

from pathlib import Path

import pytest

import results
from builders import build_recipe
from sweeps import build_plan, write_sweep
from tfbench.recipe.tables import to_tables
from tfbench.store.store import Store


def test_a_sweep_of_one_size_has_a_page_without_a_plot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(tmp_path / "store")
    plan = build_plan(
        sweep_id="a" * 32,
        variations=(),
        tables=to_tables(build_recipe(measurement={"seconds": 5.0})),
    )
    write_sweep(store, plan, lambda planned: 100.0)
    monkeypatch.setattr(results, "RESULTS", tmp_path / "results")
    results.pack(store.root, tmp_path / "results" / "machine")
    (text,) = results.write_pages().values()
    assert "tfbench sweep test" in text and "![" not in text


def test_pages_say_what_the_journals_say() -> None:
    pages = results.write_pages()
    assert pages
    for path, text in pages.items():
        assert path.read_text(encoding="utf-8") == text, "run `python docs/results.py`"
