"""Programs of `tests/corpus`: what plain `fit` makes of each, and what tfbench does.

    KERAS_BACKEND=jax python tests/support/corpus.py default NAME...   # a line of JSON for each
    python tests/support/corpus.py table                               # all, as a table

Programs run in forks of one process, which has imported the framework; devices are chosen in them.
"""

import contextlib
import importlib.util
import json
import multiprocessing
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

PROGRAMS = Path(__file__).parents[1] / "corpus"
BACKENDS = ("tensorflow", "jax", "torch")
STRATEGIES_OF = {
    "tensorflow": ("default", "mirrored"),
    "jax": ("default", "mirrored"),
    "torch": ("default",),
}
EPOCHS = 2
MOST_ADVICE = 3  # that is followed before a program counts as refused
SECONDS = 300.0  # for a program, at most
MOST_FITS = 4  # replicas draw random numbers at once, so that plain `fit` can differ between runs
ROUNDING = 1e-5  # of sums over two replicas; on one device nothing differs


def names() -> list[str]:
    return sorted(path.stem for path in PROGRAMS.glob("*.py"))


def backends_of(name: str) -> list[str]:
    """Returns the backends that a program is written for."""
    text = (PROGRAMS / f"{name}.py").read_text(encoding="utf-8")
    line = re.search(r"^BACKENDS = (.*)$", text, re.MULTILINE)
    assert line, name
    return re.findall(r'"(\w+)"', line[1])


def batch_size_of(name: str) -> int:
    """Returns the batch size that a program gives to `fit`, or Keras's default."""
    text = (PROGRAMS / f"{name}.py").read_text(encoding="utf-8")
    line = re.search(r"^BATCH_SIZE = (\d+)$", text, re.MULTILINE)
    return int(line[1]) if line else 32


