"""Sweeps and briefs of runs for tests."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from builders import (
    build_dataset,
    build_environment,
    build_epoch,
    build_recipe,
    build_request,
    build_result,
    build_span,
    place_request,
)
from journals import write_journal
from tfbench.machine.facts import BreakdownRecord
from tfbench.recipe.tables import to_tables
from tfbench.runs.record import ModelSummary, RunExit, RunResult
from tfbench.store.brief import FORMAT_VERSION, RunBrief
from tfbench.store.store import Store
from tfbench.store.sweep_log import new_log
from tfbench.sweeps.plan import (
    PlannedRun,
    Setup,
    StartedRun,
    SweepPlan,
    Variation,
    list_configurations,
    list_planned_runs,
    resolve_recipe,
)
from tfbench.sweeps.results import tags_of

BATCHES = Variation(key="training.global_batch_size", values=(32, 64))
TWO_SETUPS = (
    Setup(strategy="default", devices=("cpu:0",)),
    Setup(strategy="mirrored", devices=("cpu:0", "cpu:1")),
)
BATCH = BATCHES.key
DEFAULT, MIRRORED = (setup.label for setup in TWO_SETUPS)


def build_plan(**fields: Any) -> SweepPlan:
    """Builds the plan of two batch sizes under two setups in two rounds."""
    return SweepPlan(
        **{
            "sweep_id": "abc",
            "created": 1_700_000_000.0,
            "recipe_name": "test",
            "tables": to_tables(build_recipe()),
            "overrides": (),
            "variations": (BATCHES,),
            "setups": TWO_SETUPS,
            "num_rounds": 2,
        }
        | fields
    )


def build_limited_plan(seconds: float, **fields: Any) -> SweepPlan:
    """Builds the same plan of runs that end after so many steady seconds."""
    return build_plan(tables=to_tables(build_recipe(measurement={"seconds": seconds})), **fields)


def build_brief(
    speed: float | None = 100.0,
    *,
    setup: Setup = TWO_SETUPS[0],
    batch: int = 32,
    round_number: int | None = None,
    parameters: int = 1000,
    settings: dict[str, Any] | None = None,
    **fields: Any,
) -> RunBrief:
    """Builds the brief of a run of some speed, in samples per second.

    With a round it is of a sweep.
    """
    tags = {}
    if round_number is not None:
        tags = {
            "tfbench.sweep": "abc",
            "tfbench.setup": setup.label,
            "tfbench.round": str(round_number),
        }
    return RunBrief(
        **{
            "format_version": FORMAT_VERSION,
            "journal_bytes": 1,
            "run_id": f"{setup.strategy}{len(setup.devices)}-{parameters}-{batch}-{round_number}",
            "name": "test",
            "recipe": "test",
            "title": "Test",
            "created": 1_700_000_000.0,
            "status": "FINISHED",
            "reason": "",
            "tags": tags,
            "overrides": [],
            "strategy": setup.strategy,
            "devices": list(setup.devices),
            "hardware": ["Example CPU 3000"] * len(setup.devices),
            "is_synthetic": False,
            "metrics": {
                "samples_per_second": speed,
                "num_parameters": parameters,
                "num_trainable_parameters": parameters,
                "global_batch_size": batch,
                "num_replicas": len(setup.devices),
                "per_replica_batch_size": batch // len(setup.devices),
                "step_time_median_seconds": batch / speed if speed else None,
                "steady_steps": 100.0 if speed else 0.0,
                "steady_seconds": 100 * batch / speed if speed else 0.0,
            },
            "warnings": [],
            "notes": [],
            "references": [],
        }
        | fields,
        settings={
            "training.global_batch_size": batch,
            "model.hidden_units": [parameters],
            "compiler": "graph",
            "hostname": "bench",
            "device_kinds": ["cpu"],
        }
        | (settings or {}),
    )


def build_briefs(
    speeds: Mapping[int, Sequence[Sequence[float]]],
    setups: Sequence[Setup] = TWO_SETUPS,
    **fields: Any,
) -> list[RunBrief]:
    """Builds the runs of a sweep: of each batch size the speeds of each setup, round by round."""
    briefs = []
    for batch, speeds_of_setups in speeds.items():
        for setup, own in zip(setups, speeds_of_setups, strict=False):
            for number, speed in enumerate(own, start=1):
                place = {"setup": setup, "batch": batch, "round_number": number}
                briefs.append(build_brief(speed, **place, **fields))
    return briefs


def on_machine(brief: RunBrief, hostname: str, **environment: Any) -> RunBrief:
    """Returns a run as it would be of that machine, of 60,000 samples an epoch."""
    described = build_environment(hostname=hostname, **environment)
    own = {
        name: getattr(described, name)
        for name in ("hostname", "cpu_model", "usable_cores", "keras", "tensorflow")
    }
    return dataclasses.replace(
        brief,
        run_id=f"{brief.run_id}-{hostname}-{brief.tags.get('tfbench.setup', brief.setup)}",
        settings=brief.settings | own | {"dataset.train_samples": 60_000},
        cost=brief.cost or {"currency": "USD"},
    )


def write_sweep(
    store: Store, plan: SweepPlan, speed: Callable[[PlannedRun], float | str | None], **fields: Any
) -> None:
    """Writes a sweep and its runs, as they stand in a store.

    Instead of a speed, the reason why a run was killed; None: it was not made.
    """
    with new_log(store, plan) as log:
        for planned in list_planned_runs(plan):
            found = speed(planned)
            if found is None:
                continue
            if isinstance(found, str):
                ended = RunExit(status="KILLED", reason=found)
                result = build_planned_result(plan, planned, 1.0, **{**fields, "exit": ended})
            else:
                result = build_planned_result(plan, planned, found, **fields)
            log.start(StartedRun(number=planned.number, run_id=result.request.run_id))
            write_journal(store, result)


def write_in_sessions(store: Store, plan: SweepPlan) -> None:
    """Writes a sweep whose second setup is twice as fast, and was run a day later."""
    with new_log(store, plan) as log:
        for planned in list_planned_runs(plan):
            result = build_planned_result(plan, planned, 100.0 * (1 + planned.setup))
            request = result.request
            tags = request.tags | {"tfbench.session": str(planned.setup)}
            created = request.created + 86_400.0 * planned.setup
            request = dataclasses.replace(request, tags=tags, created=created)
            log.start(StartedRun(number=planned.number, run_id=request.run_id))
            write_journal(store, dataclasses.replace(result, request=request))


def build_planned_result(
    plan: SweepPlan, planned: PlannedRun, speed: float, **fields: Any
) -> RunResult:
    """Builds the result of one run of a sweep over an MLP.

    50 steady spans of 20 steps, then two epochs' records.
    """
    setup = plan.setups[planned.setup]
    recipe = resolve_recipe(plan, list_configurations(plan)[planned.configuration], setup)
    widths = recipe.model.options.get("hidden_units", (100,))
    batch = recipe.training.global_batch_size
    parameters = sum((a + 1) * b for a, b in zip((784, *widths), (*widths, 10), strict=True))
    repeats = {"tfbench.repeats": plan.repeats} if plan.first_rounds else {}
    request = build_request(
        run_id=f"{planned.number:032x}",
        name=f"mlp-b{batch}-r{planned.round_number}",
        created=1_700_000_000.0 + 20 * planned.number,
        recipe=recipe,
        tags=tags_of(plan, planned) | repeats,
    )
    seconds = 20 * batch / speed
    spans = [build_span(first_step=1, last_step=1, seconds=1.0)]
    spans += [
        build_span(epoch=1 + n // 25, first_step=20 * n + 2, last_step=20 * n + 21, seconds=seconds)
        for n in range(50)
    ]
    epochs = tuple(
        build_epoch(
            epoch=epoch,
            epoch_seconds=25 * seconds,
            elapsed_seconds=1.0 + epoch * (25 * seconds + 0.5),
            samples_per_second=speed,
            val_accuracy=1 - 0.2 / epoch / len(widths),
            finished_at=request.created + 5.0 + epoch * (25 * seconds + 0.5),
        )
        for epoch in (1, 2)
    )
    entries = {
        "startup": 3.0 + 0.5 * planned.setup,
        "first_step": 1.0,
        "steady": 50 * seconds,
        "validation": 1.0,
    }
    values: dict[str, Any] = {
        "request": request,
        "placement": place_request(request),
        "dataset": build_dataset(),
        "model": ModelSummary(num_parameters=parameters, num_trainable_parameters=parameters),
        "spans": tuple(spans),
        "epochs": epochs,
        "steps_per_epoch": 501,
        "started_at": request.created + 5.0,
        "ended_at": epochs[-1].finished_at + 0.1,
        "breakdown": BreakdownRecord(entries=entries, elapsed_seconds=sum(entries.values()) + 0.01),
        "exit": RunExit(status="FINISHED", worker_seconds=sum(entries.values()) + 0.02),
    }
    return build_result(**values | fields)
