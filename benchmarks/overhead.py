"""What tfbench costs the training that it measures.

Whole-epoch time under `tfbench run` against bare `model.fit`.

    python benchmarks/overhead.py  # mnist_mlp and mnist_cnn
    python benchmarks/overhead.py --recipe mnist_mlp --pairs 20
    python benchmarks/overhead.py --backend jax --backend torch  # on other backends than TensorFlow
    python benchmarks/overhead.py --recipe benchmarks/own_pipeline.py:build_model  # own batches
    python benchmarks/overhead.py --small  # small networks, beside plain fit and a bare loop
    python benchmarks/overhead.py --small --before ../older  # ... and another checkout of tfbench

Both setups train the same model on the same synthetic data, each in a process of its own; the bare
setup has no callback but one that reads the clock at the end of an epoch. The two take turns, an
epoch each: the setup whose turn it is not is stopped (SIGSTOP), tfbench's parent process, the one
that tracks it and all threads of the backend included, so that drift of the machine hits both
alike. An epoch is the time from the end of one to the end of the next, less the time stopped;
validation, journal and tracking are included. The first epoch is left out, since it holds
compilation.

Both have, on every backend:
- the batches that tfbench makes for it, through tf.data or by NumPy in a thread; a model compiled
  as the recipe says;
- the processor as the only device;
- your environment, with what sets threads in it (OMP_NUM_THREADS, XLA_FLAGS, ...), and what tfbench
  changes there;
- what tfbench sets for the whole process: threads where the recipe names any, determinism,
  TensorFloat-32, JAX's precision of products, PyTorch's choice of algorithms, Keras's types, and
  the seed.
The setup under tfbench alone has clock, callbacks, journal and the two processes that follow it; on
TensorFlow it has soft placement off, too, by which an operation would move to another device.

Large networks hide what the loop around them costs; `--small` looks at those that do not, on
TensorFlow alone, as `small_networks.py` says.
"""

import contextlib
import json
import os
import runpy
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import psutil
import small_networks
from harness import (
    bootstrap_median,
    describe_machine,
    print_head,
    print_row,
    quartiles_of,
    spread_of,
    take_pairs,
)

from tfbench.recipe.backend_support import BACKEND_TITLES
from tfbench.recipe.registry import is_code
from tfbench.runs.process import worker_variables

ENDLESS = 1_000_000  # epochs
POLL_SECONDS = 0.01
DEVICE = "cpu:0"
TENSORFLOW = "tensorflow"
HEAD = (
    "recipe",
    "backend",
    "pairs of epochs",
    "bare epoch",
    "median ratio",
    "95 % of the median",
    "quartiles",
    "range",
)


def fit_own(name: str, epochs: int = ENDLESS, *, has_batches: bool = True) -> None:
    """Trains a network of a file's with its own batches, as a script does.

    Of arrays, the script makes batches by `tf.data`, or leaves them to `fit`.
    """
    import keras
    import tensorflow as tf

    keras.utils.set_random_seed(0)
    module = runpy.run_path(name.rpartition(":")[0])
    model = module["build_model"]()
    data = module["load_data"]()
    arguments = {"x": data}
    if isinstance(data, tuple):
        batch_size = module["BATCH_SIZE"]
        (inputs, targets), validation = data
        arguments = {"x": inputs, "y": targets, "validation_data": validation}
        arguments |= {"batch_size": batch_size, "validation_batch_size": batch_size}
        if has_batches:
            samples = tf.data.Dataset.from_tensor_slices((inputs, targets)).shuffle(len(inputs))
            batches = samples.batch(batch_size).prefetch(tf.data.AUTOTUNE)
            held_out = tf.data.Dataset.from_tensor_slices(validation).batch(batch_size)
            arguments = {"x": batches, "validation_data": held_out, "shuffle": False}
    model.fit(**arguments, epochs=epochs, callbacks=[epoch_ends()], verbose=0)


def epoch_ends() -> Any:
    """Returns a callback that prints the clock at the end of each epoch."""
    import keras

    class EpochEnds(keras.callbacks.Callback):
        def on_epoch_end(self, epoch: int, logs: object = None) -> None:
            print(time.perf_counter(), flush=True)

    return EpochEnds()


