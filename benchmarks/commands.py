"""How long a user waits for a command: one installation's time over another's.

    python benchmarks/commands.py --before ../older/.venv/bin/tfbench --after .venv/bin/tfbench
    python benchmarks/commands.py --before OLD --after NEW --command show --pairs 20
    python benchmarks/commands.py --before OLD --after NEW --command run --command sweep

The installations take turns in processes of their own, every second pair in the other order, each
in a folder with a store that it made itself: a sweep of eight short runs. A command is timed from
its start to its end; `ui` until the line with its address, after which it is ended. `run` (half a
second on one CPU, tracked) and `sweep` (`sweep --quick`) measure, and are timed where they are
named.
"""

import functools
import shutil
import signal
import statistics
import subprocess
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import click
from harness import describe_machine, print_head, print_row, quartiles_of, spread_of, take_pairs

SWEEP = [
    *("sweep", "mnist_mlp", "--data", "synthetic"),
    *("--setup", "default cpu:0", "--setup", "mirrored cpu:0,cpu:1"),
    *("--vary", "training.global_batch_size=32,512", "--set", "model.hidden_units=[100]"),
    *("--repeats", "2", "--seconds", "0.5", "--set", "measurement.checks=false"),
]
OTHER = ("--store", "other")
COMMANDS = {
    "show": ("show", "mnist_mlp"),
    "devices": ("devices",),
    "compare": ("compare", "--sweep", "@last"),
    "report": ("report", "--sweep", "@last"),
    "import": ("import", "run.jsonl", *OTHER),
    "ui": ("ui",),
}
MEASURING = {
    "run": ("run", "mnist_hidden100_mlp", "--data", "synthetic", "--seconds", "0.5", *OTHER),
    "sweep": ("sweep", "--quick", *OTHER),
}


class Installation(NamedTuple):
    """A program, and a folder with a store of its own."""

    program: Path
    folder: Path

    def run(self, *arguments: str) -> None:
        """Runs a command to its end."""
        command = [self.program, *arguments]
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, check=False)
        if done.returncode:
            told = f"{self.program} {' '.join(arguments)}: exit {done.returncode}."
            raise click.ClickException(f"{told}\n{done.stderr}")

    def prepare(self) -> None:
        """Makes the folder and what commands read there."""
        self.folder.mkdir()
        self.run(*SWEEP)
        self.run("export", "@last", "-o", "run.jsonl")

    def time(self, name: str) -> float:
        """Returns the seconds that a command takes."""
        shutil.rmtree(self.folder / "other", ignore_errors=True)
        start = time.perf_counter()
        if name == "ui":
            return self._serve(start)
        self.run(*(COMMANDS | MEASURING)[name])
        return time.perf_counter() - start

    def _serve(self, start: float) -> float:
        with subprocess.Popen(
            [self.program, "ui"],
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as process:
            text = ""
            for line in process.stdout or ():
                text += line
                if "http://" in line:
                    break
            seconds = time.perf_counter() - start
            process.send_signal(signal.SIGINT)
            process.communicate()
        if "http://" not in text:
            raise click.ClickException(f"{self.program} ui: no address.\n{text}")
        return seconds


@click.command()
@click.option(
    "--before",
    required=True,
    type=click.Path(exists=True, path_type=Path),
    help="A program tfbench.",
)
@click.option(
    "--after", required=True, type=click.Path(exists=True, path_type=Path), help="Another."
)
@click.option(
    "--command",
    "names",
    multiple=True,
    type=click.Choice([*COMMANDS, *MEASURING]),
    help="[default: all that measure nothing]",
)
@click.option("--pairs", "num_pairs", default=7, show_default=True, type=click.IntRange(2))
def main(before: Path, after: Path, names: tuple[str, ...], num_pairs: int) -> None:
    """Prints a Markdown table of ratios."""
    print_head("command", "pairs", "before", "after", "median ratio", "quartiles", "range")
    with tempfile.TemporaryDirectory() as folder:
        old = Installation(before.absolute(), Path(folder, "before"))
        new = Installation(after.absolute(), Path(folder, "after"))
        for installation in (old, new):
            installation.prepare()
        for name in names or COMMANDS:
            for installation in (old, new):  # what is read for the first time takes longer
                installation.time(name)
            sides = (functools.partial(old.time, name), functools.partial(new.time, name))
            pairs = list(take_pairs(*sides, num_pairs))
            ratios = [later / earlier for earlier, later in pairs]
            times = [f"{statistics.median(side):.2f} s" for side in zip(*pairs, strict=True)]
            median = f"**{statistics.median(ratios):.3f}**"
            spread = (quartiles_of(ratios, ".3f"), spread_of(ratios, ".3f"))
            print_row(name, num_pairs, *times, median, *spread)
    click.echo(f"\n{describe_machine()}")


if __name__ == "__main__":
    main()
