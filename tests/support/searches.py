"""Runs whose speeds are planted, for sweeps."""

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from builders import build_settings, build_sizes, place_request
from fake_runs import end_run, keep_run
from tfbench.runs import session
from tfbench.runs.record import RunRequest, TrackedRun
from tfbench.runs.stored_run import Run, RunLimits
from tfbench.sweeps import planning, show_in_mlflow

KEY = "training.global_batch_size"
SETUPS = ("default cpu:0", "mirrored cpu:0,cpu:1")
# Of a step and of a sample, in seconds: equal at 667. Backends other than TensorFlow have their
# own.
COSTS = {
    "default": (1e-3, 1e-5),
    "one_device": (1e-3, 1e-5),
    "mirrored": (5e-3, 4e-6),
    "jax": (5e-3, 4e-6),
}

_TRACKED = TrackedRun(tracking_uri="sqlite:///mlflow.db", experiment_id="1", run_id="a" * 32)


class PlantedRuns:
    """Stand-ins for runs, whose steps take `COSTS`, off by up to 0.1 %.

    They end otherwise where `fates` says so.
    """

    def __init__(self, fates: Callable[[int, str], Any] = lambda batch, strategy: None) -> None:
        self._fates = fates
        self.requests: list[RunRequest] = []
        self.limits: list[RunLimits] = []
        self.places: list[tuple[str, str]] = []  # where they are tracked, as far as a test notes it
        self.num_tracked = 0

    def __call__(self, request: RunRequest, *rest: Any) -> Run:
        self.requests.append(request)
        self.limits += [one for one in rest if isinstance(one, RunLimits)]
        recipe = request.recipe
        batch = recipe.training.global_batch_size
        strategy = recipe.distribution.strategy
        fate = self._fates(batch, strategy)
        backend = recipe.training.backend
        fixed, per_sample = COSTS[strategy if backend == "tensorflow" else backend]
        speed = batch / (fixed + per_sample * batch) * (1 + 0.001 * (len(self.requests) % 3 - 1))
        metrics = {
            "samples_per_second": None if fate == "no steps" else speed,
            "global_batch_size": float(batch),
            "num_parameters": 1000.0,
            "num_replicas": float(max(1, len(recipe.distribution.devices))),
        }
        return end_run(
            request,
            fate,
            metrics,
            "out of memory",
            placement=place_request(request),
            settings=build_settings(backend=backend, compiler=recipe.training.compiler_used),
            model=build_sizes(),
        )


MakeRuns = Callable[..., PlantedRuns]


def plant_runs(monkeypatch: pytest.MonkeyPatch) -> MakeRuns:
    """Lets commands make planted runs, which are in the store with their planted figures."""
    monkeypatch.setenv("COLUMNS", "120")

    def use(fates: Callable[[int, str], Any] = lambda batch, strategy: None) -> PlantedRuns:
        runs = PlantedRuns(fates)

        def execute(
            request: RunRequest, state: Any, store: Any, tracker: Any, console: Any, *rest: Any
        ) -> Run:
            store.write_state(request.run_id, state)
            runs.places.append((state.tracking_uri, state.experiment))
            runs.num_tracked += tracker is not None
            outcome = runs(request, *rest)
            keep_run(store, outcome)
            console.finish(dataclasses.replace(outcome, tracked=_TRACKED))
            return outcome

        monkeypatch.setattr(session, "execute_run", execute)
        monkeypatch.setattr(show_in_mlflow, "show_sweep", lambda *rest: None)  # in MLflow
        monkeypatch.setattr(planning, "count_gpus", lambda backend: 0)
        return runs

    return use
