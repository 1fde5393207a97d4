"""Stands in for measured runs, where a test is about what is done with several of them."""

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from builders import build_result
from tfbench.records.observer import Observer
from tfbench.records.run import RunExit, RunRequest, Summary
from tfbench.runs.run import NO_LIMITS, Run, RunLimits
from tfbench.runs.run_maker import RunMaker
from tfbench.store.store import Store, TrackingState

# What becomes of a run: its speed, how it ended, or why it was rejected.
Fate = float | str | Exception


class FakeRuns:
    """Makes runs that end as they are told to; the last fate is that of all runs that follow.

    "FAILED" is a run that failed, "STOPPED" one that was stopped on request, and "SIGNAL" one that finished while a
    request to stop came in that it did not hear.
    """

    def __init__(self, *fates: Fate, **metrics: Callable[[int], float | None]) -> None:
        self._fates = fates
        self._metrics = metrics
        self.requests: list[RunRequest] = []
        self.labels: list[str] = []

    def __call__(self, request: RunRequest, label: str = "", *rest: Any) -> Run:
        number = len(self.requests)
        self.requests.append(request)
        self.labels.append(label)
        fate = self._fates[min(number, len(self._fates) - 1)]
        if isinstance(fate, Exception):
            raise fate
        if fate == "SIGNAL":
            os.kill(os.getpid(), signal.SIGINT)
            fate = 100.0
        status = "FINISHED" if isinstance(fate, float) else "KILLED" if fate == "STOPPED" else "FAILED"
        metrics = {name: make(number) for name, make in self._metrics.items()}
        return Run(
            result=build_result(request=request, dataset=None, exit=RunExit(status=status)),
            summary=Summary(metrics={"samples_per_second": fate if isinstance(fate, float) else 1e6} | metrics),
            tracked=None,
            journal=Path("run.jsonl"),
            was_interrupted=fate == "STOPPED",
        )


class FakeMaker(RunMaker):
    """Makes such runs in a store; `limits` are those that it was given."""

    def __init__(self, store: Store, runs: FakeRuns) -> None:
        super().__init__(store, TrackingState(tracking_uri="sqlite:///mlflow.db", experiment="tfbench"), None)
        self._runs = runs
        self.limits: list[RunLimits] = []

    def make(self, request: RunRequest, observer: Observer, limits: RunLimits = NO_LIMITS) -> Run:
        """Makes a run."""
        self.limits.append(limits)
        return self._runs(request)