def bare_fit(recipe_name: str, backend_name: str) -> None:
    """Trains in this process with nothing but Keras; prints the clock at the end of each epoch."""
    from tfbench import backends
    from tfbench.backends.device_choice import require_possible
    from tfbench.datasets.sources.splits import count_steps_per_epoch
    from tfbench.measure.compiled_model import build_compiled_model
    from tfbench.measure.data import load_data
    from tfbench.measure.process_settings import set_process_wide
    from tfbench.recipe import files

    overrides = {
        "dataset.data": "synthetic",
        "distribution.devices": [DEVICE],
        "training.backend": backend_name,
    }
    recipe = files.load_recipe(files.find_recipe(recipe_name), overrides)
    training = recipe.training
    require_possible(recipe.distribution, training)
    set_process_wide(recipe)
    backend = backends.current()
    splits = load_data(recipe.dataset, None, seed=training.seed)
    model = build_compiled_model(recipe.model, training, splits.spec)
    batch = training.global_batch_size
    model.fit(
        backend.build_training_dataset(splits, global_batch_size=batch, seed=training.seed),
        epochs=ENDLESS,
        steps_per_epoch=count_steps_per_epoch(splits.train.num_samples, batch),
        validation_data=backend.build_validation_dataset(
            splits, batch_size=training.validation_batch_size or batch
        ),
        callbacks=[epoch_ends()],
        shuffle=False,
        verbose=0,
    )


class Setup:
    """One of the two trainings, stopped between its turns."""

    def __init__(self, command: list[str], output: Path, backend: str) -> None:
        self._output = output
        self._errors = output.with_suffix(".stderr")
        variables = {**os.environ, **worker_variables(backend)}
        with output.open("wb") as stdout, self._errors.open("wb") as stderr:
            # A session of its own: when a shell ends, the kernel wakes what is stopped in its
            # session.
            self._process = subprocess.Popen(
                command,
                stdout=stdout,
                stderr=stderr,
                env={name: value for name, value in variables.items() if value is not None},
                start_new_session=True,
            )
        self._num_epochs = 0
        self._stopped_at: float | None = None
        self.run_epoch()

    def run_epoch(self) -> float:
        """Lets it run to the end of its next epoch, then stops it.

        Returns the seconds that the epoch took.
        """
        stopped_seconds = 0.0
        if self._stopped_at is not None:
            stopped_seconds = time.perf_counter() - self._stopped_at
            self._signal(signal.SIGCONT)
        while len(self.epoch_ends()) == self._num_epochs:
            if self._process.poll() is not None:
                raise SystemExit(
                    f"a setup has ended: {self._process.args}\n{self._errors.read_text()}"
                )
            time.sleep(POLL_SECONDS)
        self._num_epochs = len(self.epoch_ends())
        self._signal(signal.SIGSTOP)
        self._stopped_at = time.perf_counter()
        *_, before, end = [0.0, *self.epoch_ends()]
        return end - before - stopped_seconds

    def epoch_ends(self) -> list[float]:
        """Returns the setup's own clock at the end of each epoch, in seconds."""
        return [float(line) for line in self._output.read_text().splitlines()]

    def pids(self) -> list[int]:
        """Returns its processes."""
        return [self._process.pid]

    def close(self) -> None:
        """Ends it."""
        self._signal(signal.SIGKILL)
        self._process.wait()

    def _signal(self, number: signal.Signals) -> None:
        for pid in self.pids():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)


class TfbenchSetup(Setup):
    """`tfbench run`, with its journal and a fresh MLflow store."""

    def __init__(self, recipe: str, backend: str, folder: Path) -> None:
        self._store = folder / "mlruns"
        command = [sys.executable, "-m", "tfbench", "run", recipe, "--devices", DEVICE]
        if is_code(recipe):
            command += ["--global-batch-size", "64"]
        else:
            command += ["--data", "synthetic"]
        command += ["--backend", backend, "--epochs", str(ENDLESS), "--store", str(self._store)]
        super().__init__(command, folder / "console.txt", backend)

    def epoch_ends(self) -> list[float]:
        """Returns the seconds from the start of training to the end of each epoch."""
        ends = []
        for path in self._store.glob("journals/*.jsonl"):
            for line in path.read_text().split("\n")[:-1]:
                if '"kind":"epoch"' in line:
                    ends.append(json.loads(line)["epoch"]["elapsed_seconds"])
        return ends

    def pids(self) -> list[int]:
        """Returns the measuring process, the one that tracks it, and their parent."""
        with contextlib.suppress(psutil.NoSuchProcess):
            children = psutil.Process(self._process.pid).children()
            return [*(child.pid for child in children), *super().pids()]
        return super().pids()


