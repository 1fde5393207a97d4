"""What tfbench's instruments cost the training.

Blocks of steps with and without them, taking turns in one process.

    python benchmarks/instruments.py
    python benchmarks/instruments.py --recipe mnist_hidden100_mlp --block 500

With them: spans, time breakdown and journal in the measuring process, and a parent that follows the
journal as `tfbench run` does. Without: nothing is called after a step (Keras's own callback list
would read the loss there, which tfbench's does not), and the parent is stopped (SIGSTOP). Both
kinds of block end with the same synchronisation with the device. A block is compared with the mean
of the two around it, so that drift cancels out; `overhead.py` compares whole processes, whose noise
hides a cost of a few per cent. "own work" is what the instruments take of the training thread's
processor time, which no other process disturbs, for a step and as a share of it.
"""

import math
import multiprocessing
import os
import random
import signal
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import click
from footer import describe_machine

from tfbench.runs.session import POLL_SECONDS
from tfbench.store.journal import Journal, Replay
from tfbench.store.json_lines import Follower


def follow(path: str) -> None:
    """Follows a journal as the parent of a run does, until it is killed."""
    follower = Follower(Path(path))
    replay = Replay()
    while True:
        for record in follower.read():
            replay.apply(record)
        time.sleep(POLL_SECONDS)


class Block(NamedTuple):
    """Seconds of a block of steps, in all and in the calls after each step.

    Those of the calls are processor time of the training thread.
    """

    seconds: float
    call_seconds: float


def measure(recipe_name: str, block: int, num_blocks: int) -> list[Block]:
    """Returns what each block took.

    Every other one, from the second on, was measured without instruments.
    """
    os.environ |= {"CUDA_VISIBLE_DEVICES": "-1", "TF_CPP_MIN_LOG_LEVEL": "2"}
    import keras

    from tfbench.backends.tensorflow import input_pipeline, several_workers
    from tfbench.measure.breakdown import Breakdown
    from tfbench.measure.compiled_model import build_compiled_model
    from tfbench.measure.data import load_data
    from tfbench.measure.recorder import FitReadings, build_callbacks
    from tfbench.measure.span_clock import SpanClock
    from tfbench.recipe import files

    recipe = files.load_recipe(files.find_recipe(recipe_name), {"dataset.data": "synthetic"})
    training = recipe.training
    keras.utils.set_random_seed(training.seed)
    splits = load_data(recipe.dataset, None, seed=training.seed)
    model = build_compiled_model(recipe.model, training, splits.spec)
    blocks: list[Block] = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.jsonl"
        journal = Journal(path)
        breakdown = Breakdown(time.perf_counter_ns())
        parent = multiprocessing.get_context("fork").Process(
            target=follow, args=(str(path),), daemon=True
        )
        parent.start()
        clock = SpanClock(
            recipe.measurement,
            synchronize=several_workers.synchronize,
            on_span=journal.append_span,
            breakdown=breakdown,
        )
        readings = FitReadings(
            clock=clock,
            model=model,
            steps_per_epoch=block * (num_blocks + 2),
            global_batch_size=training.global_batch_size,
            on_epoch=lambda record: False,
            on_first_step=lambda: None,
        )
        callbacks = build_callbacks(readings)
        with_instruments = callbacks.on_train_batch_end
        done = 0
        start = 0.0
        own_ns = 0

        def on_train_batch_end(batch: int, logs: Any = None) -> None:
            nonlocal done, start, own_ns
            number = done // block - 2  # the first two blocks hold compilation and warm-up
            before = time.thread_time_ns()
            if number % 2 == 0:
                with_instruments(batch, logs)
            own_ns += time.thread_time_ns() - before
            done += 1
            if done % block == 0:
                several_workers.synchronize()
                now = time.perf_counter()
                if number >= 0:
                    blocks.append(Block(now - start, own_ns * 1e-9))
                own_ns = 0
                is_next_with = (number + 1) % 2 == 0
                os.kill(parent.pid or 0, signal.SIGCONT if is_next_with else signal.SIGSTOP)
                if is_next_with:
                    clock.restart()
                if len(blocks) == num_blocks:
                    model.stop_training = True
                start = time.perf_counter()

        callbacks.on_train_batch_end = on_train_batch_end
        model.fit(
            input_pipeline.build_training_dataset(
                splits, global_batch_size=training.global_batch_size, seed=training.seed
            ),
            epochs=1,
            steps_per_epoch=block * (num_blocks + 2),
            callbacks=callbacks,
            shuffle=False,
            verbose=0,
        )
        parent.kill()
        journal.close()
    return blocks


def ratios_of(seconds: list[float]) -> list[float]:
    """Returns the time of each block with instruments over that of its neighbours.

    Their time, without instruments, is the geometric mean of the two.
    """
    return [
        seconds[index] / math.sqrt(seconds[index - 1] * seconds[index + 1])
        for index in range(2, len(seconds) - 1, 2)
    ]


def bootstrap_median(values: list[float]) -> tuple[float, float]:
    """Returns a 95 % interval of the median: the percentile bootstrap over blocks."""
    rng = random.Random(0)
    medians = sorted(statistics.median(rng.choices(values, k=len(values))) for _ in range(4000))
    return medians[100], medians[3899]


@click.command()
@click.option(
    "--recipe",
    "recipes",
    multiple=True,
    default=["mnist_mlp", "mnist_hidden100_mlp"],
    show_default=True,
)
@click.option(
    "--block", "block_seconds", default=0.4, show_default=True, help="Seconds of a block, about."
)
@click.option("--blocks", default=401, show_default=True)
def main(recipes: tuple[str, ...], block_seconds: float, blocks: int) -> None:
    """Prints a Markdown table of the time of steps with instruments over that without."""
    click.echo(
        "| recipe | step | steps a block | blocks | median ratio | 95 % of the median | quartiles |"
        " own work |"
    )
    click.echo("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for recipe in recipes:
        trial = measure(recipe, 50, 6)
        step = statistics.median(one.seconds for one in trial) / 50
        block = max(10, round(block_seconds / step))
        found = measure(recipe, block, blocks)
        seconds = [one.seconds for one in found]
        ratios = ratios_of(seconds)
        calls = [[one.call_seconds / block for one in found[first::2]] for first in (0, 1)]
        own = statistics.median(calls[0]) - statistics.median(calls[1])
        low, high = bootstrap_median(ratios)
        first, _, third = statistics.quantiles(ratios, n=4)
        step = statistics.median(seconds) / block
        click.echo(
            f"| {recipe} | {step * 1e3:.2f} ms | {block} | {blocks} |"
            f" **{statistics.median(ratios):.4f}** | {low:.4f} to {high:.4f} | {first:.4f} to"
            f" {third:.4f} | {own * 1e6:.1f} us, {own / step:.2%} |"
        )
    click.echo(f"\n{describe_machine()}")


if __name__ == "__main__":
    main()
