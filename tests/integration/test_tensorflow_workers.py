"""Two processes train as one does on TensorFlow, and tell of a worker that is lost.

Both do everything, one thing after another, so that TensorFlow is started for it but twice, and once for one process.
"""

import contextlib
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from browser import free_port
from runs import DEADLINE_SECONDS, clean_environment

pytestmark = pytest.mark.slow

TOLD = 17  # exit status of a worker that SIGTERM reached
SETUPS = {"momentum": 1, "adam": 4}  # steps_per_execution

PROGRAM = """
import json, os, signal, sys
import numpy as np
from tfbench.backends.tensorflow import input_pipeline
from tfbench.backends.tensorflow.backend import BACKEND as backend
from tfbench.datasets.sources.splits import Split, Splits
from tfbench.errors import MeasurementError
from tfbench.recipe.dataset_spec import DatasetSpec
from tfbench.recipe.optimizers import AdamConfig, SgdConfig
from tfbench.recipe.sections import DistributionConfig, TrainingConfig
from tfbench.records.placement import WHOLE, Part
from tfbench.records.placement import WorkerRank
from tfbench.schema import to_plain
from tfbench.worker.optimizer import build_optimizer

index, addresses, setups, told, output = json.loads(sys.argv[1])
signal.signal(signal.SIGTERM, lambda *_: os._exit(told))
OPTIMIZERS = {"momentum": SgdConfig(learning_rate=0.1, momentum=0.9), "adam": AdamConfig(learning_rate=0.01)}
BATCH, NUM_VALIDATION = 12, 29  # the last batch of a validation is of 5 samples
spec = DatasetSpec(input_shape=(12, 12, 1), input_dtype="uint8", target_shape=(), num_classes=10, train_samples=100,
                   validation_samples=NUM_VALIDATION, input_scale=1 / 255)
rng = np.random.default_rng(1)

def split(count):
    return Split(inputs=rng.integers(0, 256, (count, 12, 12, 1), np.uint8), targets=rng.integers(0, 10, count),
                 num_samples=count)

splits = Splits(spec=spec, train=split(100), validation=split(NUM_VALIDATION), source="test")
rank = None if index is None else WorkerRank(index=index, num_workers=len(addresses), addresses=tuple(addresses))
part = Part(index, len(addresses)) if rank else WHOLE
config = DistributionConfig(strategy="multi_worker" if rank else "default", devices=("cpu:0",))

def training_of(setup):
    return TrainingConfig(global_batch_size=BATCH, epochs=1, optimizer=OPTIMIZERS[setup],
                          steps_per_execution=setups[setup])

resolved = backend.resolve(config, training_of("adam"), rank)

import keras

def build(setup):
    model = keras.Sequential([keras.Input(spec.input_shape), keras.layers.Conv2D(4, 3, activation="relu"),
                              keras.layers.MaxPooling2D(), keras.layers.Flatten(), keras.layers.Dense(10)])
    model.compile(build_optimizer(OPTIMIZERS[setup], model, total_steps=20),
                  keras.losses.SparseCategoricalCrossentropy(from_logits=True),
                  metrics=[keras.metrics.SparseCategoricalAccuracy(name="accuracy")], jit_compile=False,
                  steps_per_execution=setups[setup])
    return model

def laid_out(setup):
    keras.utils.set_random_seed(3 + (index or 0))  # all begin with the weights of the first, whatever they draw
    with resolved.scope():
        model = build(setup)
        backend.lay_out(resolved, config, model)
    return model

def batches():
    return input_pipeline.build_training_dataset(splits, global_batch_size=BATCH, seed=5, part=part)

def fit(model, **options):
    model.fit(batches(), shuffle=False, verbose=0, **options)

validation = input_pipeline.build_validation_dataset(splits, batch_size=BATCH, part=part)
facts, kept = {"placement": to_plain(resolved.placement), "checks": {}, "validation": {}}, {}
for setup in setups:
    model = laid_out(setup)
    if rank:
        facts["checks"][setup] = to_plain(backend.check_replicas(model, resolved.placement))
    with backend.watch() as watch:
        fit(model, steps_per_epoch=20, epochs=1)
        backend.synchronize()
        watch.verify(resolved, model)
    facts["validation"][setup] = model.evaluate(validation, verbose=0, return_dict=True)
    kept |= {f"{setup} {i}": backend.to_numpy(v) for i, v in enumerate(backend.training_variables(model))}
    kept[f"{setup} logits"] = model.predict(input_pipeline.without_targets(validation), verbose=0)
kept["labels"] = splits.validation.targets
np.savez(output, **kept)
backend.leave()
print("FACTS" + json.dumps(facts), flush=True)
"""

