"""What a batch costs on the backends without tf.data.

NumPy in a thread, as tfbench makes it there, and Grain.

    python benchmarks/feed_arrays.py
    python benchmarks/feed_arrays.py --rounds 10 --seconds 4

Each setup is a process of its own that takes batches of samples in memory, made ahead of their use,
and does nothing with them; setups take turns. Processor time is that of all threads.

- `NumPy in a thread`: what a run does (`tfbench/backends/array_feeding.py`).
- `Grain, batch by batch`: the same batches, gathered by the same operations, in Grain's threads.
- `Grain, sample by sample`: as its documentation has it: samples are shuffled, fetched and put
  together by Grain, in an order of its own; then a batch is converted.

Grain is no requirement of tfbench; where it is not installed, its setups are left out. It has a
thread a core, and as many batches ahead as NumPy's thread; its own default, 500 batches, would take
gigabytes.
"""

import functools
import importlib.metadata
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import time
import zlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import click
import numpy as np
from footer import describe_machine

from tfbench.backends.array_feeding import ArrayFeeding
from tfbench.datasets.sources.order import order_of_pass
from tfbench.datasets.sources.splits import Splits
from tfbench.datasets.sources.synthetic import generate_splits
from tfbench.recipe.backend_support import PREFETCHED_BATCHES
from tfbench.recipe.dataset_spec import DatasetSpec

SEED = 0
ENDLESS = 10**9  # batches
AHEAD = PREFETCHED_BATCHES + 1  # and one in the making


class Case(NamedTuple):
    """Batches of bytes in memory, which become float32."""

    batch: int
    shape: tuple[int, ...]
    samples: int  # of a pass; those of large images are drawn from a pool

    def __str__(self) -> str:
        return f"{self.batch} x {'x'.join(map(str, self.shape))}"


CASES = (
    Case(100, (784,), 60_000),
    Case(128, (32, 32, 3), 50_000),
    Case(32, (224, 224, 3), 1_281_167),
)


class Reading(NamedTuple):
    """What one turn of a setup found."""

    batches_per_second: float
    processor_seconds: float  # of a batch
    first_batch: int  # its checksum


def by_numpy(splits: Splits, batch: int) -> Iterator[Any]:
    """Returns the batches of a run."""
    return ArrayFeeding().build_training_dataset(splits, global_batch_size=batch, seed=SEED)


def by_grain_batches(splits: Splits, batch: int) -> Iterator[Any]:
    """Returns the batches of a run, each made in one of Grain's threads."""
    import grain

    split = splits.train
    spec = splits.spec
    pool = len(split.inputs)
    draw = functools.lru_cache(2)(
        functools.partial(order_of_pass, spec=spec, num_samples=split.num_samples, seed=SEED)
    )

    def make(step: int) -> tuple[Any, Any]:
        number, offset = divmod(step * batch, split.num_samples)
        numbers = draw(number)[offset : offset + batch]
        if len(numbers) < batch:
            numbers = np.concatenate([numbers, draw(number + 1)[: batch - len(numbers)]])
        rows = numbers % pool if pool < split.num_samples else numbers
        return convert(split.inputs[rows], spec), split.targets[rows]

    return iter(grain.MapDataset.range(ENDLESS).map(make).to_iter_dataset(read_options()))


def by_grain_samples(splits: Splits, batch: int) -> Iterator[Any]:
    """Returns batches that Grain puts together from samples."""
    import grain

    split = splits.train
    spec = splits.spec

    class Samples:
        """Samples by number, as Grain takes them."""

        def __len__(self) -> int:
            return split.num_samples

        def __getitem__(self, number: int) -> tuple[Any, Any]:
            row = number % len(split.inputs)
            return split.inputs[row], split.targets[row]

    samples = grain.MapDataset.source(Samples()).seed(SEED).shuffle().repeat()
    batches = samples.batch(batch, drop_remainder=True).map(
        lambda one: (convert(one[0], spec), one[1])
    )
    return iter(batches.to_iter_dataset(read_options()))


def convert(images: Any, spec: DatasetSpec) -> Any:
    """Returns a batch of bytes as a model takes it."""
    images = images.astype(np.float32)
    images *= np.float32(spec.input_scale)
    return images


