"""JAX and PyTorch as back ends, in a process that trains with one of them: `KERAS_BACKEND=jax pytest FILE`."""

import functools
import importlib.util
import itertools
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import first_steps
from builders import build_request
from tfbench import backends
from tfbench.backends import peak
from tfbench.datasets.sources.splits import RecordSplit, Splits
from tfbench.errors import DatasetError, DeviceError, MeasurementError, RecipeError
from tfbench.recipe.files import find_recipe, load_recipe
from tfbench.recipe.sections import DistributionConfig, MeasurementConfig, Recipe
from tfbench.records.journal import Journal
from tfbench.records.run import StepSpan
from tfbench.worker import benchmark
from tfbench.worker.compiled_model import build_compiled_model
from tfbench.worker.ledger import Ledger
from tfbench.worker.recorder import SpanClock, build_callbacks

NAME = os.environ.get("KERAS_BACKEND", "tensorflow")
pytestmark = pytest.mark.skipif(NAME == "tensorflow", reason="the process trains with TensorFlow")
NAP_SECONDS = 0.02
BATCH = 8


def load(**values: Any) -> Recipe:
    small = {"training.backend": NAME, "dataset.data": "synthetic", "model.hidden_units": [8]}
    return load_recipe(find_recipe("mnist_mlp"), small | values)


def resolve(recipe: Recipe, *devices: str) -> Any:
    return backends.current().placement.resolve(DistributionConfig(devices=devices), recipe.training)


def batches() -> Any:
    rng = np.random.default_rng(0)
    batch = rng.normal(size=(BATCH, 4)).astype(np.float32), rng.integers(0, 3, BATCH)
    yield from itertools.repeat(batch)


def slow_model(**compiled: Any) -> Any:
    """Builds a network whose step takes a nap on the device: the host gives it out, and the result comes later."""
    import keras

    class Nap(keras.layers.Layer):
        def call(self, inputs: Any) -> Any:
            return nap(inputs)

    inputs = keras.Input((4,))
    model = keras.Model(inputs, keras.layers.Dense(3)(Nap()(inputs)))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer=keras.optimizers.SGD(0.01), loss=loss, **compiled)
    return model


def nap(inputs: Any) -> Any:
    """Returns its inputs after a nap in the computation itself; gradients pass as if it were not there."""
    if NAME == "torch":
        if str(inputs.device.type) != "meta":
            time.sleep(NAP_SECONDS)
        return inputs
    import jax

    def sleep(values: Any) -> Any:
        time.sleep(NAP_SECONDS)
        return np.asarray(values)

    shape = jax.ShapeDtypeStruct(inputs.shape, inputs.dtype)
    slept = jax.pure_callback(sleep, shape, jax.lax.stop_gradient(inputs))
    return inputs + jax.lax.stop_gradient(slept - inputs)


@pytest.mark.parametrize("steps_per_execution", [1, 3] if NAME == "jax" else [1])
def test_a_nap_in_the_step_is_in_the_span(steps_per_execution: int) -> None:
    spans: list[StepSpan] = []
    ledger = Ledger(time.perf_counter_ns())
    model = slow_model(jit_compile=NAME == "jax", steps_per_execution=steps_per_execution)
    clock = SpanClock(
        MeasurementConfig(warmup_steps=3, clock="step"),
        synchronize=backends.current().placement.synchronize,
        on_span=spans.append,
        ledger=ledger,
    )
    callbacks = build_callbacks(
        clock,
        ledger=ledger,
        model=model,
        steps_per_epoch=9,
        global_batch_size=BATCH,
        warmup_steps=3,
        on_epoch=lambda record: False,
        on_first_step=lambda: None,
    )
    model.fit(batches(), epochs=1, steps_per_epoch=9, callbacks=callbacks, shuffle=False, verbose=0)
    assert sum(span.num_steps for span in spans) == 9
    assert all(span.seconds >= span.num_steps * NAP_SECONDS for span in spans[1:])


