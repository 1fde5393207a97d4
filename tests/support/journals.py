"""Journals for tests, written record by record as a parent and its worker write them.

And stores to put them in.
"""

import contextlib
import dataclasses
import functools
import math
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import sharing
from builders import (
    build_dataset,
    build_epoch,
    build_placement,
    build_recipe,
    build_request,
    build_result,
    build_span,
)
from tfbench.profiles.readings import Profile
from tfbench.runs.record import ModelSummary, RunResult
from tfbench.schema import to_plain
from tfbench.store.journal import Journal, plain_fields, request_fields
from tfbench.store.liveness import run_lock
from tfbench.store.store import Store
from tfbench.tracking import database

DEAD_PID = 2**22 + 1
_HELD = contextlib.ExitStack()  # until the tests end


def hold(path: Path) -> None:
    """Makes the run of a journal one that goes on: this process holds its lock."""
    _HELD.enter_context(run_lock(path))


def begin_elsewhere(path: Path) -> None:
    """Marks the run of a journal as begun on another host.

    Its lock is not seen to be held.
    """
    path.with_suffix(".lock").write_text("elsewhere")


def make_database(store: Store) -> None:
    """Gives a store its database at once.

    MLflow's own way takes seconds, and few tests are about it.
    """
    store.root.mkdir(parents=True, exist_ok=True)
    store.database.write_bytes(_migrated_database())
    database.relocate(store.database, store.artifacts)


@functools.cache
def _migrated_database() -> bytes:
    path = Path(sharing.server_of_session()).with_name("mlflow.db")
    with sharing.locked(path.with_name("lock")):
        if not path.exists():
            part = path.with_suffix(".part")
            part.unlink(missing_ok=True)
            assert sharing.call("migrated_database", str(part)) == 0
            part.replace(path)
    return path.read_bytes()


def write_journal(store: Store, result: RunResult, *, without: Collection[str] = ()) -> Path:
    """Writes the journal from which a result is rebuilt, leaving out records of some kinds."""
    path = store.create_journal(result.request.run_id)
    journal = Journal(path)
    for kind, fields in _records(result):
        if kind not in without:
            journal.append(kind, **fields)
    journal.close()
    return path


def build_sized_result(index: int, **fields: Any) -> RunResult:
    """Builds a finished run of two epochs.

    Each index has a size, a batch size and a speed of its own.
    """
    width = (100, 1000, 4000)[index % 3]
    batch = (32, 128, 512)[index // 3 % 3]
    parameters = 784 * width + width * width + 12 * width
    speed = 2e9 / parameters * math.sqrt(batch)
    strategy = ("one_device", "mirrored")[index % 2]
    request = build_request(
        run_id=f"{index:032x}",
        name=f"mlp-{width}-b{batch}-{index}",
        created=1_700_000_000.0 + index,
        recipe=build_recipe(
            model={"name": "mlp", "hidden_units": [width, width]},
            training={"global_batch_size": batch, "epochs": 2},
        ),
    )
    epochs = tuple(
        build_epoch(
            epoch=epoch,
            samples_per_second=speed * (0.9 + 0.05 * epoch),
            val_accuracy=0.9 + 0.01 * index - 0.02 / epoch,
            finished_at=1_700_000_010.0 + index + epoch,
        )
        for epoch in (1, 2)
    )
    values: dict[str, Any] = {
        "request": request,
        "placement": build_placement(
            strategy=strategy, global_batch_size=batch, per_replica_batch_size=batch
        ),
        "dataset": build_dataset(),
        "model": ModelSummary(num_parameters=parameters, num_trainable_parameters=parameters),
        "spans": tuple(
            build_span(first_step=first, last_step=first + 9, seconds=10 * batch / speed)
            for first in range(1, 60, 10)
        ),
        "epochs": epochs,
        "steps_per_epoch": 30,
        "ended_at": 1_700_000_013.0 + index,
    }
    return build_result(**values | fields)


def _records(result: RunResult) -> list[tuple[str, dict[str, Any]]]:
    ready = plain_fields(
        **{
            name: getattr(result, name)
            for name in ("placement", "settings", "environment", "dataset", "model")
        }
    )
    spans = [[span.epoch, span.first_step, span.last_step, span.seconds] for span in result.spans]
    return [
        ("request", request_fields(result.request)),
        ("worker", {"pid": DEAD_PID}),
        ("ready", ready | {"steps_per_epoch": result.steps_per_epoch}),
        ("request", request_fields(result.request)),
        *([("energy_sources", plain_fields(energy=result.energy))] if result.energy else []),
        ("started", {"time": result.started_at}),
        *(("energy", plain_fields(reading=reading)) for reading in result.energy_readings),
        *(("machine", plain_fields(state=state)) for state in result.machine_states),
        ("spans", {"spans": spans}),
        *(
            ("epoch", {**plain_fields(epoch=epoch), "time": epoch.finished_at})
            for epoch in result.epochs
        ),
        *([("failed", {"error": result.error, "time": result.ended_at})] if result.error else []),
        *([("trained", plain_fields(usage=result.usage))] if result.usage else []),
        *(
            [("input_check", plain_fields(input_check=result.input_check))]
            if result.input_check
            else []
        ),
        *(("peak_check", plain_fields(peak_check=check)) for check in result.peak_checks),
        *(_profile_records(result.profile or Profile()) if result.request.profile else []),
        *([("breakdown", plain_fields(breakdown=result.breakdown))] if result.breakdown else []),
        *([("finished", {"time": result.ended_at})] if result.stage == "finished" else []),
        *(
            [("exit", dataclasses.asdict(result.exit) | {"time": result.ended_at})]
            if result.exit
            else []
        ),
    ]


def _profile_records(profile: Profile) -> Iterator[tuple[str, dict[str, Any]]]:
    yield "profile_layers", {"layers": [to_plain(layer) for layer in profile.layers], "problem": ""}
    for one in profile.rounds:
        yield "profile_round", {"round": to_plain(one)}
    if profile.bandwidth:
        yield "profile_bandwidth", plain_fields(bandwidth=profile.bandwidth)
    if profile.operations:
        traced = {
            "num_steps": profile.num_traced_steps,
            "step_seconds": profile.traced_step_seconds,
        }
        yield (
            "profile_operations",
            {"operations": [to_plain(one) for one in profile.operations], **traced},
        )
