"""Searches for a crossover whose runs are planted."""

import os
import signal
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from builders import build_placement, build_result, build_settings
from sweeps import build_plan
from tfbench.analysis.comparison.crossover import ValueRange
from tfbench.analysis.comparison.judging import Runs
from tfbench.analysis.comparison.speedup import Speedup
from tfbench.records.run import ModelSummary, RunExit, RunRequest, Summary
from tfbench.records.sweep import Arm, CellResult, SweepPlan
from tfbench.runs.limits import RunLimits, RunOutcome
from tfbench.sweeps.crossover import Keep, SearchResult, search
from tfbench.sweeps.search_plan import SearchPlan

KEY = "training.global_batch_size"
ARMS = ("default cpu:0", "mirrored cpu:0,cpu:1")
# Of a step and of a sample, in seconds: equal at 667. Back ends other than TensorFlow have their own.
COSTS = {"default": (1e-3, 1e-5), "mirrored": (5e-3, 4e-6), "jax": (5e-3, 4e-6)}


class PlantedRuns:
    """Makes runs whose steps take `COSTS`, off by up to 0.1 %, and that end otherwise where `fates` says so."""

    def __init__(self, fates: Callable[[int, str], Any] = lambda batch, strategy: None) -> None:
        self._fates = fates
        self.requests: list[RunRequest] = []
        self.limits: list[RunLimits] = []
        self.places: list[tuple[str, str]] = []  # where they are tracked, as far as a test notes it

    def __call__(self, request: RunRequest, *rest: Any) -> RunOutcome:
        self.requests.append(request)
        self.limits += [one for one in rest if isinstance(one, RunLimits)]
        recipe = request.recipe
        batch, strategy = recipe.training.global_batch_size, recipe.distribution.strategy
        fate = self._fates(batch, strategy)
        if isinstance(fate, Exception):
            raise fate
        backend = recipe.training.backend
        fixed, per_sample = COSTS[strategy if backend == "tensorflow" else backend]
        speed = batch / (fixed + per_sample * batch) * (1 + 0.001 * (len(self.requests) % 3 - 1))
        num_replicas = max(1, len(recipe.distribution.devices))
        metrics = {
            "samples_per_second": None if fate == "no steps" else speed,
            "global_batch_size": float(batch),
            "num_parameters": 1000.0,
            "num_replicas": float(num_replicas),
        }
        if fate == "SIGNAL":
            os.kill(os.getpid(), signal.SIGINT)
        status = {"FAILED": "FAILED", "STOPPED": "KILLED"}.get(str(fate), "FINISHED")
        reason = "out of memory" if status == "FAILED" else ""
        placement = build_placement(
            strategy=strategy,
            devices=recipe.distribution.devices or ("cpu:0",),
            num_replicas=num_replicas,
            global_batch_size=batch,
        )
        return RunOutcome(
            result=build_result(
                request=request,
                placement=placement,
                settings=build_settings(backend=backend, compiler=recipe.training.compiler_used),
                model=ModelSummary(num_parameters=1000, num_trainable_parameters=1000),
                exit=RunExit(status=status, reason=reason),
            ),
            summary=Summary(metrics=metrics),
            tracked=None,
            was_interrupted=fate in ("STOPPED", "HEARD"),
        )


class Watcher:
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.begun: list[tuple[int, str, int]] = []
        self.ended: list[int] = []

    def begin(self, value: int, arm: Arm, round_number: int) -> None:
        self.begun.append((value, arm.label, round_number))

    def end(self, value: int, found: Speedup | str) -> None:
        self.ended.append(value)


def build_search(**fields: Any) -> SearchPlan:
    """Builds a search for a batch size from 2 to 4096 in two rounds."""
    fields = {"variations": ()} | fields
    return SearchPlan(sweep=build_plan(**fields), key=KEY, values=ValueRange(low=1, high=4096, step=2))


def forget(plan: SweepPlan, results: Mapping[int, CellResult]) -> None:
    """Keeps nothing of a search."""


def pair(first: Sequence[float], second: Sequence[float]) -> tuple[Runs, Runs]:
    """Returns the runs of both arms in as many rounds."""
    rounds = tuple(range(len(first)))
    return Runs(arm="a", speeds=tuple(first), rounds=rounds), Runs(arm="b", speeds=tuple(second), rounds=rounds)


def run_search(runs: PlantedRuns, keep: Keep = forget, **fields: Any) -> tuple[SearchResult, Watcher]:
    """Searches, and returns what came of it and who watched."""
    watcher = Watcher()
    return search(build_search(**fields), runs, watcher, keep), watcher
