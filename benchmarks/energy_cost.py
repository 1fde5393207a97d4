"""What reading energy costs: seconds for a reading, and what that is of a step and of an epoch.

    python benchmarks/energy_cost.py
    python benchmarks/energy_cost.py --recipe mnist_hidden100_mlp --batch 32 --pairs 80

First, how long readings take: of the machine's own counters where it has any (GPUs by NVIDIA's driver, processors by
RAPL), and of stand-ins: a tree of files for two packages with memory, and a driver written in Python for one GPU, which
answers at once. What a real driver takes to answer is in none of the figures of a stand-in.

Then a training in one process, whose epochs come in pairs: one with all that is read (three borders an epoch, and
beside it a process that looks and writes once a second, as a run's parent does), and one without any of it (that
process stopped by SIGSTOP); chance says which of a pair is first. The two are compared: once the steps alone, in which
nothing is read, and once from the epoch's beginning to its end, readings included. `--nothing` leaves both without
readings, and shows what such a comparison is worth on a machine at that hour.
"""

import contextlib
import math
import multiprocessing
import os
import random
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import click
from footer import describe_machine
from instruments import bootstrap_median

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "support"))

from builders import build_placement, build_result, build_settings
from fake_power import Card, Clock, FakeNvml, RaplTree
from tfbench.machine import gpus
from tfbench.machine.energy import EnergyMeter
from tfbench.records.journal import Journal, plain_fields
from tfbench.runs.machine_watch import MachineWatch
from tfbench.schema import to_plain

STAND_IN = "0000:3b:00.0"
NUM_READINGS = 500


class Epoch(NamedTuple):
    """Whether energy was read; what the epoch took in seconds: its steps alone, and all of it; and how many it had."""

    reads: bool
    steps: float
    whole: float
    num_steps: int


def make_tree(folder: Path) -> Path:
    """Makes the files of two packages with memory, and returns where /sys would lie."""
    tree = RaplTree(folder / "machine")
    for number in (0, 1):
        tree.add(f"intel-rapl:{number}", f"package-{number}", 1000.0)
        tree.add(f"intel-rapl:{number}:0", "dram", 50.0)
    return tree.root


@contextlib.contextmanager
def stand_in_meter(folder: Path) -> Iterator[EnergyMeter]:
    """Yields a meter of stand-ins: a GPU, two packages, their memory."""
    real = sys.modules.get("pynvml")
    sys.modules["pynvml"] = FakeNvml(Clock(), Card(STAND_IN))  # type: ignore[assignment]
    try:
        with EnergyMeter([STAND_IN], make_tree(folder)) as meter:
            yield meter
    finally:
        if real:
            sys.modules["pynvml"] = real
        else:
            del sys.modules["pynvml"]


def time_each(work: Callable[[], Any]) -> tuple[float, float]:
    """Returns the median and the 99th percentile of what something takes, in seconds."""
    taken = []
    for _ in range(NUM_READINGS):
        start = time.perf_counter()
        work()
        taken.append(time.perf_counter() - start)
    return statistics.median(taken), statistics.quantiles(taken, n=100)[98]


def print_readings(name: str, meter: EnergyMeter, folder: Path) -> float:
    """Prints a row of the table of readings; returns the seconds of a border."""
    journal = Journal(folder / "readings.jsonl")
    border = time_each(lambda: journal.append("energy", reading=to_plain(meter.read("epoch", 1))))
    look = time_each(lambda: journal.append("machine", state=to_plain(meter.look())))
    journal.close()
    counters = ", ".join(source.name for source in meter.sources.sources) or "none"
    figures = " | ".join(f"{median * 1e6:.0f} us ({high * 1e6:.0f})" for median, high in (border, look))
    click.echo(f"| {name} | {counters} | {figures} |")
    return border[0]


def watch(path: str, root: str) -> None:
    """Looks and writes as a run's parent does, until it is killed."""
    sys.modules["pynvml"] = FakeNvml(Clock(), Card(STAND_IN))  # type: ignore[assignment]
    placed = build_result(
        placement=build_placement(devices=("gpu:0",)), settings=build_settings(gpu_addresses=(STAND_IN,))
    )
    names = ("placement", "settings", "environment", "dataset", "model")
    ready = plain_fields(**{name: getattr(placed, name) for name in names})
    watching = MachineWatch(Path(path), lambda addresses: EnergyMeter(addresses, Path(root)))
    watching.take_in({"kind": "ready", "time": 0.0, "steps_per_epoch": 1, **ready})
    watching.take_in({"kind": "started", "time": 0.0})
    while True:
        time.sleep(60)


