"""Stands in for measured runs, where a test is about what is done with several of them."""

import dataclasses
import os
import platform
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from builders import build_dataset, build_environment, build_result
from journals import write_journal
from tfbench.runs.maker import RunMaker
from tfbench.runs.observer import Observer
from tfbench.runs.record import RunExit, RunRequest, Summary
from tfbench.runs.stored_run import NO_LIMITS, Run, RunLimits
from tfbench.store.index import write_brief
from tfbench.store.store import Store, TrackingState

# What becomes of a run: its speed, how it ended, or why it was rejected.
Fate = float | str | Exception
Fates = tuple[Fate, ...]


class FakeRuns:
    """Makes runs that end as they are told to; the last fate is that of all runs that follow.

    "FAILED" is a run that failed, "STOPPED" one that was stopped on request, and "SIGNAL" one that
    finished while a request to stop came in that it did not hear.
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
        speed = fate if isinstance(fate, float) else 100.0 if fate == "SIGNAL" else 1e6
        metrics = {name: make(number) for name, make in self._metrics.items()}
        return end_run(request, fate, {"samples_per_second": speed} | metrics, dataset=None)


def end_run(
    request: RunRequest, fate: Any, metrics: dict[str, Any], reason: str = "", **fields: Any
) -> Run:
    """Returns a run that met its fate, or raises why it was rejected."""
    if isinstance(fate, Exception):
        raise fate
    if fate == "SIGNAL":
        os.kill(os.getpid(), signal.SIGINT)
    status = {"FAILED": "FAILED", "STOPPED": "KILLED"}.get(str(fate), "FINISHED")
    reasons = {"FAILED": reason, "KILLED": "interrupted by SIGINT"}
    ended = RunExit(status=status, reason=reasons.get(status, ""))
    return Run(
        result=build_result(request=request, exit=ended, **fields),
        summary=Summary(metrics=metrics),
        tracked=None,
        journal=Path("run.jsonl"),
        was_interrupted=fate in ("STOPPED", "HEARD"),
    )


def keep_run(store: Store, run: Run) -> None:
    """Writes what a store has of a run: its journal, and the brief with its figures."""
    write_brief(run.result, run.summary, write_journal(store, run.result))


class FakeMaker(RunMaker):
    """Makes such runs in a store; `limits` are those that it was given."""

    def __init__(self, store: Store, runs: FakeRuns) -> None:
        super().__init__(
            store, TrackingState(tracking_uri="sqlite:///mlflow.db", experiment="tfbench"), None
        )
        self._runs = runs
        self.limits: list[RunLimits] = []

    def make(self, request: RunRequest, observer: Observer, limits: RunLimits = NO_LIMITS) -> Run:
        """Makes a run."""
        self.limits.append(limits)
        run = self._runs(request)
        here = build_environment(hostname=platform.node())
        result = dataclasses.replace(run.result, dataset=build_dataset(), environment=here)
        keep_run(self.store, dataclasses.replace(run, result=result))
        return run
