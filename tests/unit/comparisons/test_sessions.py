"""Runs of several sessions: which are of one, and what is said where setups share none."""

import dataclasses
from typing import Any

import pytest

from builders import build_request
from sweeps import BATCH, TWO_SETUPS, build_brief
from tfbench.comparisons.comparison import Comparison, compare
from tfbench.comparisons.comparison_text import (
    comparison_document,
    comparison_rows,
    comparison_sections,
)
from tfbench.comparisons.fastest import rank_setups
from tfbench.comparisons.sessions import find_sessions
from tfbench.comparisons.user_settings import UserSettings
from tfbench.comparisons.verdict import find_caveats, find_verdict
from tfbench.runs import maker as run_maker
from tfbench.runs.maker import open_maker
from tfbench.show.table import text
from tfbench.store.brief import RunBrief
from tfbench.store.store import Store
from tfbench.sweeps.plan import Setup

HOUR = 3600.0
SCATTER = (0.99, 1.0, 1.01)
ONE, OTHER = TWO_SETUPS
THIRD = Setup(strategy="one_device", devices=("cpu:0",))


def of_session(
    setup: Setup, name: str, *speeds: float, in_rounds: bool = True, batch: int = 32, **tags: str
) -> list[RunBrief]:
    """Builds runs of one sweep, in its rounds or as repeats; each name is of another day."""
    created = 24 * HOUR * sum(name.encode())
    runs = []
    for number, speed in enumerate(speeds, start=1):
        own = {"tfbench.sweep": name, "tfbench.setup": setup.label} | tags
        if in_rounds:
            own["tfbench.round"] = str(number)
        run_id = f"{name}{batch}{setup.label}{number}"
        made = {"tags": own, "run_id": run_id, "created": created + number}
        runs.append(build_brief(speed, setup=setup, batch=batch, **made))
    return runs


def by_hand(run_id: str, created: float, host: str = "bench", **fields: Any) -> RunBrief:
    return build_brief(created=created, run_id=run_id, settings={"hostname": host}, **fields)


def steady(setup: Setup, name: str, speed: float, **options: Any) -> list[RunBrief]:
    return of_session(setup, name, *(speed * off for off in SCATTER), **options)


def shown(comparison: Comparison) -> str:
    return "\n".join(text(comparison_sections(comparison, find_verdict(comparison)), 200))


def test_runs_by_hand_are_of_one_session_up_to_an_hour_apart() -> None:
    # The second took 3 hours: from its end to the next start is less than an hour.
    second = by_hand("b", HOUR)
    long = dataclasses.replace(second, metrics=second.metrics | {"elapsed_seconds": 3 * HOUR})
    runs = [by_hand("c", 4.9 * HOUR), long, by_hand("a", 0.0), by_hand("d", 6.0 * HOUR)]
    found = find_sessions([*runs, by_hand("e", 0.0, host="other")])
    assert found["a"] == found["b"] == found["c"]
    assert len({found[run_id] for run_id in "ade"}) == 3


@pytest.mark.parametrize("tag", ["tfbench.session", "tfbench.sweep", "tfbench.group"])
def test_a_command_that_made_several_runs_is_a_session(tag: str) -> None:
    runs = [by_hand("a", 0.0, tags={tag: "x"}), by_hand("b", 20 * HOUR, tags={tag: "x"})]
    runs.append(by_hand("c", 40 * HOUR, tags={tag: "y"}))
    found = find_sessions(runs)
    assert found["a"] == found["b"] != found["c"]


def test_a_sweep_that_is_resumed_at_once_goes_on_with_its_session_and_its_round() -> None:
    """A round that a stop cut in two is compared; resumed on the next day, it is not."""
    for pause, num in ((0.5 * HOUR, 2), (20 * HOUR, 1)):
        first = [*of_session(ONE, "x", 1000.0, 1010.0), *of_session(OTHER, "x", 1500.0)]
        for run in first:
            run.tags["tfbench.session"] = "before"
        (second,) = of_session(OTHER, "x", 1510.0)
        tags = second.tags | {"tfbench.round": "2", "tfbench.session": "after"}
        second = dataclasses.replace(
            second, run_id="last", created=second.created + pause, tags=tags
        )
        (row,) = compare([*first, second], keys=[BATCH]).rows
        speedup = row.entries[OTHER.label].speedup
        assert speedup and (speedup.num, speedup.is_paired) == (2, num == 2)


def test_a_short_run_beside_a_long_one_does_not_end_its_session() -> None:
    long = dataclasses.replace(by_hand("a", 0.0), seconds=3 * HOUR)
    found = find_sessions([long, by_hand("b", 0.1 * HOUR), by_hand("c", 3.1 * HOUR)])
    assert len(set(found.values())) == 1


