"""What a batch costs to fetch, by strategy and number of replicas, with nothing trained.

    python benchmarks/feed.py
    python benchmarks/feed.py --before ../older --recipe mnist_hidden100_mlp --batch 32

Each setup is a process of its own that takes batches from the recipe's input pipeline, on the path
that Keras takes, by a function that does nothing else; setups take turns. One replica costs the
same under every strategy; what several cost beyond it is part of what `mirrored` costs, and is in
its figures. All of it is TensorFlow's; `feed_arrays.py` is about the backends without tf.data.
"""

import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import click

SETUPS = {
    "default cpu:0": ("default", ["cpu:0"]),
    "one_device cpu:0": ("one_device", ["cpu:0"]),
    "mirrored cpu:0": ("mirrored", ["cpu:0"]),
    "mirrored cpu:0,cpu:1": ("mirrored", ["cpu:0", "cpu:1"]),
}
GPU_SETUPS = {
    name.replace("cpu", "gpu"): (strategy, [device.replace("cpu", "gpu") for device in devices])
    for name, (strategy, devices) in SETUPS.items()
}
TURN_BATCHES = 1000
TURNS = 3


def fetch(recipe_name: str, batch: int, strategy: str, devices: list[str]) -> tuple[float, float]:
    """Returns the wall time and the processor time of a batch, in seconds.

    The median of a few turns.
    """
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
    from tfbench.backends.device_choice import require_possible
    from tfbench.measure.data import load_data
    from tfbench.recipe import files
    from tfbench.recipe.sections import DistributionConfig

    overrides = {"dataset.data": "synthetic", "training.global_batch_size": batch}
    recipe = files.load_recipe(files.find_recipe(recipe_name), overrides)
    config = DistributionConfig(strategy=strategy, devices=tuple(devices))
    require_possible(config, recipe.training)
    import tensorflow as tf

    from tfbench.backends.tensorflow import input_pipeline, placement, several_workers

    resolved = placement.resolve(config, recipe.training)

    splits = load_data(recipe.dataset, None, seed=recipe.training.seed)
    batches = input_pipeline.build_training_dataset(
        splits, global_batch_size=batch, seed=recipe.training.seed
    )
    iterator: Any = iter(resolved.strategy.experimental_distribute_dataset(batches))

    @tf.function
    def take(one: Any) -> Any:
        return one.get_next()

    found = []
    for number in range(TURNS + 1):
        wall = time.perf_counter()
        processor = time.process_time()
        for _ in range(TURN_BATCHES if number else 50):  # the first turn holds tracing
            take(iterator)
        several_workers.synchronize()
        found.append((time.perf_counter() - wall, time.process_time() - processor))
    return tuple(
        statistics.median(column) / TURN_BATCHES for column in zip(*found[1:], strict=True)
    )


def measure(
    checkout: Path, recipe: str, batch: int, setup: tuple[str, list[str]]
) -> tuple[float, float]:
    """Has a process of a checkout fetch batches."""
    request = json.dumps([recipe, batch, *setup])
    done = subprocess.run(
        [sys.executable, __file__, "--serve", request],
        cwd=checkout,
        env=os.environ | {"PYTHONPATH": str(checkout), "PYTHONSAFEPATH": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(done.stderr)
    wall, processor = json.loads(done.stdout.splitlines()[-1])
    return wall, processor


@click.command()
@click.option("--recipe", default="mnist_hidden100_mlp", show_default=True)
@click.option("--batch", default=32, show_default=True)
@click.option("--devices", type=click.Choice(["cpu", "gpu"]), default="cpu", show_default=True)
@click.option(
    "--before", type=click.Path(exists=True, path_type=Path), help="Another checkout of tfbench."
)
@click.option("--rounds", default=3, show_default=True)
@click.option("--serve", hidden=True)
def main(
    recipe: str, batch: int, devices: str, before: Path | None, rounds: int, serve: str | None
) -> None:
    """Prints a Markdown table of the time of a batch."""
    if serve:
        click.echo(json.dumps(fetch(*json.loads(serve))))
        return
    checkouts = ({"before": before.resolve()} if before else {}) | {
        "tfbench": Path(__file__).resolve().parent.parent
    }
    setups = SETUPS if devices == "cpu" else GPU_SETUPS
    found: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for _ in range(rounds):
        for name, setup in setups.items():
            for version, checkout in checkouts.items():
                found.setdefault((name, version), []).append(
                    measure(checkout, recipe, batch, setup)
                )
    click.echo(f"{recipe}, batches of {batch}, {rounds} processes each\n")
    click.echo("| setup | version | a batch, median | lowest to highest | processor time, median |")
    click.echo("| --- | --- | --- | --- | --- |")
    for (name, version), readings in found.items():
        wall, processor = ([one[index] * 1e6 for one in readings] for index in (0, 1))
        click.echo(
            f"| {name} | {version} | **{statistics.median(wall):.0f} us** | {min(wall):.0f} to"
            f" {max(wall):.0f} us | {statistics.median(processor):.0f} us |"
        )


if __name__ == "__main__":
    main()
