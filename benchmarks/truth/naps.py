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
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from planted import read_naps

HERE = Path(__file__).parent
NAP_SECONDS = 0.2
INPUT_NAP_SECONDS = 0.1
# after the warm-up, with naps and with naps of no length
STEPS = 60
OWN_STEPS = 600
LARGEST_ERROR = 0.01
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


def with_planted() -> dict[str, str]:
    """Returns the environment of a process that finds the planted network."""
    return os.environ | {
        "PYTHONPATH": os.pathsep.join(filter(None, [str(HERE), os.environ.get("PYTHONPATH")]))
    }


def measure(folder: Path, num_steps: int, *arguments: str) -> dict:
    """Returns the JSON document of one run."""
    recipe = folder / "planted.toml"
    recipe.write_text(RECIPE)
    command = [
        sys.executable,
        "-m",
        "tfbench",
        "run",
        str(recipe),
        "--allow-code",
        "--steps",
        str(num_steps),
    ]
    command += ["--store", str(folder / "mlruns"), "--format", "json", *arguments]
    done = subprocess.run(command, env=with_planted(), capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout)


def measure_naps(
    folder: Path, seconds: float, num_steps: int, steps_per_execution: int, num_replicas: int
) -> tuple[float, float, float]:
    """Returns the reported step time, the naps of a step, and the nap interval.

    All are in seconds; the last two come from the log of the naps, whose starts give the interval.
    """
    log = folder / f"naps-{seconds}-{steps_per_execution}-{num_replicas}"
    devices = [] if num_replicas == 1 else ["--strategy", "mirrored", "--devices", "cpu:0,cpu:1"]
    # With naps every step is a span, since it takes longer than the shortest one; without, the
    # clock makes it one.
    settings = (f"model.log={log}", f"model.nap_seconds={seconds}", "measurement.clock=step")
    settings += (f"training.steps_per_execution={steps_per_execution}",)
    arguments = [*devices, *(part for setting in settings for part in ("--set", setting))]
    summary = measure(folder, num_steps, *arguments)["summary"]
    reported = summary["steady_seconds"] / summary["steady_steps"]
    num_steady = summary["steady_steps"]
    # The last step ended the run, so that the steady steps are the last ones of the log.
    naps = read_naps(str(log))[-num_steady * num_replicas :]
    starts = [start for start, _ in naps[::num_replicas]]
    between = (starts[-1] - starts[0]) / (num_steady - 1)
    return reported, sum(end - start for start, end in naps) / num_steady, between


def check_step_naps(folder: Path, steps_per_execution: int, num_replicas: int) -> tuple[str, bool]:
    """Returns a row of the table, and whether the report is right."""
    case = (steps_per_execution, num_replicas)
    without, no_naps, _ = measure_naps(folder, 0.0, OWN_STEPS, *case)
    reported, napped, between = measure_naps(folder, NAP_SECONDS, STEPS, *case)
    rest = reported - napped
    own_work = without - no_naps
    error = (rest - own_work) / napped
    span_error = reported / between - 1
    row = (
        f"| step | {steps_per_execution} | {num_replicas} | {reported * 1e3:.3f} |"
        f" {napped * 1e3:.3f} "
    )
    row += (
        f"| {rest * 1e3:.3f} | {own_work * 1e3:.3f} | {error:+.2%} | {between * 1e3:.3f} |"
        f" {span_error:+.2%} |"
    )
    return row, max(abs(error), abs(span_error)) <= LARGEST_ERROR


def check_input_naps(folder: Path) -> tuple[str, bool]:
    """Returns a row of the table, and whether the report is right."""
    log = folder / "input-naps"
    settings = (f"model.input_log={log}", f"model.input_nap_seconds={INPUT_NAP_SECONDS}")
    document = measure(
        folder, STEPS, *(part for setting in settings for part in ("--set", setting))
    )
    summary = document["summary"]
    reported = summary["steady_seconds"] / summary["steady_steps"]
    # Batches are made ahead of the steps: those of the steady steps follow those of the warm-up.
    warmup = document["recipe"]["resolved"]["measurement"]["warmup_steps"]
    ends = [end for _, end in read_naps(str(log))][warmup : warmup + summary["steady_steps"] + 1]
    between = sum(after - before for before, after in itertools.pairwise(ends)) / (len(ends) - 1)
    error = (reported - between) / between
    is_named = any("input-bound" in warning for warning in document["warnings"])
    row = (
        f"| pipeline | 1 | 1 | {reported * 1e3:.3f} | | | | | {between * 1e3:.3f} | {error:+.2%} | "
    )
    row += (
        f"input_headroom {summary['input_headroom']:.3f}, {'called' if is_named else 'NOT called'}"
        " input-bound |"
    )
    return row, abs(error) <= LARGEST_ERROR and is_named


def main() -> None:
    """Prints a Markdown table; ends with 1 if a report is wrong."""
    print(
        "| nap in the | steps per execution | replicas | reported, ms | naps, ms | rest, ms | own"
        " work, ms | difference, of the nap | nap to nap, ms | difference |"
    )
    print("| --- " * 10 + "|")
    good = True
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for steps_per_execution, num_replicas in itertools.product((1, 3), (1, 2)):
            row, is_right = check_step_naps(folder, steps_per_execution, num_replicas)
            print(row, flush=True)
            good &= is_right
        row, is_right = check_input_naps(folder)
        print(row, flush=True)
        good &= is_right
    sys.exit(not good)


if __name__ == "__main__":
    main()
