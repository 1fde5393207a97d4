"""Speeds of small networks under tfbench, plain `fit` and a loop by hand.

See `overhead.py`.

On TensorFlow alone: its pipelines, functions and samples on the device are what most of the setups
differ in. Each setup is a process that stays; it is told which network to train, and then to train
for a turn, whole epochs without validation, while the others wait. What is timed is a turn, from
its begin to the end of its last epoch.

- `tfbench`: what `tfbench run` does in its measuring process: its input pipeline, its callbacks, a
  journal.
- `tfbench, fast` and `tfbench, fast, XLA`: the same with the settings that `tfbench run --fast`
  tries: the samples on the device, 100 steps a call, without and with XLA. The command takes the
  faster one.
- `before`: `tfbench` of another checkout, whose measuring process is put together as this one's.
- `fit, tf.data` and `fit, NumPy`: what a user writes: `model.fit` with arrays that were converted
  beforehand, through `Dataset.from_tensor_slices(...).shuffle(...).batch(...).prefetch(...)` or as
  they are.
- `resident loop`: a `tf.function` that takes its batch from tensors at hand, called in a Python
  loop; it updates the same metrics as `fit`, reads them at the end of an epoch, and waits for
  nothing else.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import click
from harness import print_head, print_row, spread_of

ENDLESS = 1_000_000  # epochs
FAST = {"training.data_on_device": True, "training.steps_per_execution": 100}
SETTINGS = {"tfbench, fast": FAST, "tfbench, fast, XLA": FAST | {"training.compiler": "xla"}}
PLAIN = "fit, tf.data"
LOOP = "resident loop"
SETUPS = ("tfbench", *SETTINGS, PLAIN, "fit, NumPy", LOOP)
BEFORE = "before"
HEAD = (
    "network",
    "batch",
    "setup",
    "samples/s, median",
    "lowest to highest",
    "over `fit, tf.data`",
    "rounds' range",
    "over the loop",
    "rounds' range",
    "processor time a step",
)


class Case(NamedTuple):
    """A network and a batch size; epochs as many as take a second or more."""

    recipe: str
    batch_size: int
    epochs: int


CASES = (
    Case("mnist_hidden100_mlp", 32, 1),
    Case("mnist_hidden100_mlp", 512, 4),
    Case("mnist_mlp", 100, 1),
    Case("features4_hidden100_mlp", 32, 1),
    Case("features4_hidden100_mlp", 512, 6),
    Case("sine_lstm", 10, 30),
)


class Turn(NamedTuple):
    """What one turn took."""

    samples: int
    seconds: float
    processor_seconds: float

    @property
    def speed(self) -> float:
        """Samples per second."""
        return self.samples / self.seconds


class Turns:
    """The setup's side: answers with each turn, and waits for the next one."""

    def __init__(self, epochs: int, samples_per_epoch: int) -> None:
        self._epochs = epochs
        self._samples = samples_per_epoch * epochs
        self._done = 0
        self._begin()

    def _begin(self) -> None:
        self._start = time.perf_counter()
        self._processor_start = time.process_time()

    def end_epoch(self) -> bool:
        """Says whether to stop."""
        self._done += 1
        if self._done % self._epochs:
            return False
        seconds = time.perf_counter() - self._start
        turn = Turn(self._samples, seconds, time.process_time() - self._processor_start)
        print(json.dumps(turn), flush=True)
        order = sys.stdin.readline().strip()
        self._begin()
        return order != "go"


