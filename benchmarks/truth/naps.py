"""Holds reported step times against planted naps that log themselves.

    python benchmarks/truth/naps.py

A small network naps 0.2 s in every step and replica (naps of replicas run one after another, so
that a step takes their sum), for one and three steps an execution, one and two replicas. Its
reported step time, less the logged naps, is held against the step's own work: what a step of the
same network takes, reported alike, when its naps have no length, less those. Both must agree within
1 % of the nap. And the reported step time must be that from nap to nap within 1 %. Then a pipeline
naps for every batch: the reported rate must be that at which batches came out of it, within 1 %,
and the run must be called input-bound.
"""

import itertools
import os
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).parent
sys.path.append(str(HERE.parent))

from harness import print_head, print_row, run_tfbench  # noqa: E402
from planted import read_naps  # noqa: E402

NAP_SECONDS = 0.2
INPUT_NAP_SECONDS = 0.1
# after the warm-up, with naps and with naps of no length
STEPS = 60
OWN_STEPS = 600
LARGEST_ERROR = 0.01
HEAD = (
    "nap in the",
    "steps per execution",
    "replicas",
    "reported, ms",
    "naps, ms",
    "rest, ms",
    "own work, ms",
    "difference, of the nap",
    "nap to nap, ms",
    "difference",
)


RECIPE = """
[recipe]
title = "Planted naps"
source = "benchmarks/truth"
[model]
name = "planted:build_model"
[dataset]
name = "mnist"
data = "synthetic"
[training]
global_batch_size = 32
epochs = 1
optimizer = { name = "sgd" }
# After a nap the other threads sleep; waking them would take longer than the step's own work.
intra_op_threads = 1
inter_op_threads = 1
"""


def call(folder: Path, command: str, *arguments: object, **settings: object) -> Any:
    """Runs the network by a command of tfbench, and returns its JSON document."""
    recipe = folder / "planted.toml"
    recipe.write_text(RECIPE)
    words = [command, recipe, "--allow-code", "--store", folder / "mlruns", *arguments]
    for key, value in settings.items():
        words += ["--set", f"{key}={value}"]
    paths = [str(HERE), os.environ.get("PYTHONPATH", "")]
    return run_tfbench(*words, PYTHONPATH=os.pathsep.join(filter(None, paths)))


class Reading(NamedTuple):
    """What a step takes by the report, and by the log of the naps; in seconds."""

    reported: float
    napped: float
    between: float  # from the start of a step's first nap to the next step's

    @property
    def rest(self) -> float:
        """What is no nap."""
        return self.reported - self.napped

    @property
    def span_error(self) -> float:
        """By which share the report is off."""
        return self.reported / self.between - 1


def ms(seconds: float) -> str:
    """Returns milliseconds as a cell."""
    return f"{seconds * 1e3:.3f}"


def measure_naps(folder: Path, seconds: float, per_execution: int, num_replicas: int) -> Reading:
    """Runs the network with naps of a length."""
    log = folder / f"naps-{seconds}-{per_execution}-{num_replicas}"
    devices = [] if num_replicas == 1 else ["--strategy", "mirrored", "--devices", "cpu:0,cpu:1"]
    # With naps every step is a span, since it takes longer than the shortest one; without, the
    # clock makes it one.
    document = call(
        folder,
        "run",
        *devices,
        *("--steps", STEPS if seconds else OWN_STEPS),
        **{
            "model.log": log,
            "model.nap_seconds": seconds,
            "measurement.clock": "step",
            "training.steps_per_execution": per_execution,
        },
    )
    summary = document["summary"]
    num_steady = summary["steady_steps"]
    # The last step ended the run, so that the steady steps are the last ones of the log.
    naps = read_naps(log)[-num_steady * num_replicas :]
    starts = [start for start, _ in naps[::num_replicas]]
    return Reading(
        reported=summary["steady_seconds"] / num_steady,
        napped=sum(end - start for start, end in naps) / num_steady,
        between=(starts[-1] - starts[0]) / (num_steady - 1),
    )


def check_step_naps(folder: Path, per_execution: int, num_replicas: int) -> bool:
    """Prints a row of the table; says whether the report is right."""
    own = measure_naps(folder, 0.0, per_execution, num_replicas)
    found = measure_naps(folder, NAP_SECONDS, per_execution, num_replicas)
    error = (found.rest - own.rest) / found.napped
    times = (found.reported, found.napped, found.rest, own.rest)
    cells = [*map(ms, times), f"{error:+.2%}", ms(found.between), f"{found.span_error:+.2%}"]
    print_row("step", per_execution, num_replicas, *cells)
    return max(abs(error), abs(found.span_error)) <= LARGEST_ERROR


def check_input_naps(folder: Path) -> bool:
    """Prints a row of the table; says whether the report is right."""
    log = folder / "input-naps"
    settings = {"model.input_log": log, "model.input_nap_seconds": INPUT_NAP_SECONDS}
    document = call(folder, "run", "--steps", STEPS, **settings)
    summary = document["summary"]
    num_steady = summary["steady_steps"]
    # Batches are made ahead of the steps: those of the steady steps follow those of the warm-up.
    warmup = document["recipe"]["resolved"]["measurement"]["warmup_steps"]
    naps = read_naps(log)[warmup : warmup + num_steady + 1]
    seconds = (naps[-1][1] - naps[0][1]) / (len(naps) - 1)
    found = Reading(summary["steady_seconds"] / num_steady, seconds, seconds)
    is_named = any("input-bound" in warning for warning in document["warnings"])
    told = "called input-bound" if is_named else "NOT called input-bound"
    cells = [ms(found.between), f"{found.span_error:+.2%}, {told}"]
    print_row("pipeline", 1, 1, ms(found.reported), "", "", "", "", *cells)
    return abs(found.span_error) <= LARGEST_ERROR and is_named


def main() -> None:
    """Prints a Markdown table; ends with 1 if a report is wrong."""
    print_head(*HEAD)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        found = [check_step_naps(folder, *case) for case in itertools.product((1, 3), (1, 2))]
        found.append(check_input_naps(folder))
    sys.exit(not all(found))


if __name__ == "__main__":
    main()
