"""What tests/gpu ask of a framework: `python gpu_probes.py NAME '{"argument".

Value}'` prints one line of JSON.

Each probe is a process of its own, which takes hold of the GPU and gives it back at its end. The
backend is that of KERAS_BACKEND, and devices are named as tfbench does: any probe can be tried with
`"device": "cpu:0"`.
"""

import ctypes
import json
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import first_steps
from tfbench import backends
from tfbench.backends import peak
from tfbench.backends.device_choice import require_possible
from tfbench.measure import forks
from tfbench.measure.breakdown import Breakdown
from tfbench.measure.process_settings import import_keras, set_process_wide
from tfbench.measure.span_clock import SpanClock
from tfbench.recipe.files import find_recipe, load_recipe
from tfbench.recipe.sections import MeasurementConfig, Recipe
from tfbench.runs.record import StepSpan


def _load(device: str, name: str = "mnist_hidden100_mlp", **values: Any) -> Recipe:
    common = {
        "dataset.data": "synthetic",
        "training.backend": backends.find_name(),
        "distribution.devices": [device],
    }
    return load_recipe(find_recipe(name), common | values)


def _start(recipe: Recipe) -> Any:
    """Makes the device ready as a run does, and returns it."""
    require_possible(recipe.distribution, recipe.training)
    import_keras(recipe.training.backend)
    set_process_wide(recipe)
    return backends.current().resolve(recipe.distribution, recipe.training)


def _build(device: str, strategy: str, **training: Any) -> tuple[Any, Any, Any, Any]:
    """Returns a small network as a run builds it.

    Its settings, where it is placed, itself and its batches.
    """
    batch = {"training.global_batch_size": 840}  # divides among 1 to 8 replicas
    chosen = {f"training.{name}": value for name, value in training.items()}
    recipe = _load(device, **{"distribution.strategy": strategy}, **batch, **chosen)
    resolved = _start(recipe)
    from tfbench.measure.compiled_model import build_compiled_model
    from tfbench.measure.data import load_data

    splits = load_data(recipe.dataset, None, seed=0)
    with resolved.scope():
        model = build_compiled_model(recipe.model, recipe.training, splits.spec)
    batches = backends.current().build_training_dataset(
        splits, global_batch_size=recipe.training.global_batch_size, seed=0
    )
    return recipe.training, resolved, model, batches


def _devices_of(value: Any) -> list[str]:
    """Returns where a framework says that a value is.

    In TensorFlow's words, or as tfbench names devices.
    """
    if backends.find_name() == "tensorflow":
        return [copy.device for copy in getattr(value, "values", (value,))]
    if backends.find_name() == "jax":
        names = [f"{device.platform}:{device.id}" for device in value.devices()]
    else:
        names = [f"{value.device.type}:{value.device.index or 0}"]
    return [name.replace("cuda", "gpu") for name in names]


def place(*, device: str, strategy: str) -> dict[str, Any]:
    """Trains one step, and returns where weights lie and products were computed.

    The network is a small one.
    """
    training, resolved, model, batches = _build(device, strategy)
    on_host: list[str] = []
    with backends.current().watch() as watch:
        model.fit(batches, steps_per_epoch=1, epochs=1, shuffle=False, verbose=0)
        if backends.find_name() == "tensorflow":
            from tfbench.backends.tensorflow.device_watch import verify_placement

            nodes = watch.stop()
            verify_placement(resolved, model, nodes)
            products = {
                f"{operation} on {name}" for name, operation in nodes if "MatMul" in operation
            }
            on_host = sorted({operation for name, operation in nodes if "CPU" in name})
        else:
            watch.verify(resolved, model)
            inputs, _ = next(batches)
            products = {f"outputs on {one}" for one in _devices_of(model(inputs))}
    settings = backends.current().read_settings(model, training)
    return {
        "weights": sorted(
            {one for weight in model.trainable_variables for one in _devices_of(weight.value)}
        ),
        "products": sorted(products),
        "on_host": on_host,
        "feed": resolved.placement.feed,
        "devices": list(resolved.placement.devices),
        "hardware": list(resolved.placement.hardware),
        "addresses": list(settings.gpu_addresses),
        "visible": list(settings.visible_gpus),
    }


def begin(*, device: str, recipe: str, optimizer: str) -> dict[str, Any]:
    """Returns how a training of a small version of a recipe begins; see `first_steps`."""
    small = first_steps.load_small(recipe, optimizer, **{"distribution.devices": [device]})
    resolved = _start(small)
    return first_steps.begin(small) | {"devices": list(resolved.placement.devices)}


