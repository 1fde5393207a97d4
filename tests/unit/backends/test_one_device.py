"""JAX and PyTorch as backends, in a process that trains with one of them.

`KERAS_BACKEND=jax pytest FILE`.
"""

import functools
import itertools
import os
import re
from typing import Any

import numpy as np
import pytest

import first_steps
from device_naps import NAP_SECONDS, build_slow_model
from outcomes import error_of
from prepared import build_readings
from tfbench import backends
from tfbench.backends.device_choice import require_possible
from tfbench.errors import DeviceError, MeasurementError
from tfbench.machine import gpus
from tfbench.machine.energy_counters import addresses_in_use
from tfbench.machine.facts import Gpu
from tfbench.measure.compiled_model import build_compiled_model
from tfbench.measure.recorder import build_callbacks
from tfbench.recipe.files import find_recipe, load_recipe
from tfbench.recipe.sections import DistributionConfig, Recipe

NAME = os.environ.get("KERAS_BACKEND", "tensorflow")
pytestmark = pytest.mark.skipif(NAME == "tensorflow", reason="the process trains with TensorFlow")
BATCH = 8


def load(**values: Any) -> Recipe:
    small = {"training.backend": NAME, "dataset.data": "synthetic", "model.hidden_units": [8]}
    return load_recipe(find_recipe("mnist_mlp"), small | values)


def built(recipe: Recipe) -> Any:
    first_steps.set_up(recipe)
    return build_compiled_model(recipe.model, recipe.training, first_steps.describe(recipe))


def resolve(recipe: Recipe, *devices: str) -> Any:
    return backends.current().resolve(DistributionConfig(devices=devices), recipe.training)


def batches() -> Any:
    rng = np.random.default_rng(0)
    batch = rng.normal(size=(BATCH, 4)).astype(np.float32), rng.integers(0, 3, BATCH)
    yield from itertools.repeat(batch)


@pytest.mark.parametrize("steps_per_execution", [1, 3] if NAME == "jax" else [1])
def test_a_nap_in_the_step_is_in_the_span(steps_per_execution: int) -> None:
    spans = []
    model = build_slow_model(jit_compile=NAME == "jax", steps_per_execution=steps_per_execution)
    readings = build_readings(
        model,
        spans.append,
        measurement={"warmup_steps": 3, "clock": "step"},
        synchronize=backends.current().synchronize,
        steps_per_epoch=9,
    )
    callbacks = build_callbacks(readings)
    model.fit(batches(), epochs=1, steps_per_epoch=9, callbacks=callbacks, shuffle=False, verbose=0)
    assert sum(span.num_steps for span in spans) == 9
    assert all(span.seconds >= span.num_steps * NAP_SECONDS for span in spans[1:])


def show_gpus(monkeypatch: pytest.MonkeyPatch, seen: str | None) -> None:
    """Sets CUDA_VISIBLE_DEVICES, or takes it away.

    What backends set of these variables is put back after the test.
    """
    monkeypatch.setenv("JAX_PLATFORMS", "")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", seen or "")
    if seen is None:
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES")


@pytest.mark.parametrize(
    ("devices", "seen", "visible"),
    [
        (("cpu:0",), None, "-1"),
        (("gpu:1",), None, "1"),
        (("gpu:1",), "4,6", "6"),
        ((), None, "0"),
        ((), "4,6", "4"),
        ((), "", ""),
    ],
)
def test_the_gpus_that_are_not_asked_for_are_hidden(
    monkeypatch: pytest.MonkeyPatch, devices: tuple[str, ...], seen: str | None, visible: str
) -> None:
    monkeypatch.setattr(gpus, "read_gpus", lambda: ())  # a driver that does not answer
    show_gpus(monkeypatch, seen)
    require_possible(DistributionConfig(devices=devices), load().training)
    assert os.environ["CUDA_VISIBLE_DEVICES"] == visible


@pytest.mark.parametrize(
    ("num_gpus", "seen", "device", "told"),
    [
        (2, None, "gpu:7", "This machine has: cpu:0, gpu:0, gpu:1."),
        (2, "1", "gpu:1", "This machine has: cpu:0, gpu:0, as CUDA_VISIBLE_DEVICES is '1'."),
        # of a driver that does not answer
        (0, "4", "gpu:1", "CUDA_VISIBLE_DEVICES is '4'. `tfbench devices` says"),
    ],
)
def test_what_the_machine_has_is_told_and_not_what_is_left_of_it_once_others_are_hidden(
    monkeypatch: pytest.MonkeyPatch, num_gpus: int, seen: str | None, device: str, told: str
) -> None:
    known = (Gpu(name="H100"),) * num_gpus
    monkeypatch.setattr(gpus, "read_gpus", lambda: known)
    show_gpus(monkeypatch, seen)
    with pytest.raises(DeviceError, match=f"^{device}: not found\\. {re.escape(told)}"):
        require_possible(DistributionConfig(devices=(device,)), load().training)
    assert os.environ.get("CUDA_VISIBLE_DEVICES") == seen


def test_an_absent_device_is_an_error_and_never_another_one() -> None:
    with pytest.raises(DeviceError, match=r"^gpu:7: not found\. \w+ sees: cpu:0\. `tfbench dev"):
        resolve(load(), "gpu:7")
    assert resolve(load(), "cpu:0").placement.devices == ("cpu:0",)
    assert resolve(load()).placement.num_replicas == 1


