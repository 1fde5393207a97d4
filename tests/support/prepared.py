"""What a measurement begins with, made up."""

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from builders import build_recipe, build_request
from tfbench.measure.breakdown import Breakdown
from tfbench.measure.prepared import Prepared
from tfbench.measure.recorder import FitReadings
from tfbench.measure.span_clock import SpanClock
from tfbench.recipe.sections import MeasurementConfig
from tfbench.runs.batch_sizes import BatchSizes
from tfbench.runs.record import RunResult, StepSpan
from tfbench.store.journal import Journal, Replay, request_fields
from tfbench.store.json_lines import Follower


def build_readings(
    model: Any,
    on_span: Callable[[StepSpan], None],
    *,
    measurement: Mapping[str, Any],
    synchronize: Callable[[], None] = lambda: None,
    now: Callable[[], int] = time.perf_counter_ns,
    **fields: Any,
) -> FitReadings:
    """Builds what a training of batches of four tells of itself, under a clock.

    It ends with its last epoch alone.
    """
    clock = SpanClock(
        MeasurementConfig(**measurement),
        synchronize=synchronize,
        on_span=on_span,
        breakdown=Breakdown(0, now=now),
        now=now,
    )
    defaults: dict[str, Any] = {
        "batch_sizes": BatchSizes(size=4),
        "on_epoch": lambda record: False,
        "on_first_step": lambda: None,
    }
    return FitReadings(**defaults | {"clock": clock, "model": model} | fields)


def read_result(prepared: Prepared) -> RunResult:
    """Returns what the journal tells so far of a run."""
    prepared.journal.close()
    replay = Replay()
    replay.apply({"kind": "request", "time": 0.0, **request_fields(prepared.request)})
    for record in Follower(prepared.journal.path).read():
        replay.apply(record)
    return replay.result()


def build_prepared(folder: Path, recipe: Any = None, **fields: Any) -> Prepared:
    """Builds it, with a journal `run.jsonl` in a folder; what a test does not give is not there."""
    folder.mkdir(exist_ok=True)
    nothing: dict[str, Any] = dict.fromkeys(("model", "resolved", "summary"))
    nothing["splits"] = SimpleNamespace(pipeline=None)
    defaults: dict[str, Any] = {
        "request": build_request(recipe=recipe or build_recipe()),
        "journal": Journal(folder / "run.jsonl"),
        "breakdown": Breakdown(0),
        "shares_machine": False,
        "memory_before_model": 0,
        "gpu_addresses": (),
    }
    return Prepared(**nothing | defaults | fields)