class CudaEvents:
    """CUDA's own events, on the default stream, recorded while the whole device is idle.

    The GPU's clock, not ours.

    They are of the driver's primary context, which every framework uses, too.
    """

    def __init__(self) -> None:
        self._cuda = ctypes.CDLL("libcuda.so.1")
        device = ctypes.c_int()
        context = ctypes.c_void_p()
        self._do("cuInit", 0)
        self._do("cuDeviceGet", ctypes.byref(device), 0)
        self._do("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self._do("cuCtxSetCurrent", context)
        self._events: list[ctypes.c_void_p] = []

    def record(self) -> None:
        """Notes the time once the device has done all that it was given."""
        event = ctypes.c_void_p()
        self._do("cuCtxSynchronize")
        self._do("cuEventCreate", ctypes.byref(event), 0)
        self._do("cuEventRecord", event, None)
        self._do("cuEventSynchronize", event)
        self._events.append(event)

    def seconds(self) -> list[float]:
        """Returns the times between events."""
        found = []
        for first, second in zip(self._events, self._events[1:], strict=False):
            elapsed = ctypes.c_float()
            self._do("cuEventElapsedTime", ctypes.byref(elapsed), first, second)
            found.append(elapsed.value / 1000)
        return found

    def _do(self, name: str, *arguments: Any) -> None:
        if code := getattr(self._cuda, name)(*arguments):
            raise RuntimeError(f"{name}: CUDA error {code}")


class _Step:
    """Products in a row, given to the device and not waited for.

    Results are kept until they are: JAX waits for what is kept alone.
    """

    def __init__(self, call: Callable[[Any], Any], matrix: Any) -> None:
        self._call = call
        self._matrix = matrix
        self._given: list[Any] = []

    def __call__(self) -> None:
        self._given.append(self._call(self._matrix))

    def wait(self) -> None:
        backends.current().synchronize()
        self._given.clear()


def prepare_to_fork() -> dict[str, Any]:
    """Returns what a prepared process has before its first fork.

    Its link is closed already, so that it ends then.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.shutdown(socket.SHUT_WR)
    name = backends.find_name()
    sys.argv[1:] = [str(theirs.detach()), name, "0"]
    forks.main()
    files = [str(file.readlink()) for file in Path("/proc/self/fd").iterdir() if file.exists()]
    modules: Any = sys.modules
    if name == "tensorflow":
        context = modules["tensorflow.python.eager.context"].context_safe()
        is_started = context is not None and context._initialized
    elif name == "jax":
        is_started = modules["jax._src.xla_bridge"].backends_are_initialized()
    else:
        is_started = modules["torch"].cuda.is_initialized()
    return {
        "said": ours.recv(100).decode(),
        "is_started": is_started,
        "gpu_files": [file for file in files if file.startswith("/dev/nvidia")],
        "modules": sorted(sys.modules),
    }


def _build_step(size: int) -> _Step:
    """Returns a step of ten products."""
    from keras import ops

    def multiply(first: Any) -> Any:
        result = first
        for _ in range(10):
            result = ops.matmul(result, first)
        return result

    matrix = ops.convert_to_tensor(
        np.random.default_rng(0).normal(size=(size, size)).astype(np.float32) * size**-0.5
    )
    step = _Step(_as_one_call(multiply), matrix)
    step()  # compiles
    step.wait()
    return step


def _as_one_call(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Returns a function as a training step is made by default."""
    if backends.find_name() == "tensorflow":
        import tensorflow as tf

        return tf.function(function, jit_compile=False)
    if backends.find_name() == "jax":
        import jax

        return jax.jit(function)
    return function


def clock(*, device: str, size: int, num_steps: int) -> dict[str, Any]:
    """Times steps by the clock of a run and by CUDA's events."""
    _start(_load(device))
    step = _build_step(size)
    events = CudaEvents()
    spans: list[StepSpan] = []

    def on_span(span: StepSpan) -> None:
        spans.append(span)
        events.record()

    breakdown = Breakdown(time.perf_counter_ns())
    config = MeasurementConfig(warmup_steps=2, min_span_seconds=0.2)
    measured = SpanClock(config, synchronize=step.wait, on_span=on_span, breakdown=breakdown)
    measured.begin_training()
    measured.begin_epoch(1)
    for number in range(num_steps):
        step()
        measured.end_steps(1, ends_epoch=number + 1 == num_steps)
    steady = [span for span in spans if span.first_step > 2]
    return {
        "step_seconds": (
            sum(span.seconds for span in steady) / sum(span.num_steps for span in steady)
        ),
        "span_seconds": [span.seconds for span in steady],
        "event_seconds": events.seconds()[-len(steady) :],
    }


def peaks(*, device: str, precisions: list[str]) -> dict[str, Any]:
    """Measures the peak as a run does."""
    names = _start(_load(device)).device_names
    found: dict[str, Any] = {"peak": {}, "sizes": {}}
    for precision in precisions:
        with_tf32 = _load(device, **{"training.tensor_float_32": precision == "tf32"})
        backends.current().set_process_wide(with_tf32.training)
        policy = "float32" if precision == "tf32" else precision
        check = peak.measure_peak(names, policy, seconds=1.0)
        found["peak"][precision] = check.flops_per_second
        found["sizes"][precision] = list(check.sizes)
    return found


if __name__ == "__main__":
    sys.stdout.write(json.dumps(globals()[sys.argv[1]](**json.loads(sys.argv[2]))) + "\n")