def test_each_run_records_the_command_that_made_it(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded: list[str] = []

    def execute(request: Any, *_: object) -> None:
        recorded.append(request.tags["tfbench.session"])

    monkeypatch.setattr(run_maker.session, "execute_run", execute)
    for _ in range(2):
        maker = open_maker(store, False, None, None)
        for _ in range(2):
            maker.make(build_request(tags={"tfbench.session": "of before"}), run_maker.Observer())
    first, second, third, fourth = recorded
    assert first == second != third == fourth
    assert "of before" not in recorded


def test_no_verdict_of_two_sessions_contradicts_its_ratios() -> None:
    # The machine is 20 % slower on Wednesday. One setup ran on both days.
    runs = [
        *steady(ONE, "monday", 1000.0),
        *steady(THIRD, "monday", 1050.0),
        *steady(ONE, "wednesday", 800.0),
        *steady(OTHER, "wednesday", 920.0),
    ]
    for baseline in (ONE, OTHER, THIRD):
        found = compare(runs, keys=[BATCH], baseline=baseline.label)
        (row,) = found.rows
        ratios = {baseline.label: 1.0}
        for setup, entry in row.entries.items():
            if entry.speedup:
                ratios[setup] = entry.speedup.ratio
        assert max(ratios.values()) == ratios[OTHER.label]
        assert ratios[OTHER.label] / ratios[THIRD.label] == pytest.approx(1.15 / 1.05)
        assert find_verdict(found)[0] == f"Use {OTHER.label}."
    entry = row.entries[ONE.label]
    assert entry.session_speeds == pytest.approx((800, 1000), rel=1e-3)
    assert "  800 to 1,000  " in shown(found)


def test_setups_of_two_sessions_without_a_common_one_get_a_marked_ratio_and_no_advice() -> None:
    # 1.5x is beyond what levels drift by; 1.05x is not.
    for speed, mark in ((1500.0, "+s"), (1050.0, "!s")):
        runs = [*steady(ONE, "monday", 1000.0), *steady(OTHER, "friday", speed)]
        runs += steady(ONE, "monday", 2000.0, batch=64)
        runs += steady(OTHER, "friday", 2 * speed, batch=64)
        found = compare(runs, keys=[BATCH])
        assert not any(ranking.winner for ranking in rank_setups(found))
        assert not any(sentence.startswith("Use ") for sentence in find_verdict(found))
        assert any("between sessions (s)" in caveat for caveat in find_caveats(found))
        assert f"] {mark}" in shown(found) and "s between sessions" in shown(found)
        drifting = compare(runs, keys=[BATCH], settings=UserSettings(session_scatter=0.25))
        assert "] !s" in shown(drifting) and "drift by 25 %" in shown(drifting)
        before, after = comparison_document(found, ())["rows"][0]["entries"]
        assert after["speedup"]["is_between_sessions"]
        (monday,) = {run["session"] for run in before["runs"]}
        (friday,) = {run["session"] for run in after["runs"]}
        assert monday != friday
        assert comparison_rows(found)[1]["between_sessions"] is True


def test_documents_say_what_a_row_rests_on_and_whether_it_is_decided() -> None:
    runs = [*steady(ONE, "monday", 1000.0), *steady(ONE, "friday", 1000.0, in_rounds=False)]
    runs += steady(OTHER, "monday", 1500.0)
    runs += of_session(ONE, "monday", *[1000.0] * 3, batch=64)
    runs += of_session(OTHER, "monday", *[1000.0] * 3, batch=64)
    runs += of_session(ONE, "monday", 1000.0, batch=128)
    runs += of_session(OTHER, "monday", 1200.0, batch=128)
    found = compare(runs, keys=[BATCH])
    names = ("num_runs", "num_sessions", "rounds", "decided", "equal")
    listed = [tuple(row[name] for name in names) for row in comparison_rows(found)]
    assert listed == [
        (6, 2, 3, None, None),  # the baseline; three of its runs took no turns
        (3, 1, 3, True, False),
        (3, 1, 3, None, None),
        (3, 1, 3, True, True),
        (1, 1, 1, None, None),
        (1, 1, 1, False, False),
    ]
    in_json = []
    for row in comparison_document(found, ())["rows"]:
        for entry in row["entries"]:
            of_runs = (len(entry["runs"]), entry["num_sessions"], entry["rounds"])
            is_equal = entry["speedup"] and entry["speedup"]["is_equal"]
            in_json.append((*of_runs, entry["decided"], is_equal))
    assert in_json == listed


def test_a_setup_with_one_run_is_not_judged_and_keeps_others_from_being_recommended() -> None:
    sure = [*steady(ONE, "monday", 1000.0), *steady(OTHER, "monday", 1500.0)]
    (ranking,) = rank_setups(compare(sure))
    assert ranking.winner == OTHER.label
    found = compare([*sure, *of_session(THIRD, "monday", 100.0)])
    entry = found.rows[0].entries[THIRD.label]
    assert entry.speedup and entry.speedup.judgement == "not judged"
    assert (entry.interval, rank_setups(found)[0].winner) == (None, "")
    assert f"{THIRD.label} is not judged (one run): 0.10x." in find_verdict(found)