def serve(setup: str) -> None:
    """Trains what standard input asks for, as a setup, until it ends."""
    os.environ |= {"CUDA_VISIBLE_DEVICES": "-1", "TF_CPP_MIN_LOG_LEVEL": "2"}
    import keras

    from tfbench.measure.compiled_model import build_compiled_model
    from tfbench.measure.data import load_data
    from tfbench.recipe import files

    for line in sys.stdin:
        case = Case(*json.loads(line))
        sizes = {"dataset.data": "synthetic", "training.global_batch_size": case.batch_size}
        path = files.find_recipe(case.recipe)
        recipe = files.load_recipe(path, sizes | SETTINGS.get(setup, {}))
        keras.backend.clear_session()
        keras.utils.set_random_seed(recipe.training.seed)
        splits = load_data(recipe.dataset, None, seed=recipe.training.seed)
        model = build_compiled_model(recipe.model, recipe.training, splits.spec)
        if setup == LOOP:
            in_a_loop(splits, model, case)
        elif setup.startswith("fit"):
            under_fit(splits, model, case, is_tf_data=setup == PLAIN)
        else:
            under_tfbench(recipe, splits, model, case, is_fast=setup in SETTINGS)


def under_tfbench(recipe: Any, splits: Any, model: Any, case: Case, *, is_fast: bool) -> None:
    """Trains as the measuring process of a run does."""
    import tensorflow as tf

    from tfbench.backends.tensorflow import input_pipeline, placement, resident, several_workers
    from tfbench.datasets.sources.splits import count_steps_per_epoch
    from tfbench.measure.breakdown import Breakdown
    from tfbench.measure.recorder import FitReadings, build_callbacks
    from tfbench.measure.span_clock import SpanClock
    from tfbench.runs.batch_sizes import BatchSizes
    from tfbench.store.journal import Journal

    training = recipe.training
    steps = count_steps_per_epoch(splits.train.num_samples, case.batch_size)
    turns = Turns(case.epochs, steps * case.batch_size)
    with tempfile.TemporaryDirectory() as folder:
        journal = Journal(Path(folder) / "run.jsonl")
        clock = SpanClock(
            recipe.measurement,
            synchronize=several_workers.synchronize,
            on_span=journal.append_span,
            breakdown=Breakdown(time.perf_counter_ns()),
        )
        readings = FitReadings(
            clock=clock,
            model=model,
            steps_per_epoch=steps,
            batch_sizes=BatchSizes(size=case.batch_size),
            on_epoch=lambda record: turns.end_epoch(),
            on_first_step=lambda: None,
            cuts_last_execution=is_fast,
        )
        if is_fast:
            default = tf.distribute.get_strategy()
            placed = placement.ResolvedDistribution(None, ("/device:CPU:0",), default)
            batches = resident.build_resident_training(
                model, splits, training, placed, steps_per_epoch=steps, first_step=0
            )
        else:
            batches = input_pipeline.build_training_dataset(
                splits, global_batch_size=case.batch_size, seed=training.seed
            )
        model.fit(
            batches,
            epochs=ENDLESS,
            steps_per_epoch=steps,
            callbacks=build_callbacks(readings),
            shuffle=False,
            verbose=0,
        )
        journal.close()


def under_fit(splits: Any, model: Any, case: Case, *, is_tf_data: bool) -> None:
    """Trains as a user's script does."""
    import keras
    import tensorflow as tf

    inputs, targets = arrays_of(splits)
    turns = Turns(case.epochs, len(inputs))

    class EpochEnds(keras.callbacks.Callback):
        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            self.model.stop_training = turns.end_epoch()

    data: dict[str, Any] = {"x": inputs, "y": targets, "batch_size": case.batch_size}
    if is_tf_data:
        samples = tf.data.Dataset.from_tensor_slices((inputs, targets)).shuffle(len(inputs))
        data = {"x": samples.batch(case.batch_size).prefetch(tf.data.AUTOTUNE)}
    model.fit(**data, epochs=ENDLESS, callbacks=[EpochEnds()], verbose=0)


