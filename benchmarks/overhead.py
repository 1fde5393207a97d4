"""What tfbench costs the training that it measures: whole-epoch time under `tfbench run` against bare `model.fit`.

    python benchmarks/overhead.py                                   # mnist_mlp and mnist_cnn
    python benchmarks/overhead.py --recipe mnist_mlp --pairs 10 --epochs 4

Both arms train the same model on the same synthetic data through the same tf.data pipeline, each run in a fresh
process; the bare arm has no callback but one that reads the clock at the end of an epoch. Runs are made in pairs, in
alternating order, so that drift of the machine hits both alike. An epoch is the time from the end of one to the end of
the next, validation, journal and tracking included; the first is left out, since it holds compilation. A pair's ratio
is that of the two runs' median epochs.
"""

import datetime
import itertools
import json
import os
import platform
import random
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import click

BARE = "--bare"


def bare_fit(recipe_name: str, epochs: int) -> list[float]:
    """Trains in this process with nothing but Keras; returns the seconds of each epoch after the first."""
    import time

    os.environ |= {"CUDA_VISIBLE_DEVICES": "-1", "TF_CPP_MIN_LOG_LEVEL": "2"}
    import keras

    from tfbench import benchmark, input_pipeline, recipe_file

    recipe = recipe_file.load_recipe(recipe_file.find_recipe(recipe_name), {"dataset.data": "synthetic"})
    training = recipe.training
    keras.utils.set_random_seed(training.seed)
    splits = benchmark.load_data(recipe.dataset, None, seed=training.seed)
    model = benchmark.build_compiled_model(recipe.model, training, splits.spec)
    batch = training.global_batch_size
    ends: list[float] = []

    class EpochEnds(keras.callbacks.Callback):
        def on_epoch_end(self, epoch: int, logs: object = None) -> None:
            ends.append(time.perf_counter())

    model.fit(
        input_pipeline.build_training_dataset(splits, global_batch_size=batch, seed=training.seed),
        epochs=epochs,
        steps_per_epoch=input_pipeline.count_steps_per_epoch(splits.train.num_samples, batch),
        validation_data=input_pipeline.build_validation_dataset(splits, batch_size=batch),
        callbacks=[EpochEnds()],
        shuffle=False,
        verbose=0,
    )
    return [later - earlier for earlier, later in itertools.pairwise(ends)]


def run_bare(recipe: str, epochs: int) -> float:
    """Returns the median epoch of a bare run in a fresh process, in seconds."""
    command = [sys.executable, __file__, BARE, "--recipe", recipe, "--epochs", str(epochs)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True)
    return statistics.median(json.loads(done.stdout))


def run_tfbench(recipe: str, epochs: int) -> float:
    """Returns the median epoch of a `tfbench run` with tracking to a fresh store, in seconds."""
    with tempfile.TemporaryDirectory() as store:
        command = [sys.executable, "-m", "tfbench", "run", recipe, "--data", "synthetic", "--strategy", "default"]
        command += ["--devices", "cpu:0", "--epochs", str(epochs), "--store", store, "--format", "json"]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True)
    ends = [epoch["elapsed_seconds"] for epoch in json.loads(done.stdout)["epochs"]]
    return statistics.median(later - earlier for earlier, later in itertools.pairwise(ends))


def compare(recipe: str, pairs: int, epochs: int) -> str:
    """Measures the pairs of one recipe; returns a row of the result's table."""
    ratios, bare_seconds = [], []
    for number in range(pairs):
        arms = [("bare", run_bare), ("tfbench", run_tfbench)]
        seconds = {name: measure(recipe, epochs) for name, measure in (arms if number % 2 else arms[::-1])}
        ratios.append(seconds["tfbench"] / seconds["bare"])
        bare_seconds.append(seconds["bare"])
        click.echo(f"{recipe} pair {number + 1}/{pairs}: {seconds} ratio {ratios[-1]:.4f}", err=True)
    quartiles = statistics.quantiles(ratios, n=4)
    low, high = bootstrap_median(ratios)
    return (
        f"| {recipe} | {pairs} x {epochs - 1} | {statistics.median(bare_seconds):.3f} s "
        f"| **{statistics.median(ratios):.4f}** | {low:.4f} to {high:.4f} | {quartiles[0]:.4f} to {quartiles[2]:.4f} "
        f"| {min(ratios):.4f} to {max(ratios):.4f} |"
    )


def bootstrap_median(values: list[float]) -> tuple[float, float]:
    """Returns a 95 % interval of the median: the percentile bootstrap over pairs."""
    rng = random.Random(0)
    medians = sorted(statistics.median(rng.choices(values, k=len(values))) for _ in range(10_000))
    return medians[250], medians[9749]


@click.command()
@click.option("--recipe", "recipes", multiple=True, default=["mnist_mlp", "mnist_cnn"], show_default=True)
@click.option("--pairs", default=9, show_default=True)
@click.option("--epochs", default=4, show_default=True, help="Of each run; the first is left out.")
@click.option(BARE, "is_bare", is_flag=True, hidden=True)
def main(recipes: tuple[str, ...], pairs: int, epochs: int, is_bare: bool) -> None:
    """Prints a Markdown table of epoch time under tfbench over bare epoch time."""
    if is_bare:
        click.echo(json.dumps(bare_fit(recipes[0], epochs)))
        return
    rows = [compare(recipe, pairs, epochs) for recipe in recipes]
    cpu = next(line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name"))
    click.echo(f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d %H:%M} UTC, {cpu.partition(': ')[2]}, ", nl=False)
    click.echo(f"{os.cpu_count()} cores, Python {platform.python_version()}, load {os.getloadavg()[0]:.2f}\n")
    click.echo("| recipe | pairs x epochs | bare epoch | median ratio | 95 % of the median | quartiles | range |")
    click.echo("| --- | --- | --- | --- | --- | --- | --- |")
    click.echo("\n".join(rows))


if __name__ == "__main__":
    main()