LOSE = """
class Say(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        if batch == 3:
            print("TRAINING", flush=True)
try:
    with backend.lost_workers_named():
        fit(laid_out("momentum"), steps_per_epoch=10**9, callbacks=[Say()])
except MeasurementError as error:
    print("LOST" + str(error), flush=True)
os._exit(0)
"""


class Seen(NamedTuple):
    """What two workers, and a process that was alone, found."""

    facts: tuple[Any, Any, Any]  # that of the one alone is the last
    arrays: tuple[Any, Any, Any]
    exit_code: int  # of the second worker, which was told to end while it trained
    lost: str  # what the first one said then


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Seen:
    folder = tmp_path_factory.mktemp("workers")
    addresses = [f"127.0.0.1:{free_port()}" for _ in range(2)]
    with contextlib.ExitStack() as stack:
        workers = [stack.enter_context(_started(index, addresses, folder)) for index in (0, 1)]
        facts = [_read(worker, "FACTS") for worker in workers]
        _read(workers[1], "TRAINING")
        workers[1].send_signal(signal.SIGTERM)
        exit_code = workers[1].wait(DEADLINE_SECONDS)
        lost = _read(workers[0], "LOST")
        alone = _read(stack.enter_context(_started(None, addresses, folder)), "FACTS")
    arrays = [dict(np.load(folder / f"{index}.npz")) for index in (0, 1, None)]
    return Seen((*map(json.loads, facts), json.loads(alone)), tuple(arrays), exit_code, lost)


@contextlib.contextmanager
def _started(index: int | None, addresses: list[str], folder: Path) -> Iterator[subprocess.Popen[str]]:
    arguments = json.dumps([index, addresses, SETUPS, TOLD, str(folder / f"{index}.npz")])
    program = PROGRAM if index is None else PROGRAM + LOSE
    with (folder / f"{index}.err").open("w") as errors:
        worker = subprocess.Popen(
            [sys.executable, "-P", "-c", program, arguments],
            env=clean_environment() | {"TF_CONFIG": "of something else"},
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
    try:
        yield worker
    finally:
        worker.kill()
        worker.communicate()


def _read(worker: subprocess.Popen[str], word: str) -> str:
    """Returns what a worker says after a word; pytest's own limit ends a wait for what does not come."""
    assert worker.stdout
    return next(line for line in worker.stdout if line.startswith(word)).removeprefix(word).strip()


def test_each_worker_has_its_device_and_its_part_of_a_batch(seen: Seen) -> None:
    for facts in seen.facts[:2]:
        placement = facts["placement"]
        assert (placement["devices"], placement["num_workers"], placement["num_replicas"]) == (["cpu:0"], 2, 2)
        assert (placement["per_replica_batch_size"], placement["cross_device_ops"]) == (6, "ring")
        assert placement["feed"] == "direct"


@pytest.mark.parametrize("setup", SETUPS)
def test_two_workers_train_as_one_process_does(seen: Seen, setup: str) -> None:
    alone = seen.arrays[2]
    names = [name for name in alone if name.startswith(setup)]
    assert len(names) > 6
    for arrays in seen.arrays[:2]:
        assert max(float(np.abs(arrays[name] - alone[name]).max()) for name in names) < 2e-5
    assert all(np.array_equal(seen.arrays[0][name], seen.arrays[1][name]) for name in names)


@pytest.mark.parametrize("setup", SETUPS)
def test_a_validation_by_two_workers_counts_every_sample_once(seen: Seen, setup: str) -> None:
    logits, labels = seen.arrays[0][f"{setup} logits"].astype(np.float64), seen.arrays[0]["labels"]
    losses = np.log(np.exp(logits).sum(axis=-1)) - logits[np.arange(len(labels)), labels]
    for facts in seen.facts:
        assert facts["validation"][setup]["loss"] == pytest.approx(losses.mean(), rel=1e-5)
        assert facts["validation"][setup]["accuracy"] == pytest.approx((logits.argmax(-1) == labels).mean(), rel=1e-6)


def test_sums_over_two_workers_count_each_once(seen: Seen) -> None:
    for facts in seen.facts[:2]:
        assert facts["checks"] == {setup: {"num_replicas": 2, "reason": "", "fault": ""} for setup in SETUPS}


def test_a_worker_that_is_told_to_end_does_and_the_other_says_that_it_lost_it(seen: Seen) -> None:
    assert seen.exit_code == TOLD
    assert seen.lost.startswith("another worker ended, answers no more, or has something else to do: ")
    assert "\n" not in seen.lost
