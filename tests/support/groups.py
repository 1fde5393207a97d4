"""Runs over several workers whose processes measure nothing: quick ones, by `fake_workers`."""

import functools
import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import fake_workers
from builders import (
    build_dataset,
    build_environment,
    build_placement,
    build_recipe,
    build_request,
    build_settings,
    build_sizes,
)
from tfbench.runs import session
from tfbench.runs.observer import Observer
from tfbench.runs.record import RunRequest
from tfbench.runs.stored_run import Run
from tfbench.store.journal import plain_fields
from tfbench.store.store import Store, TrackingState

RUN = "run1"
Fates = Callable[..., None]  # called with what is to become of which worker: w1="fail"


def start_fakes(monkeypatch: pytest.MonkeyPatch, folder: Path) -> Fates:
    """Has processes started that measure nothing."""
    ready = folder / "ready.json"
    fields = plain_fields(
        placement=build_placement(strategy="multi_worker"),
        settings=build_settings(),
        environment=build_environment(),
        dataset=build_dataset(train_samples=320, validation_samples=64),
        model=build_sizes(),
    )
    ready.write_text(json.dumps(fields | {"steps_per_epoch": 10}), encoding="utf-8")
    monkeypatch.setenv(fake_workers.READY, str(ready))
    monkeypatch.setattr(subprocess, "Popen", functools.partial(_start_fake, subprocess.Popen))

    def meet(**fate: str) -> None:
        monkeypatch.setenv(
            fake_workers.FATES,
            json.dumps({name.removeprefix("w"): what for name, what in fate.items()}),
        )

    return meet


def _start_fake(real: Any, command: Sequence[str], **options: Any) -> Any:
    """Starts a worker that measures nothing in place of one that does, and all else as it is."""
    if "tfbench.measure" in command:
        place = command.index("tfbench.measure")
        command = [
            *command[: place - 2],
            sys.executable,
            "-S",
            fake_workers.__file__,
            *command[place + 1 :],
        ]
    return real(command, **options)


def group_request(num_workers: int | None = 2, **training: Any) -> RunRequest:
    """Builds the request of a run over several workers."""
    distribution = {"strategy": "multi_worker", "num_workers": num_workers}
    training = {"global_batch_size": 24} | training
    return build_request(
        run_id=RUN, recipe=build_recipe(distribution=distribution, training=training)
    )


def measure(store: Store, request: RunRequest | None = None) -> Run:
    """Makes a run."""
    state = TrackingState(tracking_uri=store.tracking_uri, experiment="test")
    return session.execute_run(request or group_request(), state, store, None, Observer())