def measure(recipe_name: str, batch: int, num_pairs: int, *, reads_nothing: bool) -> list[Epoch]:
    """Returns what each epoch took, in pairs of one in which energy is read and one in which it is not."""
    os.environ |= {"CUDA_VISIBLE_DEVICES": "-1", "TF_CPP_MIN_LOG_LEVEL": "2"}
    import keras

    from tfbench.backends.tensorflow import input_pipeline, placement
    from tfbench.recipe import files
    from tfbench.worker import benchmark
    from tfbench.worker.energy_borders import EnergyBorders
    from tfbench.worker.ledger import Ledger
    from tfbench.worker.recorder import build_callbacks
    from tfbench.worker.span_clock import SpanClock

    settings = {"dataset.data": "synthetic", "training.global_batch_size": batch}
    recipe = files.load_recipe(files.find_recipe(recipe_name), settings)
    training = recipe.training
    keras.utils.set_random_seed(training.seed)
    splits = benchmark.load_data(recipe.dataset, None, seed=training.seed)
    model = benchmark.build_compiled_model(recipe.model, training, splits.spec)
    steps_per_epoch = splits.train.num_samples // batch
    epochs = list[Epoch]()
    with tempfile.TemporaryDirectory() as folder, stand_in_meter(Path(folder)) as meter:
        path = Path(folder) / "run.jsonl"
        journal = Journal(path)
        borders, ledger = EnergyBorders(journal, meter), Ledger(time.perf_counter_ns())
        arguments = (str(path), str(Path(folder) / "machine"))
        parent = multiprocessing.get_context("spawn").Process(target=watch, args=arguments, daemon=True)
        parent.start()
        clock = SpanClock(
            recipe.measurement, synchronize=placement.synchronize, on_span=journal.append_span, ledger=ledger
        )
        reads = True
        chance = random.Random(0)
        turns = [turn for _ in range(num_pairs) for turn in chance.choice(((True, False), (False, True)))]

        def read_energy(moment: Any, epoch: int) -> None:
            if reads and borders.reader and not reads_nothing:
                borders.reader(moment, epoch)

        callbacks = build_callbacks(
            clock,
            ledger=ledger,
            model=model,
            steps_per_epoch=steps_per_epoch,
            global_batch_size=batch,
            warmup_steps=recipe.measurement.warmup_steps,
            on_epoch=lambda record: False,
            on_first_step=lambda: None,
            read_energy=read_energy,
        )
        begin, end = callbacks.on_epoch_begin, callbacks.on_epoch_end
        began = 0.0

        def on_epoch_begin(epoch: int, logs: Any = None) -> None:
            nonlocal began, reads
            # The first two hold compilation and the start of the other process.
            reads = epoch < 2 or turns[epoch - 2]
            os.kill(parent.pid or 0, signal.SIGCONT if reads and not reads_nothing else signal.SIGSTOP)
            began = time.perf_counter()
            begin(epoch, logs)

        def on_epoch_end(epoch: int, logs: Any = None) -> None:
            end(epoch, logs)
            whole = time.perf_counter() - began
            if epoch >= 2:
                steps = math.fsum(span.seconds for span in clock.epoch_spans)
                epochs.append(Epoch(reads, steps, whole, steps_per_epoch))

        callbacks.on_epoch_begin, callbacks.on_epoch_end = on_epoch_begin, on_epoch_end
        model.fit(
            input_pipeline.build_training_dataset(splits, global_batch_size=batch, seed=training.seed),
            epochs=2 * num_pairs + 2,
            steps_per_epoch=steps_per_epoch,
            callbacks=callbacks,
            shuffle=False,
            verbose=0,
        )
        parent.kill()
        parent.join()
        journal.close()
    return epochs


@click.command()
@click.option("--recipe", default="mnist_hidden100_mlp", show_default=True)
@click.option("--batch", default=32, show_default=True)
@click.option("--pairs", default=40, show_default=True, help="Of epochs.")
@click.option("--nothing", is_flag=True, help="Read nothing in either epoch of a pair.")
def main(recipe: str, batch: int, pairs: int, nothing: bool) -> None:
    """Prints two Markdown tables: seconds for a reading, and epochs with all readings over those without."""
    click.echo("| counters | read | a border: median (99 %) | a look of the parent: median (99 %) |")
    click.echo("| --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as folder, stand_in_meter(Path(folder)) as meter:
        border = print_readings("stand-ins: Python driver, tree of files", meter, Path(folder))
    with tempfile.TemporaryDirectory() as folder, EnergyMeter([gpu.bus_id or "" for gpu in gpus.read_gpus()]) as meter:
        if meter.watches:
            border = print_readings("this machine's own", meter, Path(folder))
    for problem in meter.sources.problems:
        click.echo(f"\nNot read on this machine: {problem}.")
    found = measure(recipe, batch, pairs, reads_nothing=nothing)
    click.echo("\n| recipe | batch | pairs of epochs | what | median | median ratio | 95 % of the median | quartiles |")
    click.echo("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for what, seconds in (
        ("steps alone", [one.steps for one in found]),
        ("whole epoch", [one.whole for one in found]),
    ):
        ratios = [
            first / second if found[2 * pair].reads else second / first
            for pair, (first, second) in enumerate(zip(seconds[::2], seconds[1::2], strict=True))
        ]
        low, high = bootstrap_median(ratios)
        first, _, third = statistics.quantiles(ratios, n=4)
        click.echo(
            f"| {recipe} | {batch} | {pairs} | {what} | {statistics.median(seconds):.3f} s "
            f"| **{statistics.median(ratios):.4f}** | {low:.4f} to {high:.4f} | {first:.4f} to {third:.4f} |"
        )
    whole = statistics.median(epoch.whole for epoch in found)
    step = whole / (found[0].num_steps or 1)
    click.echo(
        f"\nA border is {border / step:.2%} of a step, outside of every step; the three of an epoch are "
        f"{3 * border / whole:.4%} of it.\n\n{describe_machine()}"
    )


if __name__ == "__main__":
    main()
