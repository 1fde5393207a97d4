"""How long a user waits for a command that measures nothing.

One installation's time over another's.

    python benchmarks/commands.py --before ../older/.venv/bin/tfbench --after .venv/bin/tfbench
    python benchmarks/commands.py --before OLD --after NEW --command show --pairs 20

The installations take turns in processes of their own, every second pair in the other order, each
in a folder with a store that it made itself: a sweep of eight short runs. A command is timed from
its start to its end; `ui` until the line with its address, after which it is ended.
"""

import shutil
import signal
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

import click
from footer import describe_machine

SWEEP = [
    *(
        "sweep",
        "mnist_mlp",
        "--data",
        "synthetic",
        "--setup",
        "default cpu:0",
        "--setup",
        "mirrored cpu:0,cpu:1",
    ),
    *("--vary", "training.global_batch_size=32,512", "--set", "model.hidden_units=[100]"),
    *("--repeats", "2", "--seconds", "0.5", "--set", "measurement.checks=false"),
]
COMMANDS = {
    "show": ["show", "mnist_mlp"],
    "devices": ["devices"],
    "compare": ["compare", "--sweep", "@last"],
    "report": ["report", "--sweep", "@last"],
    "import": ["import", "run.jsonl", "--store", "other"],
    "ui": ["ui"],
}


def run(tfbench: Path, arguments: list[str], folder: Path) -> None:
    """Runs a command to its end."""
    done = subprocess.run(
        [tfbench, *arguments], cwd=folder, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise click.ClickException(
            f"{tfbench} {' '.join(arguments)}: exit {done.returncode}.\n{done.stderr}"
        )


def time_command(tfbench: Path, name: str, folder: Path) -> float:
    """Returns the seconds that a command takes."""
    shutil.rmtree(folder / "other", ignore_errors=True)
    start = time.perf_counter()
    if name != "ui":
        run(tfbench, COMMANDS[name], folder)
        return time.perf_counter() - start
    with subprocess.Popen(
        [tfbench, "ui"], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        said = []
        for line in process.stdout or ():
            said.append(line)
            if "http://" in line:
                break
        seconds = time.perf_counter() - start
        process.send_signal(signal.SIGINT)
        process.communicate()
    if "http://" not in said[-1]:
        raise click.ClickException(f"{tfbench} ui: no address.\n{''.join(said)}")
    return seconds


def prepare(programs: list[Path], folder: Path) -> list[Path]:
    """Returns a folder for each installation, with a store of its own.

    That of one version is nothing to another.
    """
    folders = [folder / "before", folder / "after"]
    for program, place in zip(programs, folders, strict=True):
        place.mkdir()
        run(program, SWEEP, place)
        run(program, ["export", "@last", "-o", "run.jsonl"], place)
    return folders


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
    "--command", "names", multiple=True, type=click.Choice(list(COMMANDS)), help="[default: all]"
)
@click.option("--pairs", "num_pairs", default=7, show_default=True, type=click.IntRange(2))
def main(before: Path, after: Path, names: tuple[str, ...], num_pairs: int) -> None:
    """Prints a Markdown table of ratios."""
    programs = [before.absolute(), after.absolute()]
    head = ["command", "pairs", "before", "after", "median ratio", "quartiles", "range"]
    click.echo(f"| {' | '.join(head)} |\n|{' --- |' * len(head)}")
    with tempfile.TemporaryDirectory() as folder:
        folders = prepare(programs, Path(folder))
        for name in names or COMMANDS:
            for which in (0, 1):  # what is read for the first time takes longer
                time_command(programs[which], name, folders[which])
            pairs = []
            for number in range(num_pairs):
                order = (0, 1) if number % 2 else (1, 0)
                seconds = {
                    which: time_command(programs[which], name, folders[which]) for which in order
                }
                pairs.append((seconds[0], seconds[1]))
            ratios = [new / old for old, new in pairs]
            low, median, high = statistics.quantiles(ratios, n=4)
            times = [
                f"{statistics.median(pair[which] for pair in pairs):.2f} s" for which in (0, 1)
            ]
            spread = [f"{low:.3f} to {high:.3f}", f"{min(ratios):.3f} to {max(ratios):.3f}"]
            click.echo(
                f"| {' | '.join([name, f'{num_pairs}', *times, f'**{median:.3f}**', *spread])} |"
            )
    click.echo(f"\n{describe_machine()}")


if __name__ == "__main__":
    main()
