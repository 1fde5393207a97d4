"""A package imported without what it would bring along."""

import gc
import sys
from pathlib import Path

import pytest

from tfbench.machine.lean_import import import_without

_PACKAGE = """
try:
    import picture_maker
except ImportError:
    picture_maker = None
import known_before
"""


@pytest.fixture(autouse=True)
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in {"network": _PACKAGE, "picture_maker": "", "known_before": "", "broken": "1 / 0"}.items():
        (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.syspath_prepend(tmp_path)


def test_what_is_left_out_is_not_found_then_and_is_found_later() -> None:
    import_without("known_before", ())
    import_without("network", ("picture_maker", "known_before"))
    assert sys.modules["network"].picture_maker is None
    assert sys.modules["network"].known_before is sys.modules["known_before"]
    assert "picture_maker" not in sys.modules
    import_without("picture_maker", ())
    assert sys.modules["picture_maker"].__file__


def test_an_import_that_fails_hides_nothing() -> None:
    with pytest.raises(ZeroDivisionError):
        import_without("broken", ("picture_maker",))
    assert "picture_maker" not in sys.modules


@pytest.mark.parametrize("is_on", [True, False])
def test_garbage_is_looked_for_once_all_is_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_on: bool
) -> None:
    (tmp_path / "watchful.py").write_text("import gc\nwas_on = gc.isenabled()", encoding="utf-8")
    (tmp_path / "failing.py").write_text("1 / 0", encoding="utf-8")
    monkeypatch.delitem(sys.modules, "watchful", raising=False)
    collections: list[bool] = []  # what is asked for: none begins while another thread's is under way
    monkeypatch.setattr(gc, "collect", lambda: collections.append(gc.isenabled()))
    was_on = gc.isenabled()
    (gc.enable if is_on else gc.disable)()
    try:
        import_without("watchful", ())
        assert collections == ([True] if is_on else [])
        with pytest.raises(ZeroDivisionError):
            import_without("failing", ())
        assert gc.isenabled() is is_on
    finally:
        (gc.enable if was_on else gc.disable)()
    assert sys.modules["watchful"].was_on is False
