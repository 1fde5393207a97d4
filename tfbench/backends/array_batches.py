"""What a profiled step is fed with, where NumPy makes batches: some at hand, or the recipe's own input pipeline."""

import itertools
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Any

from tfbench.backends.array_feeding import Batch, ahead
from tfbench.backends.profiling import Call, count_at_hand
from tfbench.datasets.sources.splits import list_arrays, map_arrays


class ArrayBatches:
    """Some batches of the recipe's data, over and over; see `ProfiledBatches`.

    Args:
        dataset: The recipe's own endless stream of batches.
        put: Brings an array of a batch to the device of the run.
        iterate: From a stream of batches to the iterator that `fit` makes of it.
    """

    def __init__(
        self, dataset: Generator[Batch, None, None], *, put: Callable[[Any], Any], iterate: Callable[[Any], Any]
    ) -> None:
        self._dataset, self._iterate = dataset, iterate
        first = next(dataset)
        num = count_at_hand(sum(array.nbytes for array in list_arrays(first)))
        self.on_host: Sequence[Batch] = [first, *itertools.islice(dataset, num - 1)]
        self._on_device = [map_arrays(put, batch) for batch in self.on_host]

    def cycle(self) -> Iterator[Any]:
        """Yields batches on the device, without end."""
        return itertools.cycle(self._on_device)

    def iterator(self, *, num_ahead: int = 0) -> Any:
        """Returns an iterator as Keras's training function takes it: of batches on the host, without any work.

        Args:
            num_ahead: Batches that a thread has ready, as in an input pipeline; 0: there is no such thread.
        """
        batches = _repeat(self.on_host)
        return self._iterate(ahead(batches, num_ahead) if num_ahead else batches)

    def pipeline(self) -> Any:
        """Returns an iterator as Keras's training function takes it, of the recipe's own input pipeline.

        There is one stream: whoever takes a batch takes it from all.
        """
        return self._iterate(self._dataset)

    def draw_call(self) -> Call:
        """Returns what waits for the input pipeline's next batch."""

        def call() -> None:
            next(self._dataset)

        return call

    def copy_call(self) -> Call | None:
        """Returns None: Keras's iterators bring a batch to the device, so that taking one is all that a step does."""
        return None


def _repeat(batches: Sequence[Batch]) -> Generator[Batch, None, None]:
    """Yields batches over and over; a generator, since Keras takes no other kind of iterator."""
    while True:
        yield from batches
