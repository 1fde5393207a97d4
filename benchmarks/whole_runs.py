"""Whether a user's own data and network train under tfbench as fast as by plain `fit`.

    python benchmarks/whole_runs.py
    python benchmarks/whole_runs.py --network nets.py:build_model --epochs 20 --pairs 10
    python benchmarks/whole_runs.py --network benchmarks/own_arrays.py:build_model \
        --batch-size 128 --epochs 300 --feed pipeline

Both train `build_model()` on the batches or arrays that `load_data()` of the same file returns.
Plain `fit` gets arrays as they are, or, where tfbench makes the batches, batches of `tf.data`. A
pair is one run of each, whole and in a process of its own, so that pipelines work ahead as they do
for a user; which of them is first takes turns. The speed of a run is that of its epochs after the
first.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import click
from footer import describe_machine
from overhead import bootstrap_median

BATCH_SIZE = 64  # of the network that is measured if none is named
PLAIN = "import sys; import overhead; overhead.fit_own(sys.argv[1], int(sys.argv[2]), {})"


def environment() -> dict[str, str]:
    """Returns this process's, with compiled Python files read and TensorFlow silent."""
    variables = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    paths = [str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]
    variables["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    variables.pop("PYTHONDONTWRITEBYTECODE", None)
    return variables


def seconds_per_epoch(ends: list[float]) -> float:
    """Returns the mean time from one end of an epoch to the next."""
    return (ends[-1] - ends[0]) / (len(ends) - 1)


def time_plain(network: str, epochs: int, feed: str) -> float:
    """Returns the seconds of an epoch of plain `fit`."""
    code = PLAIN.format(f"has_batches={feed == 'pipeline'}")
    command = [sys.executable, "-c", code, network, str(epochs)]
    done = subprocess.run(command, env=environment(), stdout=subprocess.PIPE, text=True, check=True)
    ends = [float(line) for line in done.stdout.splitlines()]
    return seconds_per_epoch(ends)


def time_tfbench(network: str, epochs: int, feed: str, batch_size: int) -> float:
    """Returns the seconds of an epoch under `tfbench run`."""
    with tempfile.TemporaryDirectory() as store:
        command = [sys.executable, "-m", "tfbench", "run", network, "--store", store]
        command += ["--epochs", str(epochs), "--global-batch-size", str(batch_size)]
        command += ["--no-mlflow", "--set", "measurement.checks=false"]
        command += ["--set", f"training.feed={feed}"]
        subprocess.run(command, env=environment(), stdout=subprocess.DEVNULL, check=True)
        (journal,) = Path(store, "journals").glob("*.jsonl")
        records = [json.loads(line) for line in journal.read_text(encoding="utf-8").splitlines()]
    ends = [record["epoch"]["elapsed_seconds"] for record in records if record["kind"] == "epoch"]
    return seconds_per_epoch(ends)


@click.command(help=__doc__)
@click.option("--network", default="benchmarks/own_pipeline.py:build_model", metavar="FILE:NAME")
@click.option("--batch-size", default=BATCH_SIZE, help="Of the network's own batches.")
@click.option("--epochs", type=click.IntRange(3), default=10, help="Of each run.")
@click.option("--feed", type=click.Choice(["fit", "pipeline"]), default="fit", show_default=True)
@click.option("--pairs", default=10, help="Of runs.")
def main(network: str, batch_size: int, epochs: int, feed: str, pairs: int) -> None:
    """Times pairs of runs, and prints each of them and their median."""
    speeds = []
    for number in range(pairs):
        if number % 2:
            measured = time_tfbench(network, epochs, feed, batch_size)
            plain = time_plain(network, epochs, feed)
        else:
            plain = time_plain(network, epochs, feed)
            measured = time_tfbench(network, epochs, feed, batch_size)
        speeds.append(plain / measured)
        click.echo(f"fit {plain:.3f} s an epoch, tfbench {measured:.3f}: speed {speeds[-1]:.3f}")
    low, high = bootstrap_median(speeds)
    median = statistics.median(speeds)
    click.echo(f"median speed {median:.3f} of plain fit's [{low:.3f}, {high:.3f}], {pairs} pairs")
    click.echo(describe_machine())


if __name__ == "__main__":
    main()