def read_options() -> Any:
    """Returns what Grain is told of threads and batches ahead."""
    import grain

    return grain.ReadOptions(num_threads=len(os.sched_getaffinity(0)), prefetch_buffer_size=AHEAD)


NUMPY = "NumPy in a thread"
SAME_BATCHES = "Grain, batch by batch"
SETUPS = {
    NUMPY: by_numpy,
    SAME_BATCHES: by_grain_batches,
    "Grain, sample by sample": by_grain_samples,
}


def take(setup: str, number: int, seconds: float) -> Reading:
    """Takes batches of a case for some seconds, by a setup, in this process."""
    case = CASES[number]
    spec = DatasetSpec(
        input_shape=case.shape,
        input_dtype="uint8",
        target_shape=(),
        num_classes=10,
        train_samples=case.samples,
        validation_samples=1,
        input_scale=1 / 255,
    )
    stream = SETUPS[setup](generate_splits(spec, seed=SEED), case.batch)
    first_batch = zlib.crc32(next(stream)[0].tobytes())
    for _ in range(2 * AHEAD):  # those that were ready
        next(stream)
    count = 0
    start = time.perf_counter()
    processor = time.process_time()
    while (elapsed := time.perf_counter() - start) < seconds:
        next(stream)
        count += 1
    return Reading(count / elapsed, (time.process_time() - processor) / count, first_batch)


def measure(setup: str, number: int, seconds: float) -> Reading:
    """Has a process take batches."""
    done = subprocess.run(
        [sys.executable, __file__, "--serve", json.dumps([setup, number, seconds])],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(done.stderr)
    return Reading(*json.loads(done.stdout.splitlines()[-1]))


def describe(case: Case, found: dict[str, list[Reading]]) -> list[str]:
    """Returns a row a setup.

    Its rate, the same rounds over those of NumPy, and what a batch takes of the processor.
    """
    rows = []
    for setup, readings in found.items():
        rates = [one.batches_per_second for one in readings]
        ratios = [
            one / other.batches_per_second for one, other in zip(rates, found[NUMPY], strict=True)
        ]
        work = [one.processor_seconds * 1e3 for one in readings]
        rows.append(
            f"| {case} | {setup} | **{statistics.median(rates):,.0f}** | {min(rates):,.0f} to"
            f" {max(rates):,.0f} | {statistics.median(ratios):.2f} | {min(ratios):.2f} to"
            f" {max(ratios):.2f} | {statistics.median(work):.3f} ms | {min(work):.3f} to"
            f" {max(work):.3f} ms |"
        )
    return rows


@click.command()
@click.option("--rounds", default=5, show_default=True, help="Processes of each setup and batch.")
@click.option(
    "--seconds", default=2.0, show_default=True, help="For which a process takes batches."
)
@click.option("--serve", hidden=True)
def main(rounds: int, seconds: float, serve: str | None) -> None:
    """Prints a Markdown table of batches a second and of processor time a batch."""
    if serve:
        click.echo(json.dumps(take(*json.loads(serve))))
        return
    has_grain = importlib.util.find_spec("grain") is not None
    setups = list(SETUPS) if has_grain else [NUMPY]
    rows = []
    for number, case in enumerate(CASES):
        found: dict[str, list[Reading]] = {setup: [] for setup in setups}
        for turn in range(rounds):
            shift = turn % len(setups)
            for setup in setups[shift:] + setups[:shift]:
                found[setup].append(measure(setup, number, seconds))
            click.echo(f"{case}: round {turn + 1}/{rounds}", err=True)
        if (
            len(
                {one.first_batch for setup in (NUMPY, SAME_BATCHES) for one in found.get(setup, [])}
            )
            > 1
        ):
            raise SystemExit(f"{case}: Grain's batches are others than NumPy's")
        rows += describe(case, found)
    head = "| batch | setup | batches/s, median | lowest to highest | over NumPy | rounds' range "
    click.echo(
        "\n".join(
            [
                head + "| processor time a batch, median | lowest to highest |",
                "| --- " * 8 + "|",
                *rows,
            ]
        )
    )
    versions = f"NumPy {np.__version__}" + (
        f", Grain {importlib.metadata.version('grain')}" if has_grain else ""
    )
    click.echo(f"\n{describe_machine()}, {versions}")
    if not has_grain:
        click.echo("\nGrain is not installed, and its setups are left out: pip install grain")


if __name__ == "__main__":
    main()
