"""What ran when, as a framework's trace tells it, and how its time is shared among parts."""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from tfbench.records.profile import ProfiledOperation

_PS = 1e-12


class TracedOperation(NamedTuple):
    """An operation that ran, in picoseconds of the trace's clock."""

    start: int
    end: int
    name: str
    kind: str


class Trace(NamedTuple):
    """What a trace tells.

    `others` were at work without a name of an operation: the framework's executor on the host, kernels and copies of no
    operation on a GPU. `waits`: copies from a GPU to the host, and calls of the host that wait for a GPU.
    """

    operations: list[TracedOperation]
    others: list[TracedOperation]
    waits: list[TracedOperation]
    on_device: bool  # operations are those of a GPU

    @property
    def active_seconds(self) -> float | None:
        """For how long anything was at work; None where the trace tells of nothing but operations."""
        if not self.others and not self.on_device:
            return None
        return sum(apportion([*self.operations, *self.others], lambda _: (0, "")).values())


def apportion(operations: Iterable[TracedOperation], part_of: Callable[[str], tuple[int, str]]) -> dict[str, float]:
    """Says for how long each part ran, so that all parts add up to the time in which anything ran.

    What runs beside an operation of an earlier phase takes no time of its own; operations of one phase that run at the
    same time share it alike.

    Args:
        operations: What ran.
        part_of: From an operation's name to the number of its phase and the name of its part.

    Returns:
        Seconds by part.
    """
    edges = []
    for index, operation in enumerate(operations):
        phase, part = part_of(operation.name)
        edges += [(operation.start, True, index, phase, part), (operation.end, False, index, phase, part)]
    edges.sort(key=lambda edge: edge[0])
    running: dict[int, tuple[int, str]] = {}
    seconds: dict[str, float] = {}
    before = 0
    for time, begins, index, phase, part in edges:
        if running and time > before:
            first = min(running.values())[0]
            sharing = [name for number, name in running.values() if number == first]
            for name in sharing:
                seconds[name] = seconds.get(name, 0.0) + (time - before) * _PS / len(sharing)
        if begins:
            running[index] = (phase, part)
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
    own = apportion(operations, lambda name: (0, name))
    together: dict[str, list[TracedOperation]] = {}
    for operation in operations:
        together.setdefault(operation.name, []).append(operation)
    found = [
        ProfiledOperation(
            name=name,
            kind=same[0].kind,
            occurrences=len(same) / num_steps,
            seconds=sum(one.end - one.start for one in same) * _PS / num_steps,
            own_seconds=own.get(name, 0.0) / num_steps,
        )
        for name, same in together.items()
    ]
    return sorted(found, key=lambda one: -one.own_seconds)
