"""Step time with tfbench's layers over that with another checkout's layers.

    python benchmarks/layers.py --before ../older
    python benchmarks/layers.py --before ../older --recipe svhn_rcnn --batch 16 --pairs 30

Both networks of a recipe are built in one process, from the same weights, and train on the same
batch of random numbers in turns, a few steps each; every second pair begins with the other. A ratio
is that of the two turns of a pair, so that what others do on the machine slows both. Processor time
counts all threads of the process, which others disturb less.
"""

import contextlib
import importlib.util
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import click
import numpy as np
from footer import describe_machine

CASES = {
    "mnist_scratch_cnn": 32,
    "cifar10_convnet": 32,
    "svhn_rcnn": 8,
    "imagenet_alexnet": 4,
}  # batches, small
TURN_SECONDS = 0.3
_LAYERS = "tfbench.models.custom_layers"


class Turn(NamedTuple):
    """What a turn took, in seconds of a step."""

    wall: float
    processor: float


@contextlib.contextmanager
def layers_of(checkout: Path) -> Iterator[None]:
    """Replaces tfbench's layers with a checkout's, for networks built meanwhile."""
    own = {name: module for name, module in sys.modules.items() if name.startswith(f"{_LAYERS}.")}
    for name in own:
        del sys.modules[name]
    try:
        # One of them imports another, which must have been found before.
        for path in sorted(
            (checkout / "tfbench/models/custom_layers").glob("[!_]*.py"),
            key=lambda path: path.stem == "convolutions",
        ):
            name = f"{_LAYERS}.{path.stem}"
            spec = importlib.util.spec_from_file_location(name, path)
            if spec is None or spec.loader is None:
                raise click.ClickException(f"{path}: cannot be imported.")
            module = importlib.util.module_from_spec(spec)
            sys.modules[name] = module
            spec.loader.exec_module(module)
        yield
    finally:
        for name in [name for name in sys.modules if name.startswith(f"{_LAYERS}.")]:
            del sys.modules[name]
        sys.modules |= own


def build(name: str, batch: int) -> tuple[Any, Callable[[], float]]:
    """Returns a recipe's compiled network and a function that trains one step.

    The function returns the loss so far.
    """
    from tfbench.measure.compiled_model import build_compiled_model
    from tfbench.recipe import files, registry

    recipe = files.load_recipe(files.find_recipe(name), {"training.global_batch_size": batch})
    data = registry.load("datasets", recipe.dataset.name)
    spec = data.describe(data.Config(**recipe.dataset.options))
    model = build_compiled_model(recipe.model, recipe.training, spec)
    generator = np.random.default_rng(0)
    inputs = generator.normal(size=(batch, *spec.input_shape)).astype("float32")
    targets = generator.integers(0, spec.num_classes, batch)
    return model, lambda: float(model.train_on_batch(inputs, targets, return_dict=True)["loss"])


def take_turn(step: Callable[[], float], num_steps: int) -> Turn:
    """Trains for some steps, each of which ends when its loss is read."""
    wall = time.perf_counter()
    processor = time.process_time()
    for _ in range(num_steps):
        step()
    return Turn(
        (time.perf_counter() - wall) / num_steps, (time.process_time() - processor) / num_steps
    )


def compare(name: str, batch: int, before: Path, num_pairs: int) -> list[tuple[Turn, Turn]]:
    """Returns pairs of turns, of the layers before and as they are."""
    import keras

    with layers_of(before):
        old, old_step = build(name, batch)
    new, new_step = build(name, batch)
    new.set_weights(old.get_weights())
    losses = [step() for step in (old_step, new_step)]  # the first step traces and compiles
    if not np.isclose(*losses, rtol=1e-4) and not any(
        "dropout" in layer.name for layer in new.layers
    ):
        raise click.ClickException(
            f"{name}: the losses of the first step differ: {losses[0]:g} and {losses[1]:g}."
        )
    num_steps = max(1, round(TURN_SECONDS / take_turn(new_step, 2).wall))
    pairs = []
    for number in range(num_pairs):
        turns = {}
        for which in ("old", "new") if number % 2 else ("new", "old"):
            turns[which] = take_turn({"old": old_step, "new": new_step}[which], num_steps)
        pairs.append((turns["old"], turns["new"]))
    keras.backend.clear_session()
    return pairs


@click.command()
@click.option(
    "--before",
    required=True,
    type=click.Path(exists=True, path_type=Path),
    help="Another checkout.",
)
@click.option(
    "--recipe", "recipes", multiple=True, type=click.Choice(list(CASES)), help="[default: all]"
)
@click.option("--batch", type=click.IntRange(1), help="Samples of a step. [default: small ones]")
@click.option("--pairs", "num_pairs", default=20, show_default=True, type=click.IntRange(2))
def main(before: Path, recipes: tuple[str, ...], batch: int | None, num_pairs: int) -> None:
    """Prints a Markdown table of ratios."""
    os.environ |= {"TF_CPP_MIN_LOG_LEVEL": "2", "KERAS_BACKEND": "tensorflow"}
    head = [
        "recipe",
        "batch",
        "pairs",
        "step before",
        "median ratio",
        "quartiles",
        "by processor time",
        "quartiles",
    ]
    click.echo(f"| {' | '.join(head)} |\n|{' --- |' * len(head)}")
    for name in recipes or CASES:
        size = batch or CASES[name]
        pairs = compare(name, size, before.resolve(), num_pairs)
        cells = [
            name,
            f"{size}",
            f"{len(pairs)}",
            f"{1e3 * statistics.median(old.wall for old, _ in pairs):.1f} ms",
        ]
        for field in ("wall", "processor"):
            ratios = [getattr(new, field) / getattr(old, field) for old, new in pairs]
            low, median, high = statistics.quantiles(ratios, n=4)
            cells += [f"**{median:.3f}**", f"{low:.3f} to {high:.3f}"]
        click.echo(f"| {' | '.join(cells)} |")
    click.echo(f"\n{describe_machine()}")


if __name__ == "__main__":
    main()