@pytest.mark.skipif(NAME != "jax", reason="PyTorch returns from a step on the processor when it is done")
def test_jax_returns_before_a_step_is_done_and_is_waited_for() -> None:
    import jax

    matrix = np.ones((1000, 1000), np.float32)
    products = jax.jit(lambda values: jax.lax.fori_loop(0, 20, lambda _, product: values @ product, values))
    jax.block_until_ready(products(matrix))
    result = products(matrix)
    assert not result.is_ready()
    backends.current().placement.synchronize()
    assert result.is_ready()


def test_an_absent_device_is_an_error_and_never_another_one() -> None:
    recipe = load()
    with pytest.raises(DeviceError, match=r"^gpu:7: not found\. (JAX|PyTorch) sees: cpu:0\."):
        resolve(recipe, "gpu:7")
    assert resolve(recipe, "cpu:0").placement.devices == ("cpu:0",)
    assert resolve(recipe).placement.num_replicas == 1


def test_the_gpus_that_are_not_asked_for_are_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    require = backends.current().placement.require_possible
    for variable in ("CUDA_VISIBLE_DEVICES", "JAX_PLATFORMS"):
        monkeypatch.setenv(variable, "")
    training = load().training
    for devices, seen, visible in (
        (("cpu:0",), None, "-1"),
        (("gpu:1",), None, "1"),
        (("gpu:1",), "4,6", "6"),
        ((), None, "0"),
        ((), "4,6", "4"),
        ((), "", ""),
    ):
        if seen is None:
            monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        else:
            monkeypatch.setenv("CUDA_VISIBLE_DEVICES", seen)
        require(DistributionConfig(devices=devices), training)
        assert os.environ["CUDA_VISIBLE_DEVICES"] == visible
    for seen in ("4", "", "-1", "0,-1,2"):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", seen)
        with pytest.raises(DeviceError, match=rf"^gpu:1: not found\. CUDA_VISIBLE_DEVICES is '{seen}'\.$"):
            require(DistributionConfig(devices=("gpu:1",)), training)


def test_strategies_of_tensorflow_are_refused() -> None:
    require = backends.current().placement.require_possible
    for strategy in ("one_device", "mirrored"):
        with pytest.raises(
            DeviceError, match=rf"^strategy {strategy}: is one of TensorFlow's\. Received: backend {NAME}"
        ):
            require(DistributionConfig(strategy=strategy, devices=("cpu:0",)), load().training)


@pytest.mark.parametrize("values", [{"training.data_on_device": True}, {"training.compiler": "graph"}])
def test_what_a_back_end_cannot_do_is_refused_as_the_recipe_is_read(values: dict[str, Any]) -> None:
    with pytest.raises(RecipeError, match=f"backend {NAME}"):
        load(**values)


@pytest.mark.filterwarnings("ignore")  # of PyTorch's compiler
@pytest.mark.skipif(NAME != "torch", reason="of PyTorch's compiler")
def test_a_step_that_is_to_be_compiled_is_while_it_is_watched_or_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    import keras
    import torch
    from torch._dynamo.utils import counters

    def train() -> Any:
        torch._dynamo.reset()
        counters.clear()
        model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3)])
        model.compile(optimizer="sgd", loss="mean_squared_error", jit_compile=True)
        with backends.current().placement.watch() as watch:
            model.train_on_batch(np.ones((BATCH, 4), np.float32), np.ones((BATCH, 3), np.float32))
            watch.verify(resolve(load(), "cpu:0"), model)

    # What is asked is whether steps are captured for a compiler, not what that makes of them, which takes a minute.
    monkeypatch.setattr(torch, "compile", functools.partial(torch.compile, backend="eager"))
    train()
    assert counters["stats"]["unique_graphs"] > 0
    monkeypatch.setattr(torch._dynamo.config, "disable", True)
    with pytest.raises(MeasurementError, match=r"torch\.compile compiled nothing of the first step"):
        train()


