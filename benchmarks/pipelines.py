"""What a batch costs to make: by tfbench, and by `tf.data` as its documentation writes it.

    python benchmarks/pipelines.py
    python benchmarks/pipelines.py --pairs 10 --only images --only crops

Each turn is a process of its own that takes batches and trains nothing; both take turns. Processor
time is that of all threads. Both give float32 batches of shuffled samples.

- `images`: JPEG files of 500 x 375 pixels, resized to 256, of which 224 are cut at random and
  mirrored; batches of 32.
- `whole`: the same files, resized to 224; batches of 32.
- `crops`: 32 x 32 colour images in memory, of which 28 are cut at random and mirrored; 128.
- `arrays`: 28 x 28 grey images in memory, scaled; 100.
- `synthetic`: 224 x 224 colour images in memory, as of `--data synthetic`; 32.
- `validation`: what a validation of one batch of 128 x 4 numbers takes until it has the batch.
- `tfds`: MNIST as tensorflow-datasets prepared it in the folder `--data-dir`; 100.
"""

import dataclasses
import functools
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import numpy as np
from harness import describe_machine, print_head, print_row, run_program, spread_of, take_pairs

CASES = ("images", "whole", "crops", "arrays", "synthetic", "validation", "tfds")
SIDES = ("tfbench", "tf.data")
SEED = 0
CLASSES = 2
MEASURED_SECONDS = 4.0
NUM_VALIDATIONS = 200


def write_images(folder: Path, num_images: int = 400) -> None:
    """Writes JPEG files of two classes, as large as ImageNet's usual ones (about 100 KB)."""
    from PIL import Image

    rng = np.random.default_rng(SEED)
    for number in range(num_images):
        part = "val" if number < CLASSES else "train"
        path = folder / part / f"class{number % CLASSES}" / f"{number}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        blocks = Image.fromarray(rng.integers(0, 256, (32, 32, 3), np.uint8))
        smooth = np.asarray(blocks.resize((500, 375), Image.Resampling.BICUBIC), np.float64)
        noisy = smooth + rng.normal(0, 12, (375, 500, 1))
        Image.fromarray(noisy.clip(0, 255).astype(np.uint8)).save(path, quality=90)


def load_splits(case: str, folder: str) -> tuple[Any, int]:
    """Returns the data of a case and the size of its batches."""
    from tfbench.datasets import imagenet, mnist
    from tfbench.datasets.sources.synthetic import generate_splits
    from tfbench.recipe.dataset_spec import DatasetSpec

    if case == "images":
        return imagenet.load_splits(imagenet.Config(num_classes=CLASSES), folder), 32
    if case == "whole":
        config = imagenet.Config(num_classes=CLASSES, stored_size=224, mirror=False)
        return imagenet.load_splits(config, folder), 32
    if case == "tfds":
        return mnist.load_splits(mnist.Config(), folder), 100
    spec = DatasetSpec(
        input_shape=(28, 28, 1),
        input_dtype="uint8",
        num_classes=10,
        train_samples=50_000,
        validation_samples=1000,
        input_scale=1 / 255,
    )
    if case == "arrays":
        return generate_splits(spec, seed=SEED), 100
    if case == "validation":
        spec = DatasetSpec(
            input_shape=(4,), num_classes=2, train_samples=1280, validation_samples=128
        )
        return generate_splits(spec, seed=SEED), 128
    if case == "crops":
        spec = dataclasses.replace(
            spec, input_shape=(28, 28, 3), stored_shape=(32, 32, 3), mirrors=True
        )
        return generate_splits(spec, seed=SEED), 128
    spec = dataclasses.replace(spec, input_shape=(224, 224, 3), train_samples=1500)
    return generate_splits(spec, seed=SEED), 32


def build_plain(case: str, folder: str, splits: Any, batch: int) -> Any:
    """Builds the batches of a case as the guides of tf.data do."""
    import tensorflow as tf

    spec = splits.spec

    def scale(images: Any, labels: Any) -> Any:
        return tf.cast(images, tf.float32) * spec.input_scale, labels

    def augment(images: Any, labels: Any) -> Any:
        cut = tf.image.random_crop(images, spec.input_shape)
        return tf.image.random_flip_left_right(cut), labels

    def decode(path: Any, label: Any) -> Any:
        image = tf.io.decode_jpeg(tf.io.read_file(path), channels=3)
        size = tf.shape(image)
        side = tf.minimum(size[0], size[1])
        square = tf.image.crop_to_bounding_box(
            image, (size[0] - side) // 2, (size[1] - side) // 2, side, side
        )
        resized = tf.image.resize(square, spec.sample_shape[:2])
        if spec.mirrors:
            resized, label = augment(resized, label)
        return resized - imagenet_means, label

    imagenet_means = tf.constant([123.68, 116.779, 103.939])
    train = splits.train
    if case == "tfds":
        import tensorflow_datasets as tfds

        samples = tfds.load("mnist", split="train", data_dir=folder, as_supervised=True).cache()
    else:
        samples = tf.data.Dataset.from_tensor_slices((train.inputs, train.targets))
    shuffled = samples.shuffle(train.num_rows, seed=SEED).repeat()
    if case in ("images", "whole"):
        batches = shuffled.map(decode, num_parallel_calls=tf.data.AUTOTUNE).batch(batch)
    elif case == "crops":
        cut = shuffled.map(augment, num_parallel_calls=tf.data.AUTOTUNE)
        batches = cut.batch(batch).map(scale, num_parallel_calls=tf.data.AUTOTUNE)
    else:
        batches = shuffled.batch(batch).map(scale, num_parallel_calls=tf.data.AUTOTUNE)
    return batches.prefetch(tf.data.AUTOTUNE)


