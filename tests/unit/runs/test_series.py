"""The loop that makes runs: what ends it beside the end of its runs, which tests of repeats and sweeps hold."""

import os
import signal
from typing import Any

import pytest

from builders import build_request
from tfbench.runs.series import make_runs


def test_a_signal_while_the_next_run_is_chosen_ends_the_series_before_it() -> None:
    def next_run(done: Any) -> Any:
        os.kill(os.getpid(), signal.SIGINT)
        return build_request(), ""

    series = make_runs(next_run, lambda request, label: pytest.fail("it was to be stopped"))
    assert (series.was_interrupted, series.runs) == (True, ())
