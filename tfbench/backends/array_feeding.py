"""Batches of stored samples by NumPy, for backends without a data pipeline.

The batches are those of `tensorflow.input_pipeline`, bit for bit, in the same order.
"""

import contextlib
import functools
import math
import os
import queue
import threading
import weakref
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from tfbench.datasets.sources import order
from tfbench.datasets.sources.order import crop_at_random, crop_view
from tfbench.datasets.sources.splits import Split, SplitName, Splits, map_arrays
from tfbench.recipe.backend_support import PREFETCHED_BATCHES
from tfbench.recipe.sections import TrainingConfig
from tfbench.runs.placement_record import WHOLE, BatchPart

Array = npt.NDArray[Any]
Batch = tuple[Any, ...]  # inputs, targets and weights, as far as there are any
Item = TypeVar("Item")
Transform = Callable[[Any], Any]  # of an array


class ArrayFeeding:
    """Training and validation batches of stored samples, as Keras takes them."""

    def prefetch_capacity(self, training: TrainingConfig) -> tuple[int, int]:
        """Returns how many batches of any data are ready, and in the making, at most."""
        return training.prefetched_batches, 1

    def find_mesh(self) -> Any:
        """Returns the mesh of devices that batches are laid on.

        None: batches stay as NumPy makes them. A mesh `put`s an array of a batch of so many samples
        there; a batch that does not divide by its `num_parts` is whole.
        """
        return None

    def count_ahead(self, splits: Splits, training: TrainingConfig) -> int:
        """Returns how many training batches are ready, at most, after a pause.

        In a pause, nothing takes a batch for a while.
        """
        # The batch in the making is done, too, but finds no room.
        return sum(self.prefetch_capacity(training))

    def build_training_dataset(
        self,
        splits: Splits,
        *,
        global_batch_size: int,
        seed: int,
        first_step: int = 0,
        part: BatchPart = WHOLE,
        num_prefetched: int = PREFETCHED_BATCHES,
        num_parallel: int | None = None,
    ) -> Any:
        """Builds an endless stream of full batches, ordered by seed and step alone.

        Args:
            splits: The data.
            global_batch_size: Samples of a batch, for all replicas together.
            seed: Of the order, the crops and the mirrors.
            first_step: Steps already done: the stream begins with the batch that would come next.
            part: Of each batch, that this worker is fed with.
            num_prefetched: Batches that are kept ready.
            num_parallel: Nothing: one is made at a time.

        Returns:
            Of the part of each batch (inputs, targets): float32 or integers (batch, *input_shape),
            and (batch, *target_shape). Of structured data (inputs, targets, weights), each as the
            data set has it.
        """
        split = splits.train

        def make() -> Generator[Batch, None, None]:
            numbered = orders(
                split, splits, seed=seed, first_step=first_step, batch_size=global_batch_size
            )
            with _reader(split) as read:
                for step, numbers in enumerate(numbered, first_step):
                    rows, *others = _gather(split, part.of(numbers), read)
                    crop = functools.partial(
                        crop_at_random, spec=splits.spec, seed=seed, step=step, part=part
                    )
                    yield finish(rows, splits, crop), *others

        batches = ahead(make(), num_prefetched)
        mesh = self.find_mesh()
        if mesh is None:
            return batches
        return (_lay(batch, mesh, global_batch_size) for batch in batches)

    def build_validation_dataset(
        self,
        splits: Splits,
        *,
        batch_size: int,
        split: SplitName = "validation",
        view: int | None = None,
        part: BatchPart = WHOLE,
    ) -> Any:
        """Builds batches that hold every sample of a split once, in order, the last batch short.

        Args:
            splits: The data.
            batch_size: Samples of a batch, for all replicas together.
            split: Which samples; "test" only where the data set has them.
            view: Which of the data's crops, from 0; None: the centre.
            part: Of each batch, that this worker is fed with.
        """
        import keras

        chosen: Split = getattr(splits, split)
        num_samples = chosen.num_samples
        mesh = self.find_mesh()
        crop = functools.partial(crop_view, spec=splits.spec, view=view)

        class Batches(keras.utils.PyDataset):  # type: ignore[misc]  # Keras has no types
            """Batches by number; defined here, since Keras is imported late."""

            def __init__(self) -> None:
                super().__init__()
                stack = contextlib.ExitStack()
                self.read = stack.enter_context(_reader(chosen))
                # Keras says when a pass is over, but not that none is to come.
                weakref.finalize(self, stack.close)

            def __len__(self) -> int:
                return math.ceil(num_samples / batch_size)

            def __getitem__(self, number: int) -> Any:
                start = number * batch_size
                numbers = np.arange(start, min(start + batch_size, num_samples))
                size = len(numbers)
                if mesh is None or size % mesh.num_parts == 0:
                    numbers = part.of(numbers)
                rows, *others = _gather(chosen, numbers, self.read)
                batch = (finish(rows, splits, crop), *others)
                return batch if mesh is None else _lay(batch, mesh, size)

        return Batches()

    def compile_draws(self, batches: Any) -> Callable[[int], None]:
        """Returns a function that draws a number of batches on the host.

        It runs as little Python in between as training does.
        """

        def draw(count: int) -> None:
            for _ in range(count):
                next(batches)

        return draw

    def broken_samples_named(self, source: str) -> AbstractContextManager[None]:
        """Turns the framework's error about a broken sample into a DatasetError.

        It names the sample and the source.
        """
        return contextlib.nullcontext()  # errors of these readers name the sample