@pytest.mark.parametrize("compiler", ["xla", "eager"] if NAME == "jax" else ["eager"])
def test_settings_are_read_back(compiler: str) -> None:
    recipe = load(**{"training.compiler": compiler})
    first_steps.set_up(recipe)
    model = build_compiled_model(recipe.model, recipe.training, first_steps.describe(recipe))
    settings = backends.current().settings.read_settings(model, recipe.training)
    assert (settings.backend, settings.compiler, settings.precision) == (NAME, compiler, "float32")
    assert (settings.steps_per_execution, settings.visible_gpus) == (1, ())
    assert backends.current().settings.process_wide_settings()


def test_arrays_elsewhere_than_asked_for_end_a_run() -> None:
    recipe = load()
    first_steps.set_up(recipe)
    model = build_compiled_model(recipe.model, recipe.training, first_steps.describe(recipe))
    inputs, labels = np.zeros((BATCH, 28, 28, 1), np.float32), np.zeros(BATCH, np.int64)
    placed = resolve(recipe, "cpu:0")
    with backends.current().placement.watch() as watch:
        model.train_on_batch(inputs, labels)
        watch.verify(placed, model)
    elsewhere = type(placed)(placed.placement, ("gpu:0",))
    with backends.current().placement.watch() as watch:
        model.train_on_batch(inputs, labels)
        with pytest.raises(MeasurementError, match=r" on cpu, asked for was cpu:0\.$"):
            watch.verify(elsewhere, model)


def test_the_peak_is_that_of_the_products_that_were_computed() -> None:
    kernels = backends.current().kernels
    run = kernels.build_products(("cpu:0",), (8, 4, 6), "bfloat16", 3)
    run(2)
    kernels.build_additions(("cpu:0",), 1000, 2)(2)
    check = peak.measure_peak(kernels, ("cpu:0",), "float32", seconds=0.0, own_sizes=(64, 64, 64))
    assert check.flops_per_second > 0


def test_memory_that_could_not_be_had_is_told_from_other_errors() -> None:
    explain = backends.current().memory.explain_exhaustion
    assert explain(ValueError("a shape")) is None
    error: Exception
    if NAME == "jax":
        import jax

        error = jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 5 bytes.")
    else:
        import torch

        error = torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 5 bytes.")
    assert explain(error) == str(error)


def test_the_environment_names_the_framework_and_no_other() -> None:
    environment = backends.current().environment.collect_environment()
    assert getattr(environment, NAME)
    assert environment.tensorflow is None


def test_parts_that_a_back_end_lacks_say_so() -> None:
    for part in (backends.resident, backends.tracing, backends.profiling):
        with pytest.raises(DeviceError, match=f"backend {NAME}"):
            part()


def test_data_that_tensorflow_alone_reads_is_refused_before_the_model_is_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def go_on(*_arguments: Any, **_options: Any) -> None:
        pytest.fail("the run went on")

    recipe = load(**{"distribution.devices": ["cpu:0"]})
    records = RecordSplit(records=None, num_samples=1, read=lambda name, contents: None)
    splits = Splits(spec=first_steps.describe(recipe), train=records, validation=records, source="prepared data")
    for variable in ("CUDA_VISIBLE_DEVICES", "JAX_PLATFORMS"):
        monkeypatch.setenv(variable, "")
    monkeypatch.setattr(benchmark, "load_data", lambda *_, **__: splits)
    monkeypatch.setattr(benchmark, "build_compiled_model", go_on)
    journal = Journal(tmp_path / "run.jsonl")
    with pytest.raises(
        DatasetError, match=r"^training\.backend: prepared data are records that TensorFlow alone reads"
    ):
        benchmark.prepare(build_request(recipe=recipe), journal, Ledger(time.perf_counter_ns()), go_on)
    journal.close()


def test_nothing_of_tensorflow_is_needed() -> None:
    if importlib.util.find_spec("tensorflow") is None:
        assert first_steps.begin(first_steps.load_small("mnist_mlp", "own"), num_steps=2)["losses"]
