"""Runs of a store as Python callers read them: one as a whole, all of them as rows."""

import html
import signal
import threading
from pathlib import Path

import pytest

import tfbench
from journals import build_sized_result, hold, write_journal
from tfbench.errors import TrackingError
from tfbench.runs.status import StopSignals
from tfbench.store.store import Store


@pytest.fixture
def store(in_tmp_path: Path, store: Store) -> Store:
    """The store of the current folder, with two runs of one recipe."""
    for index in (1, 0):
        write_journal(store, build_sized_result(index))
    return store


def test_what_python_shows_of_runs_is_a_line_and_a_table(store: Store) -> None:
    compared = tfbench.compare()
    run = tfbench.read_run()
    assert len(repr(compared)) < 200 and len(repr(run)) < 200
    page = compared._repr_html_()
    assert page.count("<tr>") == 1 + len(compared.comparison.rows)
    assert all(html.escape(sentence) in page for sentence in compared.verdict)


def test_a_run_that_is_under_way_is_not_gone_on_with(in_tmp_path: Path) -> None:
    result = build_sized_result(0)
    hold(write_journal(Store(Path("mlruns")), result, without=("exit", "finished")))
    with pytest.raises(TrackingError, match="is still running"):
        tfbench.run(resume=result.request.run_id)


def test_signals_are_heard_in_the_main_thread_alone() -> None:
    seen = []

    def in_a_thread() -> None:
        with StopSignals() as stop:
            seen.append(stop.received)

    before = signal.getsignal(signal.SIGTERM)
    thread = threading.Thread(target=in_a_thread)
    thread.start()
    thread.join()
    assert (seen, signal.getsignal(signal.SIGTERM)) == ([None], before)