def _lay(batch: Batch, mesh: Any, num_samples: int) -> Any:
    """Lays the arrays of a batch of so many samples on a mesh."""
    return map_arrays(lambda array: mesh.put(array, num_samples), batch)


def orders(
    split: Split, splits: Splits, *, seed: int, first_step: int, batch_size: int
) -> Iterator[Array]:
    """Yields the numbers of the samples of one batch after another.

    A batch may reach over the end of a pass.
    """
    number, offset = divmod(first_step * batch_size, split.num_samples)
    draw = functools.partial(
        order.order_of_pass, spec=splits.spec, num_samples=split.num_samples, seed=seed
    )
    left = draw(number)[offset:]
    while True:
        while len(left) < batch_size:
            number += 1
            left = np.concatenate([left, draw(number)])
        yield left[:batch_size]
        left = left[batch_size:]


@contextlib.contextmanager
def _reader(split: Split) -> Iterator[Transform]:
    """Gives a function that makes samples of rows, in their order.

    Samples in memory are the rows; threads, which end with the context, read others.
    """
    read = split.read
    if read is None:
        yield lambda rows: rows
        return
    with ThreadPoolExecutor(len(os.sched_getaffinity(0)), thread_name_prefix="samples") as threads:
        yield lambda rows: np.stack(list(threads.map(read, rows)))


def _gather(split: Split, numbers: Array, read: Transform) -> Batch:
    """Returns copies of stored inputs, targets and weights."""
    pool = split.num_rows
    rows = numbers % pool if pool < split.num_samples else numbers
    inputs, *others = map_arrays(lambda array: array[rows], split.arrays)
    return read(inputs), *others


def finish(
    images: Any,
    splits: Splits,
    crop: Transform = lambda images: images,
    cast: Transform = lambda images: images.astype(np.float32, copy=False),
) -> Any:
    """Turns stored samples into a model's input: float32, less their mean, cropped, scaled.

    Integers stay integers.

    Args:
        images: Arrays of NumPy's or tensors of a framework, which may be written over.
        splits: What they are of.
        crop: Cuts them.
        cast: Makes float32 of them.
    """
    spec = splits.spec
    if spec.is_fed_as_stored:
        return images
    has_mean_image = spec.mean == "image"
    if not has_mean_image:  # bytes are cropped faster than floats
        images = crop(images)
    images = cast(images)
    if splits.mean is not None:
        images -= splits.mean
    if has_mean_image:
        images = crop(images)
    if spec.input_scale != 1.0:
        images *= float(np.float32(spec.input_scale))
    return images


def ahead(
    batches: Generator[Item, None, None], num: int = PREFETCHED_BATCHES
) -> Generator[Item, None, None]:
    """Lets a few batches be made ahead of their use, by a thread that ends with the stream."""
    ready: queue.Queue[Item | Exception] = queue.Queue(maxsize=num)
    is_over = threading.Event()

    def make() -> None:
        try:
            with contextlib.closing(batches):  # and so the threads that read for it
                for batch in batches:
                    ready.put(batch)
                    if is_over.is_set():
                        return
        except Exception as error:  # raised where the batch is waited for
            ready.put(error)

    threading.Thread(target=make, name="batches", daemon=True).start()
    try:
        while True:
            batch = ready.get()
            if isinstance(batch, Exception):
                raise batch
            yield batch
    finally:
        is_over.set()
        while not ready.empty():  # the thread may wait for room
            ready.get()
