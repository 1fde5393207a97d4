"""Runs whose counters of energy grew by known watts.

A GPU of 200 W, a processor of 10 W, its memory of 2 W.
"""

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
    MachineState,
    Moment,
)
from tfbench.runs.record import RunResult

GPU = "0000:3b:00.0"
WATTS = {"package-0": 10.0, "package-0 dram": 2.0, GPU: 200.0}
PACKAGE = EnergySource(
    name="package-0", part="package", resolution_seconds=0.001, range_joules=8000.0
)
DRAM = EnergySource(
    name="package-0 dram", part="dram", resolution_seconds=0.001, range_joules=8000.0
)
CARD = EnergySource(name=GPU, part="gpu", resolution_seconds=0.1)
ON_GPU = build_placement(devices=("gpu:0",))
WARMUP = 10.0  # seconds of the first epoch, before its steady part
# of an epoch, and after it
TRAINING = 20.0
VALIDATION = 5.0
PAUSE = 1.0
STEPS = 40  # of an epoch's training after the warm-up


def show_counters(seconds: float, sources: tuple[EnergySource, ...]) -> dict[str, float]:
    """What counters show, from 7,890 J on: one with a range comes to its end soon."""
    joules = {source.name: 7890.0 + WATTS[source.name] * (seconds - 100.0) for source in sources}
    return {
        one.name: joules[one.name] % one.range_joules if one.range_joules else joules[one.name]
        for one in sources
    }


def build_powered_run(
    *sources: EnergySource, num_epochs: int = 3, looks: bool = True, **fields: Any
) -> RunResult:
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
    states = [
        MachineState(seconds=second, gpus={}, joules=show_counters(second, sources))
        for second in range(100, int(now), 5)
    ]
    values: dict[str, Any] = {
        "request": build_request(recipe=recipe),
        "steps_per_epoch": STEPS,
        "spans": tuple(spans),
        "epochs": tuple(epochs),
        "energy": EnergySources(sources=sources, problems=problems),
        "energy_readings": tuple(readings),
        "machine_states": tuple(states) if looks else (),
    }
    return build_result(**values | fields)