def test_a_gpu_is_the_framework_s_first_once_others_are_hidden(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(backends.current(), "list_gpus", lambda: ("H100",))
    placed = resolve(load(), "gpu:3")
    assert (placed.placement.devices, placed.placement.hardware) == (("gpu:3",), ("H100",))
    assert placed.device_names == placed.gpu_names == ("gpu:0",)
    assert placed.placement.feed == {"jax": "prefetched", "torch": "direct"}[NAME]
    for devices in ((), ("gpu",)):
        assert resolve(load(), *devices).placement.devices == ("gpu:0",)
    monkeypatch.setattr(backends.current(), "list_gpus", lambda: ("H100", "T4"))
    told = error_of(DeviceError, resolve, load(), "gpu")
    assert told.startswith("devices: 'gpu' means every GPU, here gpu:0, gpu:1, and")
    assert told.endswith("mirrored." if NAME == "jax" else "gpu:0.")


@pytest.mark.filterwarnings("ignore")  # of PyTorch's compiler
@pytest.mark.skipif(NAME != "torch", reason="of PyTorch's compiler")
def test_a_step_that_is_to_be_compiled_is_while_it_is_watched_or_ends_the_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import keras
    import torch
    from torch._dynamo.utils import counters

    def train() -> Any:
        torch._dynamo.reset()
        counters.clear()
        model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3)])
        model.compile(optimizer="sgd", loss="mean_squared_error", jit_compile=True)
        with backends.current().watch() as watch:
            model.train_on_batch(np.ones((BATCH, 4), np.float32), np.ones((BATCH, 3), np.float32))
            watch.verify(resolve(load(), "cpu:0"), model)

    # What is asked is whether steps are captured for a compiler, not what that makes of them, which
    # takes a minute.
    monkeypatch.setattr(torch, "compile", functools.partial(torch.compile, backend="eager"))
    train()
    assert counters["stats"]["unique_graphs"] > 0
    told = r"torch\.compile compiled nothing of the first step"
    with torch._dynamo.config.patch(disable=True), pytest.raises(MeasurementError, match=told):
        train()


@pytest.mark.parametrize("compiler", ["xla", "eager"] if NAME == "jax" else ["eager"])
def test_settings_are_read_back(compiler: str) -> None:
    recipe = load(**{"training.compiler": compiler})
    model = built(recipe)
    settings = backends.current().read_settings(model, recipe.training)
    assert (settings.backend, settings.compiler, settings.precision) == (NAME, compiler, "float32")
    assert (settings.steps_per_execution, settings.visible_gpus) == (1, ())
    assert backends.current().process_wide_settings()


def test_arrays_elsewhere_than_asked_for_end_a_run() -> None:
    recipe = load()
    model = built(recipe)
    placed = resolve(recipe, "cpu:0")
    elsewhere = type(placed)(placed.placement, ("gpu:0",))
    with backends.current().watch() as watch:
        model.train_on_batch(np.zeros((BATCH, 28, 28, 1), np.float32), np.zeros(BATCH, np.int64))
        watch.verify(placed, model)
        with pytest.raises(MeasurementError, match=r" on cpu instead of cpu:0\.$"):
            watch.verify(elsewhere, model)


NO_MEMORY = {
    "jax": (
        "RESOURCE_EXHAUSTED: Out of memory allocating 5 bytes.",
        "INTERNAL: failed to load: CUDA_ERROR_OUT_OF_MEMORY: out of memory",
    ),
    "torch": (
        "CUDA out of memory. Tried to allocate 5 bytes.",
        "Allocation on device",  # of CUDA's own allocator
        "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
        "[enforce fail at alloc_cpu.cpp:127] DefaultCPUAllocator: can't allocate memory: you tried",
    ),
}


@pytest.mark.parametrize("text", NO_MEMORY.get(NAME, ()))
def test_memory_that_could_not_be_had_is_told_from_other_errors(text: str) -> None:
    explain = backends.current().explain_out_of_memory
    kind = RuntimeError
    if NAME == "jax":
        import jax

        kind = jax.errors.JaxRuntimeError
    assert explain(kind(text)) == text
    assert explain(ValueError("a shape")) is explain(kind("a shape")) is None


@pytest.mark.parametrize(
    ("text", "bus"), [(None, "b0"), ("2,0,3", "a0"), ("GPU-c,GPU-a,GPU-d", "a0")]
)
def test_the_address_of_a_gpu_is_that_of_the_one_that_is_left_visible(
    monkeypatch: pytest.MonkeyPatch, text: str | None, bus: str
) -> None:
    backend = backends.current()
    recipe = load()
    known = tuple(
        Gpu(name="H100", uuid=f"GPU-{name}", bus_id=f"0000:{name}0:00.0") for name in "abcd"
    )
    show_gpus(monkeypatch, text)
    monkeypatch.setattr(gpus, "read_gpus", lambda: known)
    monkeypatch.setattr(backend, "list_gpus", lambda: ("H100",))
    model = built(recipe)
    require_possible(DistributionConfig(devices=("gpu:1",)), recipe.training)
    placed = resolve(recipe, "gpu:1")
    addresses = backend.read_settings(model, recipe.training).gpu_addresses
    assert addresses_in_use(placed.placement.devices, addresses) == [f"0000:{bus}:00.0"]
