"""Runs whose counters of energy grew by known watts: GPUs of 200 W and of 50 W."""

from typing import Any

from builders import (
    build_epoch,
    build_placement,
    build_recipe,
    build_request,
    build_result,
    build_span,
)
from tfbench.machine.energy_readings import (
    EnergyReading,
    EnergySource,
    EnergySources,
    Moment,
)
from tfbench.runs.record import RunResult

GPU = "0000:3b:00.0"
SECOND = "0000:86:00.0"
WATTS = {GPU: 200.0, SECOND: 50.0, "package-0": 10.0}
CARD = EnergySource(name=GPU, resolution_seconds=0.1)
SECOND_CARD = EnergySource(name=SECOND, resolution_seconds=0.1)
# Of an older record, with a counter that comes to its end soon.
PACKAGE = EnergySource(
    name="package-0", part="package", resolution_seconds=0.001, range_joules=8000.0
)
ON_GPU = build_placement(devices=("gpu:0",))
WARMUP = 10.0  # seconds of the first epoch, before its steady part
# of an epoch, and after it
TRAINING = 20.0
VALIDATION = 5.0
PAUSE = 1.0
STEPS = 40  # of an epoch's training after the warm-up


def show_counters(seconds: float, sources: tuple[EnergySource, ...]) -> dict[str, float]:
    """What counters show, from 7,890 J on."""
    return {source.name: 7890.0 + WATTS[source.name] * (seconds - 100.0) for source in sources}


def build_powered_run(*sources: EnergySource, num_epochs: int = 3, **fields: Any) -> RunResult:
    """Builds a run of epochs whose first has a warm-up of 10 s.

    Each trains 20 s and is validated for 5 s.
    """
    problems = fields.pop("problems", ())
    readings = list[EnergyReading]()
    epochs = []
    spans = [build_span(first_step=1, last_step=1, seconds=WARMUP)]
    now = 100.0
    step = 1

    def read(moment: Moment) -> None:
        readings.append(
            EnergyReading(moment=moment, seconds=now, joules=show_counters(now, sources))
        )

    for epoch in range(1, num_epochs + 1):
        if epoch == 1:
            now += WARMUP
            read("steady")
        now += TRAINING + VALIDATION + PAUSE
        spans.append(
            build_span(epoch=epoch, first_step=step + 1, last_step=step + STEPS, seconds=TRAINING)
        )
        epochs.append(
            build_epoch(
                epoch=epoch, num_steps=STEPS, epoch_seconds=TRAINING, validation_seconds=VALIDATION,
                elapsed_seconds=now - 100.0 - PAUSE, val_accuracy=0.9 + 0.02 * epoch,
            )
        )  # fmt: skip
        step += STEPS
    now -= PAUSE
    read("end")
    recipe = build_recipe(
        dataset={"data": "real"}, training={"epochs": num_epochs}, **fields.pop("sections", {})
    )
    values: dict[str, Any] = {
        "request": build_request(recipe=recipe),
        "steps_per_epoch": STEPS,
        "spans": tuple(spans),
        "epochs": tuple(epochs),
        "energy": EnergySources(sources=sources, problems=problems),
        "energy_readings": tuple(readings),
    }
    return build_result(**values | fields)
