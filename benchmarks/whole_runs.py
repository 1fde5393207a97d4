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

import os
import statistics
import sys
import tempfile
from pathlib import Path

import click
from harness import bootstrap_median, describe_machine, run_program, run_tfbench, take_pairs

BATCH_SIZE = 64  # of the network that is measured if none is named
PLAIN = "import sys; import overhead; overhead.fit_own(sys.argv[1], int(sys.argv[2]), {})"


def environment() -> dict[str, str]:
    """Returns variables with which modules beside this one are found, and TensorFlow is silent."""
    paths = [str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]
    return {"TF_CPP_MIN_LOG_LEVEL": "3", "PYTHONPATH": os.pathsep.join(filter(None, paths))}


def seconds_per_epoch(ends: list[float]) -> float:
    """Returns the mean time from one end of an epoch to the next."""
    return (ends[-1] - ends[0]) / (len(ends) - 1)


@click.command(help=__doc__)
@click.option("--network", default="benchmarks/own_pipeline.py:build_model", metavar="FILE:NAME")
@click.option("--batch-size", default=BATCH_SIZE, help="Of the network's own batches.")
@click.option("--epochs", type=click.IntRange(3), default=10, help="Of each run.")
@click.option("--feed", type=click.Choice(["fit", "pipeline"]), default="fit", show_default=True)
@click.option("--pairs", "num_pairs", default=10, help="Of runs.")
def main(network: str, batch_size: int, epochs: int, feed: str, num_pairs: int) -> None:
    """Times pairs of runs, and prints each of them and their median."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # both read compiled files of Python

    def time_plain() -> float:
        code = PLAIN.format(f"has_batches={feed == 'pipeline'}")
        printed = run_program([sys.executable, "-c", code, network, str(epochs)], **environment())
        return seconds_per_epoch([float(line) for line in printed.splitlines()])

    def time_tfbench() -> float:
        sizes = ("--epochs", epochs, "--global-batch-size", batch_size)
        settings = ("--set", "measurement.checks=false", "--set", f"training.feed={feed}")
        with tempfile.TemporaryDirectory() as store:
            words = ("run", network, "--store", store, *sizes, "--no-mlflow", *settings)
            document = run_tfbench(*words, **environment())
        return seconds_per_epoch([epoch["elapsed_seconds"] for epoch in document["epochs"]])

    speeds = []
    for plain, measured in take_pairs(time_plain, time_tfbench, num_pairs):
        speeds.append(plain / measured)
        click.echo(f"fit {plain:.3f} s an epoch, tfbench {measured:.3f}: speed {speeds[-1]:.3f}")
    low, high = bootstrap_median(speeds)
    median = statistics.median(speeds)
    found = f"median speed {median:.3f} of plain fit's [{low:.3f}, {high:.3f}], {num_pairs} pairs"
    click.echo(f"{found}\n{describe_machine()}")


if __name__ == "__main__":
    main()
