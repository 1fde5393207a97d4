"""Holds the crossover that `tfbench crossover` finds against one that is planted.

    python benchmarks/truth/crossover.py

A small network naps a + b * batch seconds in every step under the strategy default, and c + d *
batch under one_device, which otherwise costs the same: both are one replica on one device. The naps
log themselves, and a straight line through those of either setup says where they are equally long.
The crossover found must be within 5 % of that, in fewer than a quarter of the runs that an
exhaustive search as fine as 5 % would take.
"""

import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import click
from naps import RECIPE, with_planted
from planted import read_naps

LOW = 4
HIGH = 1024
SETUPS = ("default", "one_device")
COSTS = (
    (0.04, 0.0004),
    (0.16, 0.0001),
)  # of a step and of a sample, in seconds: equal at a batch of 400
LARGEST_ERROR = 0.05


def search(folder: Path, repeats: int, seconds: float) -> dict:
    """Returns the JSON document of a search."""
    recipe = folder / "planted.toml"
    recipe.write_text(RECIPE)
    (nap, per_sample), (other_nap, other_per_sample) = COSTS
    settings = {
        "model.log": folder / "naps",
        "model.nap_seconds": nap,
        "model.nap_per_sample": per_sample,
        "model.one_device_nap_seconds": other_nap,
        "model.one_device_nap_per_sample": other_per_sample,
        "measurement.checks": "false",
    }
    command = [
        sys.executable,
        "-m",
        "tfbench",
        "crossover",
        str(recipe),
        "--allow-code",
        "--format",
        "json",
    ]
    command += ["--vary", f"training.global_batch_size={LOW}..{HIGH}", "--repeats", str(repeats)]
    command += ["--between", *(f"{setup} cpu:0" for setup in SETUPS), "--seconds", str(seconds)]
    command += ["--store", str(folder / "mlruns")]
    command += [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
    done = subprocess.run(command, env=with_planted(), stdout=subprocess.PIPE, check=False)
    if done.returncode:
        raise SystemExit(done.returncode)
    return json.loads(done.stdout)


def find_truth(folder: Path, sizes: list[int]) -> float:
    """Returns the batch size at which both setups nap equally long, by their logs."""
    lines = []
    for setup in SETUPS:
        naps = [
            statistics.fmean(
                end - start for start, end in read_naps(f"{folder}/naps-{setup}-{size}")
            )
            for size in sizes
        ]
        lines.append(statistics.linear_regression(sizes, naps))
    (b, a), (d, c) = lines
    return (c - a) / (b - d)


def count_exhaustive() -> int:
    """Returns how many sizes an exhaustive search measures.

    Its sizes are 5 % apart, and at least 1.
    """
    size = LOW
    count = 1
    while size < HIGH:
        size = max(size + 1, int(size * (1 + LARGEST_ERROR)))
        count = count + 1
    return count


@click.command()
@click.option("--repeats", default=3, show_default=True, help="Rounds at each batch size.")
@click.option(
    "--seconds", default=2.0, show_default=True, help="Length of a run after its warm-up."
)
def main(repeats: int, seconds: float) -> None:
    """Prints a Markdown table.

    Ends with 1 if the crossover found is wrong, or took too many runs.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        document = search(folder, repeats, seconds)
        sizes = [point["value"] for point in document["points"]]
        truth = find_truth(folder, sizes)
    (nap, per_sample), (other_nap, other_per_sample) = COSTS
    planted = (other_nap - nap) / (per_sample - other_per_sample)
    exhaustive = count_exhaustive()
    click.echo("| planted | by the logs | found | measurable from | error | sizes | of |")
    click.echo("| --- | --- | --- | --- | --- | --- | --- |")
    found = document["crossings"]
    error = found[0]["value"] / truth - 1 if len(found) == 1 else float("nan")
    bounds = (
        ", ".join(f"{one['value']:.1f} | {one['low']} to {one['high']}" for one in found)
        or "none | "
    )
    click.echo(
        f"| {planted:.1f} | {truth:.1f} | {bounds} | {error:+.2%} | {len(sizes)} | {exhaustive} |"
    )
    sys.exit(not (abs(error) <= LARGEST_ERROR and len(sizes) < exhaustive / 4))


if __name__ == "__main__":
    main()
