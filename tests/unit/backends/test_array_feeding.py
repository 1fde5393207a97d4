"""Samples that are read as they are used, without TensorFlow.

By threads, in order, each error by its name.
"""

import threading
from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np
import pytest

from builders import build_spec
from tfbench.backends import array_feeding
from tfbench.backends.array_feeding import ArrayFeeding
from tfbench.datasets.sources.splits import Split, Splits
from tfbench.errors import DatasetError
from tfbench.runs.placement_record import BatchPart

NUM_SAMPLES = 12
BATCH = 4
SECONDS = 20.0  # after which what waits for another thread gives up
Row = Callable[[Any], Any]
Started = Callable[[], list[threading.Thread]]


def as_row(number: Any) -> Any:
    return np.full((1,), number, np.float32)


def build_splits(read: Row | None = None) -> Splits:
    """Builds samples that hold their own number, in their order."""
    numbers = np.arange(NUM_SAMPLES)
    inputs = numbers if read else numbers.astype(np.float32)[:, None]
    split = Split(inputs=inputs, targets=numbers, num_samples=NUM_SAMPLES, read=read)
    spec = build_spec((1,), NUM_SAMPLES, input_dtype="float32", shuffled=False)
    return Splits(spec=spec, train=split, validation=split, source="test")


def stream_of(read: Row) -> Any:
    splits = build_splits(read)
    return ArrayFeeding().build_training_dataset(splits, global_batch_size=BATCH, seed=0)


def validation_of(read: Row, batch_size: int) -> Any:
    return ArrayFeeding().build_validation_dataset(build_splits(read), batch_size=batch_size)


def names_of(threads: list[threading.Thread]) -> set[str]:
    return {thread.name.partition("_")[0] for thread in threads}


@pytest.fixture
def started() -> Started:
    """What returns the threads that were started since the test began."""
    before = set(threading.enumerate())
    return lambda: [thread for thread in threading.enumerate() if thread not in before]


@pytest.mark.parametrize("is_training", [True, False], ids=["training", "validation"])
def test_samples_are_read_several_at_a_time_and_come_in_order(
    is_training: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(array_feeding.os, "sched_getaffinity", lambda pid: {0, 1})
    second = threading.Event()
    waited = []

    def read(number: Any) -> Any:
        if number == 0:
            waited.append(second.wait(SECONDS))
        if number == 1:
            second.set()
        return as_row(number)

    if is_training:
        stream = stream_of(read)
        inputs, targets = next(stream)
        stream.close()
    else:
        inputs, targets = validation_of(read, BATCH)[0]
    assert set(waited) == {True}
    assert inputs[:, 0].tolist() == targets.tolist() == [0, 1, 2, 3]


def test_a_sample_that_cannot_be_read_is_named_and_ends_the_stream(
    started: Started,
) -> None:
    def read(number: Any) -> Any:
        if number in (5, 6):
            raise DatasetError(f"{number}.jpg: cannot be read as an image")
        return as_row(number)

    stream = stream_of(read)
    assert next(stream)[1].tolist() == [0, 1, 2, 3]
    with pytest.raises(DatasetError, match=r"^5\.jpg: "):
        next(stream)
    assert list(stream) == []
    require_ended(started)


def test_threads_end_with_the_stream(started: Started) -> None:
    stream = stream_of(as_row)
    next(stream)
    assert names_of(started()) == {"batches", "samples"}
    stream.close()
    require_ended(started)


def require_ended(started: Started) -> None:
    for thread in started():
        thread.join(SECONDS)
    assert started() == []


def test_a_validation_keeps_its_threads_from_batch_to_batch_which_end_with_it(
    started: Started,
) -> None:
    dataset = validation_of(as_row, NUM_SAMPLES)
    for _ in range(5):
        dataset[0]
    threads = started()
    assert names_of(threads) == {"samples"}
    assert len(threads) <= len(array_feeding.os.sched_getaffinity(0))
    del dataset
    assert started() == []


def test_a_batch_of_a_validation_that_does_not_divide_is_whole_for_every_worker() -> None:
    mesh = mock.Mock(num_parts=8, put=lambda rows, num_samples: (num_samples, list(rows)))
    feeding = ArrayFeeding()
    feeding.find_mesh = lambda: mesh
    batches = feeding.build_validation_dataset(build_splits(), batch_size=8, part=BatchPart(1, 2))
    found = [targets for _, targets in (batches[0], batches[1])]
    assert found == [(8, [4, 5, 6, 7]), (4, [8, 9, 10, 11])]
