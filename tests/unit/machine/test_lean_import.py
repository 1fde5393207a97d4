"""A package imported without what it would bring along."""

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
