"""What several benchmarks do: start processes, take turns, and print tables with a footer."""

import datetime
import json
import os
import platform
import random
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

Reading = TypeVar("Reading")
_NUM_RESAMPLES = 10_000


def run_tfbench(*arguments: object, **environment: str) -> Any:
    """Returns the JSON document of a command, which must succeed."""
    command = [sys.executable, "-m", "tfbench", *map(str, arguments), "--format", "json"]
    return json.loads(run_program(command, **environment))


def run_program(command: Sequence[str], **environment: str) -> str:
    """Returns what a program prints, which must succeed."""
    done = subprocess.run(
        command, env=os.environ | environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise click.ClickException(
            f"{' '.join(command)}: exit code {done.returncode}.\n{done.stdout}{done.stderr}"
        )
    return done.stdout


def take_pairs(
    first: Callable[[], Reading], second: Callable[[], Reading], num_pairs: int
) -> Iterator[tuple[Reading, Reading]]:
    """Measures two sides in turns, and yields each pair; which of them begins takes turns, too."""
    for number in range(num_pairs):
        if number % 2:
            found = first()
            yield found, second()
        else:
            other = second()
            yield first(), other


def bootstrap_median(values: Sequence[float]) -> tuple[float, float]:
    """Returns a 95 % interval of the median: the percentile bootstrap over pairs."""
    generator = random.Random(0)
    medians = []
    for _ in range(_NUM_RESAMPLES):
        medians.append(statistics.median(generator.choices(values, k=len(values))))
    medians.sort()
    return medians[250], medians[9749]


def spread_of(values: Sequence[float], form: str = ".4f") -> str:
    """Returns the lowest and the highest of some values, as a cell."""
    return f"{min(values):{form}} to {max(values):{form}}"


def quartiles_of(values: Sequence[float], form: str = ".4f") -> str:
    """Returns the outer quartiles of some values, as a cell."""
    low, _, high = statistics.quantiles(values, n=4)
    return f"{low:{form}} to {high:{form}}"


def print_head(*cells: str) -> None:
    """Prints the head of a Markdown table."""
    print_row(*cells)
    print_row(*["---"] * len(cells))


def print_row(*cells: object) -> None:
    """Prints a row of a Markdown table."""
    click.echo(f"| {' | '.join(map(str, cells))} |")


def describe_machine() -> str:
    """Returns date, processor, core count, Python version and one-minute load."""
    today = datetime.datetime.now(datetime.UTC)
    return (
        f"{today:%Y-%m-%d}, {_name_processor()}, {os.cpu_count()} cores, Python"
        f" {platform.python_version()}, load {os.getloadavg()[0]:.2f}"
    )


def _name_processor() -> str:
    """Returns its name as Linux has it, elsewhere what Python knows of it."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        text = ""
    for line in text.splitlines():
        if line.startswith("model name"):
            return line.partition(": ")[2]
    return platform.processor() or platform.machine()
