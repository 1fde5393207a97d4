"""Batches for JAX: as NumPy makes them, and where there are several devices, laid on these."""

from collections.abc import Callable, Generator
from typing import Any

from tfbench.backends import array_feeding
from tfbench.datasets.sources.splits import SplitName, Splits, map_arrays
from tfbench.records.part import WHOLE, Part

broken_samples_named = array_feeding.broken_samples_named
compile_draws = array_feeding.compile_draws
count_ahead = array_feeding.count_ahead
most_ahead = array_feeding.most_ahead
require_readable = array_feeding.require_readable
without_targets = array_feeding.without_targets


def build_training_dataset(
    splits: Splits, *, global_batch_size: int, seed: int, first_step: int = 0, part: Part = WHOLE
) -> Generator[Any, None, None]:
    """Returns an endless stream of full batches, made ahead by a thread; see the protocol."""
    batches = array_feeding.build_training_dataset(
        splits, global_batch_size=global_batch_size, seed=seed, first_step=first_step, part=part
    )
    place = _find_place()
    return batches if place is None else _placed(batches, global_batch_size, place)


def build_validation_dataset(
    splits: Splits,
    *,
    batch_size: int,
    split: SplitName = "validation",
    view: int | None = None,
    part: Part = WHOLE,
) -> Any:
    """Returns batches that hold every sample of a split once; one that does not divide is whole on every device."""
    from tfbench.backends.jax import mesh_distribution

    mesh = mesh_distribution.current()
    return array_feeding.build_validation_dataset(
        splits,
        batch_size=batch_size,
        split=split,
        view=view,
        part=part,
        num_parts=mesh.mesh.data if mesh else 1,
        place=_find_place(),
    )


def _find_place() -> Callable[[Any, int], Any] | None:
    from tfbench.backends.jax import mesh_distribution

    mesh = mesh_distribution.current()
    return mesh.put if mesh else None


def _placed(
    batches: Generator[Any, None, None], num_samples: int, place: Callable[[Any, int], Any]
) -> Generator[Any, None, None]:
    for batch in batches:
        yield map_arrays(lambda array: place(array, num_samples), batch)
