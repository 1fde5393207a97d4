"""Holds the reported speed against one measured from outside.

Wall times of a command at two lengths, differenced.

    python benchmarks/outside.py
    python benchmarks/outside.py --recipe mnist_cnn --long 400

What is the same at both lengths (start-up, compilation, warm-up, checks, storing) cancels out; what
is left is the time of so many more steps, on a clock that knows nothing of tfbench. Several rounds,
since a start takes now more, now less.
"""

import datetime
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import click

LARGEST_ERROR = 0.02


def run(recipe: str, steps: int, store: Path) -> tuple[float, dict]:
    """Returns the seconds that a whole command took, and the summary that it printed."""
    command = [
        sys.executable,
        "-m",
        "tfbench",
        "run",
        recipe,
        "--data",
        "synthetic",
        "--devices",
        "cpu:0",
    ]
    command += ["--steps", str(steps), "--store", str(store), "--format", "json"]
    start = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - start
    if done.returncode:
        raise SystemExit(done.stderr)
    return seconds, json.loads(done.stdout)["summary"]


@click.command()
@click.option("--recipe", default="mnist_mlp", show_default=True)
@click.option("--short", default=100, show_default=True, help="Steps of the short run.")
@click.option("--long", "long_", default=5000, show_default=True, help="Steps of the long run.")
@click.option("--rounds", default=4, show_default=True)
def main(recipe: str, short: int, long_: int, rounds: int) -> None:
    """Prints a Markdown table; ends with 1 if the two speeds differ by more than 2 %."""
    outside_seconds = steady_steps = steady_seconds = 0.0
    batch = 0.0
    click.echo(
        "| round | short, s | long, s | outside, samples/s | reported, samples/s | difference |"
    )
    click.echo("| --- | --- | --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as name:
        for number in range(1, rounds + 1):
            short_seconds, _ = run(recipe, short, Path(name))
            long_seconds, summary = run(recipe, long_, Path(name))
            batch = summary["global_batch_size"]
            outside_seconds += long_seconds - short_seconds
            steady_steps += summary["steady_steps"]
            steady_seconds += summary["steady_seconds"]
            outside = (long_ - short) * batch / (long_seconds - short_seconds)
            reported = summary["samples_per_second"]
            row = (
                f"| {number} | {short_seconds:.2f} | {long_seconds:.2f} | {outside:.1f} |"
                f" {reported:.1f} "
            )
            click.echo(f"{row}| {reported / outside - 1:+.2%} |")
    outside = rounds * (long_ - short) * batch / outside_seconds
    reported = steady_steps * batch / steady_seconds
    error = reported / outside - 1
    click.echo(f"| all | | | {outside:.1f} | {reported:.1f} | **{error:+.2%}** |")
    click.echo(
        f"\n{recipe}, {datetime.date.today()}, {os.cpu_count()} cores, load at the end"
        f" {os.getloadavg()[0]:.2f}"
    )
    sys.exit(abs(error) > LARGEST_ERROR)


if __name__ == "__main__":
    main()