def time_each(count: int, draw: Callable[[], object]) -> tuple[float, float]:
    """Returns the wall time and the processor time of one of so many, in seconds."""
    wall = time.perf_counter()
    processor = time.process_time()
    draw()
    return (time.perf_counter() - wall) / count, (time.process_time() - processor) / count


def measure_batches(case: str, side: str, folder: str) -> tuple[float, float]:
    """Returns the wall time and the processor time of a batch, in seconds."""
    from tfbench.backends.tensorflow import input_pipeline

    splits, batch = load_splits(case, folder)
    if case == "validation":
        return measure_validation(side, splits, batch)
    if side == "tfbench":
        batches = input_pipeline.build_training_dataset(splits, global_batch_size=batch, seed=SEED)
    else:
        batches = build_plain(case, folder, splits, batch)
    draw = input_pipeline.compile_draws(batches)
    first, _ = time_each(20, lambda: draw(20))
    count = max(20, int(MEASURED_SECONDS / first))
    return time_each(count, lambda: draw(count))


def measure_validation(side: str, splits: Any, batch: int) -> tuple[float, float]:
    """Returns the times of a validation's batch, with the iterator that Keras makes for it."""
    import tensorflow as tf

    from tfbench.backends.tensorflow import input_pipeline

    if side == "tfbench":
        batches = input_pipeline.build_validation_dataset(splits, batch_size=batch)
    else:
        samples = splits.validation
        batches = tf.data.Dataset.from_tensor_slices((samples.inputs, samples.targets)).batch(batch)
    next(iter(batches))

    def draw() -> None:
        for _ in range(NUM_VALIDATIONS):
            next(iter(batches))

    return time_each(NUM_VALIDATIONS, draw)


def start_turn(case: str, folder: str, side: str) -> tuple[float, float]:
    """Measures in a process of its own."""
    request = json.dumps([case, side, folder])
    command = [sys.executable, __file__, "--serve", request]
    printed = run_program(command, TF_CPP_MIN_LOG_LEVEL="3")
    wall, processor = json.loads(printed.splitlines()[-1])
    return wall, processor


def format_ratios(pairs: list[tuple[float, float]]) -> str:
    """Returns the median of tfbench's time over the other's, from the lowest to the highest."""
    ratios = [ours / plain for ours, plain in pairs]
    return f"**{statistics.median(ratios):.2f}** ({spread_of(ratios, '.2f')})"


@click.command()
@click.option("--pairs", default=6, show_default=True, help="Of turns, for each case.")
@click.option("--only", type=click.Choice(CASES), multiple=True, help="These cases alone.")
@click.option("--data-dir", default="", help="Where tensorflow-datasets keeps MNIST.")
@click.option("--serve", hidden=True)
def main(pairs: int, only: tuple[str, ...], data_dir: str, serve: str | None) -> None:
    """Prints a Markdown table of the times of a batch."""
    if serve:
        click.echo(json.dumps(measure_batches(*json.loads(serve))))
        sys.stdout.flush()
        os._exit(0)  # before threads of tf.data notice that Python is gone
    cases = only or (CASES if data_dir else CASES[:-1])
    print_head("case", "tfbench, processor time", "tf.data", "ratio", "ratio by the clock")
    with tempfile.TemporaryDirectory() as images:
        if {"images", "whole"} & set(cases):
            write_images(Path(images))
        for case in cases:
            folder = data_dir if case == "tfds" else images
            turn = functools.partial(start_turn, case, folder)
            sides = [functools.partial(turn, side) for side in SIDES]
            walls = []
            processors = []
            for ours, plain in take_pairs(*sides, pairs):
                walls.append((ours[0], plain[0]))
                processors.append((ours[1], plain[1]))
            times = [
                f"{statistics.median(side) * 1e3:.3g} ms" for side in zip(*processors, strict=True)
            ]
            print_row(case, *times, format_ratios(processors), format_ratios(walls))
    click.echo(f"\n{describe_machine()}")


if __name__ == "__main__":
    main()
