import json

import pytest

from journals import build_sized_result, write_journal
from tfbench.errors import TrackingError
from tfbench.runs.stored_run import read_stored
from tfbench.store import index as briefs
from tfbench.store.index import brief_path, read_briefs
from tfbench.store.store import Store


def read(store: Store) -> briefs.Briefs:
    return read_briefs(store, store.run_ids())


def test_a_brief_is_made_once_and_again_when_the_journal_has_grown(store: Store) -> None:
    result = build_sized_result(0)
    path = write_journal(store, result)
    (first,) = read(store).found
    assert brief_path(path).exists()
    brief_path(path).write_text(brief_path(path).read_text().replace('"name":"mlp', '"name":"kept'))
    (kept,) = read(store).found
    assert kept.name.startswith("kept")
    with path.open("a") as file:
        file.write('{"kind":"note","time":1.0,"text":"more"}\n')
    (again,) = read(store).found
    assert again.name == first.name
    assert "more" in again.warnings


@pytest.mark.parametrize(
    "changes",
    [
        *(
            {"metrics": []},
            {"created": "now"},
            {"created": 1e308},
            {"tags": {"a": 1}},
            {"cost": [1]},
        ),
        *({"settings": [1]}, {"run_id": "other"}, None),
    ],
)
def test_a_damaged_brief_is_made_again(store: Store, changes: dict[str, object] | None) -> None:
    path = write_journal(store, build_sized_result(0))
    made = read(store)
    plain = json.loads(brief_path(path).read_text())
    brief_path(path).write_text("{" if changes is None else json.dumps(plain | changes))
    assert read(store) == made
    assert json.loads(brief_path(path).read_text()) == plain


def test_figures_that_cannot_be_made_are_those_of_a_damaged_run(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_journal(store, build_sized_result(0))
    monkeypatch.setattr(briefs, "summarize_run", lambda result: 1 / 0)
    found, unreadable = read(store)
    assert found == []
    assert "its figures cannot be made: ZeroDivisionError" in unreadable[path.stem]
    with pytest.raises(TrackingError, match="its figures cannot be made: ZeroDivisionError"):
        read_stored(store, path.stem)


def test_a_journal_that_is_damaged_or_under_the_id_of_another_run_is_said(store: Store) -> None:
    path, damaged = (write_journal(store, build_sized_result(index)) for index in (1, 2))
    damaged.write_text("{")
    copy = path.with_name("copy.jsonl")
    copy.write_bytes(path.read_bytes())
    briefs = read(store)
    assert [brief.run_id for brief in briefs.found] == [path.stem]
    assert f"{copy}: is damaged: it is of run {path.stem}." in briefs.unreadable["copy"]
    assert "is not a tfbench journal" in briefs.unreadable[damaged.stem]