@contextlib.contextmanager
def both_setups(recipe: str, backend: str) -> Iterator[tuple[Setup, Setup]]:
    """Starts bare `fit` and tfbench, each past its first epoch and stopped."""
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        folder = Path(name)
        command = [sys.executable, __file__, "--bare", "--recipe", recipe, "--backend", backend]
        bare = Setup(command, folder / "bare.txt", backend)
        stack.callback(bare.close)
        tfbench = TfbenchSetup(recipe, backend, folder)
        stack.callback(tfbench.close)
        yield bare, tfbench


def compare(recipe: str, backend: str, num_pairs: int) -> list[object]:
    """Measures the pairs of one recipe on one backend; returns a row of the result's table."""
    ratios = []
    bare_seconds = []
    with both_setups(recipe, backend) as (bare, tfbench):
        for plain, measured in take_pairs(bare.run_epoch, tfbench.run_epoch, num_pairs):
            ratios.append(measured / plain)
            bare_seconds.append(plain)
            pair = f"{recipe}, {backend}, pair {len(ratios)}/{num_pairs}"
            told = f"bare {plain:.4f} s, tfbench {measured:.4f} s, ratio {ratios[-1]:.4f}"
            click.echo(f"{pair}: {told}", err=True)
    low, high = bootstrap_median(ratios)
    return [
        recipe,
        BACKEND_TITLES[backend],
        num_pairs,
        f"{statistics.median(bare_seconds):.3f} s",
        f"**{statistics.median(ratios):.4f}**",
        f"{low:.4f} to {high:.4f}",
        quartiles_of(ratios),
        spread_of(ratios),
    ]


@click.command()
@click.option(
    "--recipe", "recipes", multiple=True, default=["mnist_mlp", "mnist_cnn"], show_default=True
)
@click.option(
    "--backend",
    "backends",
    type=click.Choice(list(BACKEND_TITLES)),
    multiple=True,
    default=[TENSORFLOW],
    show_default=True,
    help="What Keras trains with; may be given several times.",
)
@click.option("--pairs", default=20, show_default=True, help="Pairs of epochs, at least two.")
@click.option(
    "--small",
    "is_small",
    is_flag=True,
    help="Small networks, beside plain fit and a loop written by hand; on TensorFlow alone.",
)
@click.option(
    "--before",
    type=click.Path(exists=True, path_type=Path),
    help="With --small: another checkout of tfbench.",
)
@click.option("--rounds", default=5, show_default=True, help="With --small: turns of each setup.")
@click.option("--bare", "is_bare", is_flag=True, hidden=True)
def main(
    recipes: tuple[str, ...],
    backends: tuple[str, ...],
    pairs: int,
    is_small: bool,
    before: Path | None,
    rounds: int,
    is_bare: bool,
) -> None:
    """Prints epoch times under tfbench over bare ones, as a Markdown table.

    With --small it prints the speeds of small networks instead.
    """
    if is_bare:
        if is_code(recipes[0]):
            fit_own(recipes[0])
        bare_fit(recipes[0], backends[0])
    elif is_small:
        if set(backends) != {TENSORFLOW}:
            raise click.UsageError("--small: its setups are TensorFlow's. Leave --backend out.")
        small_networks.compare(before, rounds)
        click.echo(f"\n{describe_machine()}\n")
    else:
        rows = [compare(recipe, backend, pairs) for backend in backends for recipe in recipes]
        click.echo(f"\n{describe_machine()}\n")
        print_head(*HEAD)
        for row in rows:
            print_row(*row)


if __name__ == "__main__":
    main()