def in_a_loop(splits: Any, model: Any, case: Case) -> None:
    """Trains in a loop over batches of tensors at hand."""
    import tensorflow as tf

    inputs, targets = map(tf.constant, arrays_of(splits))
    size = case.batch_size
    starts = [tf.constant(start) for start in range(0, len(inputs) - size + 1, size)]
    turns = Turns(case.epochs, len(starts) * size)
    order = tf.Variable(tf.range(len(inputs)))

    @tf.function
    def step(start: Any) -> None:
        chosen = order[start : start + size]
        x = tf.gather(inputs, chosen)
        y = tf.gather(targets, chosen)
        with tf.GradientTape() as tape:
            outputs = model(x, training=True)
            loss = model.compute_loss(x, y, outputs)
        weights = model.trainable_variables
        model.optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
        model.compute_metrics(x, y, outputs)

    is_done = False
    while not is_done:
        model.reset_metrics()
        order.assign(tf.random.shuffle(order))
        for start in starts:
            step(start)
        {name: float(value) for name, value in model.get_metrics_result().items()}
        is_done = turns.end_epoch()


def arrays_of(splits: Any) -> tuple[Any, Any]:
    """Returns the training samples as a user would have them.

    Converted once, before the training.
    """
    split = splits.train
    spec = splits.spec
    return (
        split.inputs[: split.num_samples].astype("float32") * spec.input_scale,
        split.targets[: split.num_samples],
    )


class Setup:
    """The parent's side of one setup."""

    def __init__(self, name: str, checkout: Path) -> None:
        self.name = name
        paths = f"{checkout}{os.pathsep}{Path(__file__).resolve().parent}"
        self._process = subprocess.Popen(
            [sys.executable, __file__, name],
            cwd=checkout,
            env=os.environ | {"PYTHONPATH": paths, "PYTHONSAFEPATH": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def run(self) -> Turn:
        """Trains for a turn."""
        self.send("go")
        return self.receive()

    def close(self) -> None:
        """Ends the process."""
        self._process.kill()
        self._process.wait()

    def send(self, line: str) -> None:
        """Writes it a line: a case, whose first turn holds compilation, "go" or "end"."""
        assert self._process.stdin
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def receive(self) -> Turn:
        """Waits for the end of a turn."""
        assert self._process.stdout
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(
                f"the setup '{self.name}' has ended; see what it says: {self._process.args}"
            )
        return Turn(*json.loads(line))


def compare(before: Path | None, rounds: int) -> None:
    """Measures all networks under all setups, in turns; prints a Markdown table."""
    here = Path(__file__).resolve().parent.parent
    setups = [Setup(name, here) for name in SETUPS]
    if before:
        setups.insert(1, Setup(BEFORE, before.resolve()))
    found = {}
    try:
        for case in CASES:
            for setup in setups:
                setup.send(json.dumps(case))
            for setup in setups:
                setup.receive()
            turns: dict[str, list[Turn]] = {setup.name: [] for setup in setups}
            for number in range(rounds):
                shift = number % len(setups)
                for setup in setups[shift:] + setups[:shift]:
                    turns[setup.name].append(setup.run())
                what = f"{case.recipe} batch {case.batch_size}"
                click.echo(f"{what}: round {number + 1}/{rounds}", err=True)
            for setup in setups:
                setup.send("end")
            found[case] = turns
    finally:
        for setup in setups:
            setup.close()
    print_head(*HEAD)
    for case, turns in found.items():
        for name in turns:
            print_row(*describe(case, name, turns))


def describe(case: Case, name: str, turns: dict[str, list[Turn]]) -> list[object]:
    """Returns a setup's row.

    Its speeds, and the same rounds over those of plain `fit`, and of the bare loop.
    """
    speeds = [turn.speed for turn in turns[name]]
    cells = [case.recipe, case.batch_size, name, f"**{statistics.median(speeds):,.0f}**"]
    cells.append(spread_of(speeds, ",.0f"))
    for other in (PLAIN, LOOP):
        pairs = zip(turns[name], turns[other], strict=True)
        ratios = [one.speed / beside.speed for one, beside in pairs]
        cells += [f"{statistics.median(ratios):.2f}", spread_of(ratios, ".2f")]
    work = [turn.processor_seconds / turn.samples * case.batch_size for turn in turns[name]]
    return [*cells, f"{statistics.median(work) * 1e3:.2f} ms"]


if __name__ == "__main__":
    serve(sys.argv[1])
