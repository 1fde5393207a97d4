import dataclasses
import json

import pytest

from builders import build_environment, build_recipe, build_request, build_result
from journals import build_sized_result, write_journal
from tfbench.analysis.comparison.brief import make_brief
from tfbench.analysis.run.summary import summarize_run
from tfbench.records.machine import BreakdownRecord
from tfbench.schema import to_plain
from tfbench.store.briefs import brief_path, read_briefs, typical_start_seconds
from tfbench.store.store import Store
from tfbench.sweeps.comparison import compare_stored


def test_a_brief_holds_what_comparisons_need(store: Store) -> None:
    result = build_sized_result(4)
    brief = make_brief(result, summarize_run(result), journal_bytes=7)
    assert (brief.run_id, brief.recipe, brief.status, brief.setup) == (
        result.request.run_id,
        "test",
        "FINISHED",
        "one_device cpu:0",
    )
    assert brief.speed == summarize_run(result).metrics["samples_per_second"]
    assert brief.settings["model.hidden_units"] == [1000, 1000]
    assert brief.settings["training.global_batch_size"] == 128
    assert brief.settings["hostname"] == "bench"
    json.dumps(brief.settings)
    assert brief.environment == to_plain(build_environment())
    assert (brief.cost["currency"], brief.target_accuracy, brief.seconds_to_accuracy) == ("USD", None, None)


def test_a_brief_tells_when_the_target_was_reached() -> None:
    recipe = build_recipe(dataset={"data": "real"}, training={"epochs": 1}, expect={"target_accuracy": 0.75})
    result = build_result(request=build_request(recipe=recipe))
    brief = make_brief(result, summarize_run(result), journal_bytes=7)
    assert (brief.target_accuracy, brief.seconds_to_accuracy) == (0.75, 10.0)  # from the request on


def test_what_a_start_takes_is_the_median_of_what_earlier_runs_took(store: Store) -> None:
    assert typical_start_seconds(store) is None
    for number, seconds in enumerate((3.0, 20.0, 4.0)):
        result = build_sized_result(number)
        entries = {"startup": seconds, "first_step": 1.0, "steady": 100.0, "checks": 50.0}
        write_journal(
            store, dataclasses.replace(result, breakdown=BreakdownRecord(entries=entries, elapsed_seconds=200.0))
        )
    assert typical_start_seconds(store) is None  # of none is there a brief
    read_briefs(store, store.run_ids())
    assert typical_start_seconds(store) == pytest.approx(5.0, abs=0.5)


def test_a_brief_is_made_once_and_again_when_the_journal_has_grown(store: Store) -> None:
    result = build_sized_result(0)
    path = write_journal(store, result)
    (first,) = read_briefs(store, store.run_ids()).found
    assert brief_path(path).exists()
    brief_path(path).write_text(brief_path(path).read_text().replace('"name":"mlp', '"name":"kept'))
    (kept,) = read_briefs(store, store.run_ids()).found
    assert kept.name.startswith("kept")
    with path.open("a") as file:
        file.write('{"kind":"note","time":1.0,"text":"more"}\n')
    (again,) = read_briefs(store, store.run_ids()).found
    assert again.name == first.name
    assert "more" in again.warnings


@pytest.mark.parametrize(
    "changes",
    [
        *({"metrics": []}, {"created": "now"}, {"created": 1e308}, {"tags": {"a": 1}}, {"environment": {"a": 1}}),
        *({"settings": [1]}, {"run_id": "other"}, None),
    ],
)
def test_a_damaged_brief_is_made_again(store: Store, changes: dict[str, object] | None) -> None:
    path = write_journal(store, build_sized_result(0))
    made = read_briefs(store, store.run_ids())
    plain = json.loads(brief_path(path).read_text())
    brief_path(path).write_text("{" if changes is None else json.dumps(plain | changes))
    assert read_briefs(store, store.run_ids()) == made
    assert json.loads(brief_path(path).read_text()) == plain


def test_figures_that_cannot_be_made_are_those_of_a_damaged_run(store: Store) -> None:
    path = write_journal(store, build_sized_result(0))
    path.write_bytes(path.read_bytes().replace(b'"num_parameters":', b'"num_parameters":1' + b"0" * 400, 1))
    found, unreadable = read_briefs(store, store.run_ids())
    assert found == []
    assert "its figures cannot be made: OverflowError" in unreadable[path.stem]


def test_a_run_that_has_a_brief_is_read_without_its_journal(store: Store) -> None:
    path = write_journal(store, build_sized_result(0))
    made = read_briefs(store, store.run_ids())
    path.write_bytes(b"x" * path.stat().st_size)
    assert read_briefs(store, store.run_ids()) == made


def test_a_run_that_is_not_over_has_no_brief(store: Store) -> None:
    write_journal(store, build_result(), without=("exit", "finished"))
    assert read_briefs(store, store.run_ids()) == ([], {})


def test_a_journal_that_is_damaged_or_under_the_id_of_another_run_is_said(store: Store) -> None:
    path, damaged = (write_journal(store, build_sized_result(index)) for index in (1, 2))
    damaged.write_text("{")
    copy = path.with_name("copy.jsonl")
    copy.write_bytes(path.read_bytes())
    briefs = read_briefs(store, store.run_ids())
    assert [brief.run_id for brief in briefs.found] == [path.stem]
    assert f"{copy}: is damaged: it is of run {path.stem}." in briefs.unreadable["copy"]
    assert "is no tfbench journal" in briefs.unreadable[damaged.stem]


def test_runs_of_a_store_are_compared_and_those_of_another_machine_are_not_alike(store: Store) -> None:
    write_journal(store, build_sized_result(0))
    environment = build_environment(hostname="other")
    write_journal(store, build_sized_result(0, request=build_sized_result(9).request, environment=environment))
    found = compare_stored(store)
    assert len(found.rows) == 1
    assert sorted(found.setups) == ["one_device cpu:0 on bench", "one_device cpu:0 on other"]
    (entry,) = [entry for setup, entry in found.rows[0].entries.items() if setup != found.baseline]
    assert [one.name for one in entry.unequal] == ["hostname"]
    assert entry.speedup is None
    assert compare_stored(store, recipe="other").rows == ()