def load_program(name: str) -> Any:
    # By the name that tfbench gives it: configurations of the user's classes hold it.
    spec = importlib.util.spec_from_file_location(name, PROGRAMS / f"{name}.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def to_plain(value: Any) -> Any:
    """Returns what JSON holds of a configuration."""
    return json.loads(json.dumps(value, default=str, sort_keys=True))


def describe(model: Any, history: dict[str, Any], num_steps: int) -> dict[str, Any]:
    """Returns what a training came to: figures of each epoch, settings, steps and weights."""
    import keras

    try:
        optimizer = to_plain(model.optimizer.get_config())
        del optimizer["name"]  # of the second in a process
    except NotImplementedError:  # of a schedule of the user's
        optimizer = type(model.optimizer).__name__
    weights = [keras.ops.convert_to_numpy(weight).tolist() for weight in model.weights]
    return {
        "history": history,
        "settings": {
            "jit_compile": bool(model.jit_compile),
            "run_eagerly": bool(model.run_eagerly),
            "steps_per_execution": int(model.steps_per_execution),
            "optimizer": optimizer,
        },
        "steps": num_steps,
        "weights": weights,
    }


def train_by_tfbench(name: str, strategy: str, overrides: dict[str, Any]) -> dict[str, Any]:
    """Trains a program's network and data as `tfbench run FILE:build_model` does."""
    from own_networks import run_network
    from tfbench.measure import benchmark

    file = str(PROGRAMS / f"{name}.py")
    sizes = {"global_batch_size": batch_size_of(name), "epochs": EPOCHS}
    training = sizes | {"feed": "fit"}  # as of networks that are named on the command line
    given = [f"training.{key}" for key in overrides]
    train = benchmark.train
    models = []

    def train_and_keep(prepared: Any, *arguments: Any) -> Any:
        models.append(prepared.model)
        return train(prepared, *arguments)

    benchmark.train = train_and_keep
    try:
        records = run_network(
            file, "build_model", "load_data", strategy, given, **training | overrides
        )
    finally:
        benchmark.train = train
    epochs = [record["epoch"] for record in records if record["kind"] == "epoch"]
    history: dict[str, list[float]] = {}
    for epoch in epochs:
        figures = {"loss": epoch["loss"], "val_loss": epoch["val_loss"], **epoch["metrics"]}
        for key in ("accuracy", "val_accuracy"):
            figures[key] = epoch[key]
        for key, value in figures.items():
            if value is not None:
                history.setdefault(key, []).append(value)
    num_steps = sum(epoch["num_steps"] for epoch in epochs)
    return describe(models[0], history, num_steps)


def train_by_fit(name: str, strategy: str) -> dict[str, Any]:
    """Trains it by `fit`, as the program does; over two replicas, in the scope of a strategy."""

    from tfbench.measure.recorder import flatten_logs

    program = load_program(name)
    scope = scope_of_replicas() if strategy == "mirrored" else contextlib.nullcontext()
    with scope, steps_counted() as steps:
        model, fitted = program.train(EPOCHS)
    epochs: list[dict[str, float]] = []
    for number in range(EPOCHS):
        logs = {key: values[number] for key, values in fitted.history.items()}
        epochs.append(flatten_logs(logs))
    history = {key: [epoch[key] for epoch in epochs] for key in epochs[0]}
    return describe(model, history, sum(steps))


def scope_of_replicas() -> contextlib.AbstractContextManager[Any]:
    """Returns the scope of a strategy over two devices of the processor."""
    import keras

    if keras.backend.backend() == "jax":
        import jax

        jax.config.update("jax_num_cpu_devices", 2)
        keras.distribution.set_distribution(keras.distribution.DataParallel(devices=jax.devices()))
        return contextlib.nullcontext()
    import tensorflow as tf

    processor = tf.config.list_physical_devices("CPU")[0]
    logical = [tf.config.LogicalDeviceConfiguration()] * 2
    tf.config.set_logical_device_configuration(processor, logical)
    reduction = tf.distribute.ReductionToOneDevice()
    devices = ["/device:CPU:0", "/device:CPU:1"]
    strategy = tf.distribute.MirroredStrategy(devices, cross_device_ops=reduction)
    scope: contextlib.AbstractContextManager[Any] = strategy.scope()
    return scope


@contextlib.contextmanager
def steps_counted() -> Iterator[list[int]]:
    """Yields a list to which each epoch that `fit` trains in the block adds its steps."""
    import keras

    steps: list[int] = []
    fit = keras.Model.fit

    class Steps(keras.callbacks.Callback):  # type: ignore[misc]  # Keras has no types
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            self.last = batch

        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            of_epoch = self.params["steps"]  # the last execution may have fewer than the others
            steps.append(min(self.last + 1, of_epoch or self.last + 1))

    def fit_and_count(model: Any, *arguments: Any, **options: Any) -> Any:
        return fit(model, *arguments, **options, callbacks=[Steps()])

    keras.Model.fit = fit_and_count
    try:
        yield steps
    finally:
        keras.Model.fit = fit


def in_child(function: Callable[..., Any], *arguments: Any) -> Any:
    """Returns what a function returns in a process of its own, or what it raised.

    Of a TfbenchError its text alone. Random numbers of a framework hang on all that its process did before.
    """
    context = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        try:
            return pool.submit(call, function, *arguments).result()
        except Exception as error:  # Keras raises what it likes
            return error


def call(function: Callable[..., Any], *arguments: Any) -> Any:
    from tfbench.errors import TfbenchError

    try:
        return function(*arguments)
    except TfbenchError as error:
        return str(error)


def try_program(name: str, strategy: str) -> dict[str, Any]:
    """Trains a program both ways, following the advice of errors; returns what came of it."""
    overrides: dict[str, Any] = {}
    followed: list[str] = []
    while True:
        found = in_child(train_by_tfbench, name, strategy, overrides)
        if not isinstance(found, str):
            break
        advice = find_advice(found)
        if not advice or advice[0] in overrides or len(followed) == MOST_ADVICE:
            return {"name": name, "outcome": "refused", "why": found.splitlines()[0]}
        overrides[advice[0]] = advice[1]
        followed.append(f"{advice[0]}={advice[1]}")
    rounding = ROUNDING if strategy == "mirrored" else 0.0
    differences: list[str] = []
    for number in range(MOST_FITS):
        expected = in_child(train_by_fit, name, strategy)
        if isinstance(expected, Exception):
            why = f"{type(expected).__name__}: {str(expected).splitlines()[0]}"
            return {"name": name, "outcome": "fit fails", "why": why, "followed": followed}
        if isinstance(found, Exception):
            return {"name": name, "outcome": "failed", "why": repr(found)}
        differences = list_differences(found, expected, rounding)
        if not differences:
            why = f"plain fit had other results in {number} of {number + 1} runs" if number else ""
            return {"name": name, "outcome": "equal", "why": why, "followed": followed}
    return {"name": name, "outcome": "differs", "why": "; ".join(differences)}


def find_advice(message: str) -> tuple[str, Any] | None:
    """Returns the key of [training] that an error advises first, and its value."""
    if size := re.search(r"--global-batch-size (\d+)", message):
        return "global_batch_size", int(size[1])
    if setting := re.search(r"--set training\.(\w+)=(\w+)", message):
        value = setting[2]
        return setting[1], int(value) if value.isdigit() else value
    return None


def list_differences(found: Any, expected: Any, rounding: float, where: str = "") -> list[str]:
    """Returns where two structures of numbers and texts differ, a few of the places."""
    if isinstance(expected, dict) and isinstance(found, dict):
        places = []
        for key in sorted({*found, *expected}):
            if key not in found or key not in expected:
                side = "fit" if key in expected else "tfbench"
                places.append(f"{where}{key}: of {side} alone")
                continue
            places += list_differences(found[key], expected[key], rounding, f"{where}{key}.")
        return places
    if isinstance(expected, list) and isinstance(found, list):
        if len(found) != len(expected):
            return [f"{where}: {len(found)} of tfbench, {len(expected)} of fit"]
        for index, (one, other) in enumerate(zip(found, expected, strict=True)):
            if places := list_differences(one, other, rounding, f"{where}{index}."):
                return places[:1]
        return []
    is_number = isinstance(expected, int | float) and isinstance(found, int | float)
    if is_number and abs(found - expected) <= rounding * max(1.0, abs(expected)):
        return []
    return [] if found == expected else [f"{where[:-1]}: tfbench {found}, fit {expected}"]


def print_table() -> None:
    """Tries all programs on all backends, and prints a table in Markdown.

    A backend's Python is the one that PYTHON_TENSORFLOW, PYTHON_JAX or PYTHON_TORCH names, or this.
    """
    columns: dict[str, dict[str, str]] = {}
    for backend in BACKENDS:
        python = os.environ.get(f"PYTHON_{backend.upper()}", sys.executable)
        chosen = [name for name in names() if backend in backends_of(name)]
        for strategy in STRATEGIES_OF[backend]:
            cells = columns[f"{backend} {strategy}"] = {}
            for outcome in try_in_process(python, backend, strategy, *chosen):
                why = f": {outcome['why']}" if outcome["why"] else ""
                cells[outcome["name"]] = outcome["outcome"] + why
    lines = [f"| program | {' | '.join(columns)} |", "| --- " * (len(columns) + 1) + "|"]
    for name in names():
        cells_of_row = [cells.get(name, "-") for cells in columns.values()]
        lines.append(f"| {name} | {' | '.join(cells_of_row)} |")
    sys.stdout.write("\n".join(lines) + "\n")


def try_in_process(
    python: str, backend: str, strategy: str, *chosen: str
) -> Iterator[dict[str, Any]]:
    """Yields what came of each program, all of which a process of its own tries in turn."""
    command = [python, __file__, strategy, *chosen]
    environment = {**os.environ, "KERAS_BACKEND": backend}
    missing = list(chosen)
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        limit = threading.Timer(SECONDS * len(chosen), process.kill)
        limit.start()
        for line in process.stdout:
            if line.startswith('{"name"'):
                outcome = json.loads(line)
                missing.remove(outcome["name"])
                yield outcome
        limit.cancel()
    for name in missing:
        why = f"the process for {strategy} ended with {process.returncode}"
        yield {"name": name, "outcome": "failed", "why": why}


def main(what: str, *chosen: str) -> None:
    if what == "table":
        print_table()
        return
    import keras  # noqa: F401 - once for all children

    for name in chosen:
        sys.stdout.write("\n" + json.dumps(try_program(name, what)) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
