"""A step taken apart for a profile: its batches, its parts as functions, and its trace."""

import itertools
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from tfbench import backends
from tfbench.backends.array_feeding import Batch, Transform, ahead
from tfbench.datasets.sources.splits import list_arrays, map_arrays
from tfbench.profiles.readings import ProfiledOperation

Call = Callable[[], None]

_PS = 1e-12
PHASES = {"forward": 0, "backward": 1, "update": 2}  # of a step, in their order

# at hand, so that a step learns from more than one batch
_POOL_BATCHES = 32
_POOL_BYTES = 64 * 2**20


class ProfiledBatches:
    """Some batches of a recipe's data, at hand on the device of the run, over and over.

    Args:
        dataset: The recipe's own endless stream of batches.
        put: Brings an array of a batch to the device of the run.
        iterate: From a stream of batches to the iterator that `fit` makes of it.
    """

    def __init__(self, dataset: Any, *, put: Transform, iterate: Transform) -> None:
        self._dataset = dataset
        self._iterate = iterate
        stream = iter(dataset)
        first = next(stream)
        num_bytes = sum(np.asarray(array).nbytes for array in list_arrays(first))
        num = max(2, min(_POOL_BATCHES, _POOL_BYTES // num_bytes))
        self.on_host: Sequence[Batch] = [first, *itertools.islice(stream, num - 1)]
        self._on_device = [map_arrays(put, batch) for batch in self.on_host]

    def cycle(self) -> Iterator[Any]:
        """Yields batches on the device, without end."""
        return itertools.cycle(self._on_device)

    def iterator(self, *, num_ahead: int = 0) -> Any:
        """Returns an iterator as Keras's training function takes it, of batches at hand.

        Args:
            num_ahead: Batches that a thread has ready, as in an input pipeline; 0: there is no such
                thread.
        """
        batches = _repeat(self.on_host)
        if num_ahead:
            batches = ahead(batches, num_ahead)
        return self._iterate(batches)

    def pipeline(self) -> Any:
        """Returns an iterator, as above, over the recipe's own input pipeline."""
        return self._iterate(self._dataset)

    def draw_call(self) -> Call:
        """Returns a call that waits for the input pipeline's next batch."""
        stream = iter(self._dataset)

        def call() -> None:
            next(stream)

        return call


class StepCalls:
    """A compiled model's step and its parts, as functions without arguments.

    Each waits until the device is done; Keras's own step does so only if it is asked to.

    Args:
        model: With the variables that training makes as it begins.
        batches: Of the recipe's data.
        placed: Where the step runs.
    """

    def __init__(self, model: Any, batches: ProfiledBatches, placed: Any) -> None:
        from tfbench.models.structure.graph import walk

        self.model = model
        self.batches = batches
        self.placed = placed
        self.calls = list(walk(model))
        model.make_train_function()
        backend = backends.current()
        self.variables = backend.training_variables(model)
        self._kept = [backend.to_numpy(variable) for variable in self.variables]

    def build(self, upto: str) -> Any:
        """Returns the step up to a phase, a function of inputs and targets, compiled as Keras does.

        Every function gets the same variables, used or not, so that all cost the same to call.

        Args:
            upto: "dispatch" for one that does nothing, "forward", "backward" or "update".
        """
        raise NotImplementedError

    def run(self, upto: str, function: Any, x: Any, y: Any) -> Any:
        """Calls what `build` returned."""
        return function(x, y)

    def train(self, iterator: Any) -> Any:
        """Calls Keras's training function, and returns a result to wait for."""
        raise NotImplementedError

    def wait(self, result: Any) -> None:
        """Waits until the device has what a call returned."""
        raise NotImplementedError

    def call(self, upto: str) -> Call:
        """Returns one call of the step up to a phase."""
        function = self.build(upto)
        cycle = self.batches.cycle()
        return lambda: self.wait(self.run(upto, function, *next(cycle)))

    def keras_call(self, iterator: Any, *, waits: bool = False) -> tuple[Call, int]:
        """Returns one call of Keras's training function, and the steps that it does.

        Args:
            iterator: Of its batches.
            waits: Whether it waits for the device, as calls of phases do, to be compared with them;
                `fit` does not wait for each step.
        """

        def call() -> None:
            result = self.train(iterator)
            if waits:
                self.wait(result)

        return call, int(self.model.steps_per_execution)

    def take_call(self, iterator: Any) -> Call:
        """Returns a call that takes a batch, as Keras does, and computes nothing."""
        function = self.build("dispatch")
        return lambda: self.wait(self.run("dispatch", function, *next(iterator)))

    def restore(self) -> None:
        """Gives all variables, those of metrics included, their first values."""
        for variable, value in zip(self.variables, self._kept, strict=True):
            variable.assign(value)
        self.model.reset_metrics()


def _repeat(batches: Sequence[Batch]) -> Generator[Batch, None, None]:
    """Yields batches over and over; a generator, since Keras takes no other kind of iterator."""
    while True:
        yield from batches


class TracedOperation(NamedTuple):
    """An operation that ran, in picoseconds of the trace's clock."""

    start: int
    end: int
    name: str
    kind: str


class Trace(NamedTuple):
    """What ran while a trace was taken.

    `others` belong to no operation: the framework's executor on the host, kernels and copies of no
    operation on a GPU.
    """

    operations: list[TracedOperation]
    others: list[TracedOperation]
    on_device: bool  # operations are those of a GPU

    @property
    def active_seconds(self) -> float | None:
        """For how long anything ran; None where the trace shows nothing but operations."""
        if not self.others and not self.on_device:
            return None
        parts = apportion([*self.operations, *self.others], lambda _: (0, ""))
        return sum(parts.values())


def apportion(
    operations: Iterable[TracedOperation], part_of: Callable[[str], tuple[int, str]]
) -> dict[str, float]:
    """Says for how long each part ran, so that all parts add up to the time in which anything ran.

    An operation that runs beside one of an earlier phase takes no time of its own; operations of
    one phase that run at the same time share it alike.

    Args:
        operations: What ran.
        part_of: From an operation's name to the number of its phase and the name of its part.

    Returns:
        Seconds by part.
    """
    edges = []
    for index, operation in enumerate(operations):
        place = part_of(operation.name)
        edges.append((operation.start, True, index, place))
        edges.append((operation.end, False, index, place))
    edges.sort(key=lambda edge: edge[0])
    running: dict[int, tuple[int, str]] = {}
    seconds: dict[str, float] = {}
    before = 0
    for time, begins, index, place in edges:
        if running and time > before:
            first, _ = min(running.values())
            sharing = [name for phase, name in running.values() if phase == first]
            for name in sharing:
                seconds[name] = seconds.get(name, 0.0) + (time - before) * _PS / len(sharing)
        if begins:
            running[index] = place
        else:
            running.pop(index, None)
        before = time
    return seconds


def sum_up(operations: Sequence[TracedOperation], num_steps: int) -> list[ProfiledOperation]:
    """Returns what each operation took in a step, the longest first.

    Args:
        operations: Of some steps.
        num_steps: How many.
    """
    own_seconds = apportion(operations, lambda name: (0, name))
    by_name: dict[str, list[TracedOperation]] = {}
    for operation in operations:
        by_name.setdefault(operation.name, []).append(operation)
    sums = []
    for name, occurrences in by_name.items():
        duration = sum(operation.end - operation.start for operation in occurrences)
        sums.append(
            ProfiledOperation(
                name=name,
                kind=occurrences[0].kind,
                occurrences=len(occurrences) / num_steps,
                seconds=duration * _PS / num_steps,
                own_seconds=own_seconds.get(name, 0.0) / num_steps,
            )
        )
    return sorted(sums, key=lambda operation: -operation.own_seconds)
