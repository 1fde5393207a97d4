"""What tests/gpu ask of TensorFlow: `python gpu_probes.py NAME '{"argument": value}'` prints one line of JSON.

Each probe is a process of its own, which takes hold of the GPU and gives it back at its end.
"""

import ctypes
import json
import os
import re
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from tfbench.backends import peak
from tfbench.backends.tensorflow import kernels, op_trace, placement
from tfbench.machine import gpus
from tfbench.recipe.files import find_recipe, load_recipe
from tfbench.recipe.sections import MeasurementConfig
from tfbench.records.run import StepSpan
from tfbench.worker.ledger import Ledger
from tfbench.worker.process_settings import import_keras, set_process_wide
from tfbench.worker.recorder import SpanClock


def _build(device: str, strategy: str, **training: Any) -> tuple[Any, Any, Any, Any]:
    """Returns a small network as a run builds it: its settings, where it is placed, itself and its batches."""
    recipe = load_recipe(
        find_recipe("mnist_hidden100_mlp"),
        {
            "dataset.data": "synthetic",
            "distribution.strategy": strategy,
            "distribution.devices": [device],
            "training.global_batch_size": 840,  # divides among 1 to 8 replicas
        }
        | {f"training.{name}": value for name, value in training.items()},
    )
    placement.require_possible(recipe.distribution, recipe.training)
    import_keras(recipe)
    set_process_wide(recipe.training)
    resolved = placement.resolve(recipe.distribution, recipe.training)
    from tfbench.backends.tensorflow.input_pipeline import build_training_dataset
    from tfbench.worker.benchmark import load_data
    from tfbench.worker.compiled_model import build_compiled_model

    splits = load_data(recipe.dataset, None, seed=0)
    with resolved.strategy.scope():
        model = build_compiled_model(recipe.model, recipe.training, splits.spec)
    batches = build_training_dataset(splits, global_batch_size=recipe.training.global_batch_size, seed=0)
    return recipe.training, resolved, model, batches


def place(*, device: str, strategy: str) -> dict[str, Any]:
    """Trains one step of a small network, and returns where its weights lie and its products were computed."""
    training, resolved, model, batches = _build(device, strategy)
    import tensorflow as tf

    from tfbench.backends.tensorflow.settings import read_settings

    with placement.DeviceWatch() as watch:
        model.fit(batches, steps_per_epoch=1, epochs=1, shuffle=False, verbose=0)
        nodes = watch.stop()
    placement.verify_placement(resolved, model, nodes)
    copies = [getattr(weight.value, "values", (weight.value,)) for weight in model.trainable_variables]
    return {
        "weights": sorted({copy.device for of_one in copies for copy in of_one}),
        "products": sorted({f"{operation} on {name}" for name, operation in nodes if "MatMul" in operation}),
        "on_host": sorted({operation for name, operation in nodes if "CPU" in name}),
        "feed": resolved.placement.feed,
        "devices": list(resolved.placement.devices),
        "hardware": list(resolved.placement.hardware),
        "addresses": list(read_settings(model, training).gpu_addresses),
        "logical": [one.name for one in tf.config.list_logical_devices()],
    }


def compiled(*, device: str, is_on: bool) -> dict[str, int]:
    """Counts marks of XLA in the trace of some steps, each of which the file holds once, for all events."""
    _, _, model, batches = _build(device, "default", compiler="xla" if is_on else "graph")

    def train() -> None:
        model.fit(batches, steps_per_epoch=3, epochs=1, shuffle=False, verbose=0)

    train()
    with tempfile.TemporaryDirectory() as folder:
        op_trace.trace(train, Path(folder))
        (path,) = Path(folder).rglob("*.xplane.pb")
        contents = path.read_bytes()
    return {mark: contents.count(mark.encode()) for mark in ("hlo_module", "hlo_op")}


def product(*, device: str, size: int) -> dict[str, Any]:
    """Returns how far a product of random matrices is from the true one, with TF32 off as tfbench sets it, and on."""
    recipe = load_recipe(find_recipe("mnist_mlp"))
    set_process_wide(recipe.training)
    import numpy as np
    import tensorflow as tf

    first, second = (np.random.default_rng(seed).normal(size=(size, size)).astype(np.float32) for seed in (1, 2))
    truth = first.astype(np.float64) @ second.astype(np.float64)
    found: dict[str, Any] = {"capability": None}
    if physical := tf.config.list_physical_devices("GPU"):
        found["capability"] = tf.config.experimental.get_device_details(physical[0]).get("compute_capability")
    for name, dtype, is_on in (
        ("TF32 off", "float32", False),
        ("TF32 on", "float32", True),
        ("float16", "float16", False),
        ("bfloat16", "bfloat16", False),
    ):
        if name != "TF32 off":
            tf.config.experimental.enable_tensor_float_32_execution(is_on)
        with tf.device(device):
            result = tf.linalg.matmul(tf.cast(first, dtype), tf.cast(second, dtype))
        error = tf.cast(result, tf.float64).numpy() - truth
        found[name] = float(np.linalg.norm(error) / np.linalg.norm(truth))
    return found


def memory(*, limit_mebibytes: int) -> dict[str, Any]:
    """Allocates what is known under a limit, and returns what the meter of a run makes of it."""
    import tensorflow as tf

    from tfbench.backends.tensorflow.memory import watch_gpus
    from tfbench.machine.usage import UsageMeter

    (gpu, *_) = tf.config.list_physical_devices("GPU")
    limited = tf.config.LogicalDeviceConfiguration(memory_limit=limit_mebibytes)
    tf.config.set_logical_device_configuration(gpu, [limited])
    with tf.device("/device:GPU:0"):
        tf.zeros([1024]).numpy()
        meter = UsageMeter(watch_gpus(("GPU:0",)))
        before = tf.config.experimental.get_memory_info("GPU:0")["current"]
        asked = limit_mebibytes // 4 * 2**20
        array = tf.zeros([asked // 4])
        placement.synchronize()
        del array
        usage = meter.finish()
        start = time.perf_counter()
        try:
            tf.zeros([2 * limit_mebibytes * 2**20 // 4])
            error = ""
        except tf.errors.ResourceExhaustedError as raised:
            error = str(raised).splitlines()[0]
    return {
        "asked": asked,
        "before": before,
        "recorded_peak": usage.peak_gpu_memory_bytes[0],
        "error": error,
        "error_seconds": time.perf_counter() - start,
    }


class _Events:
    """CUDA's own events, on the default stream, recorded while the whole device is idle: the GPU's clock, not ours."""

    def __init__(self) -> None:
        self._cuda = ctypes.CDLL("libcuda.so.1")
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self._do("cuInit", 0)
        self._do("cuDeviceGet", ctypes.byref(device), 0)
        self._do("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)  # which TensorFlow uses, too
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


class _HostEvents:
    """Stands for CUDA's events in a rehearsal."""

    def __init__(self) -> None:
        self._times: list[float] = []

    def record(self) -> None:
        self._times.append(time.perf_counter())

    def seconds(self) -> list[float]:
        return [after - before for before, after in zip(self._times, self._times[1:], strict=False)]


def _build_step(device: str, size: int, least: float) -> tuple[Any, int]:
    """Returns a step of products that takes `least` seconds or more, and how many it is of."""
    import tensorflow as tf

    with tf.device(device):
        matrix = tf.random.stateless_normal([size, size], [0, 1]) * size**-0.5

    def build(chain: int) -> Any:
        @tf.function(jit_compile=False)
        def step() -> Any:
            with tf.device(device):
                result = matrix
                for _ in range(chain):
                    result = tf.linalg.matmul(result, matrix)
                return result[0, 0]

        step().numpy()  # compiles
        return step

    trial, start = build(4), time.perf_counter()
    for _ in range(5):
        trial()
    placement.synchronize()
    each = (time.perf_counter() - start) / 20
    chain = max(2, int(1.2 * least / each) + 1)
    return build(chain), chain


def clock(*, device: str, size: int, step_seconds: float, num_steps: int) -> dict[str, Any]:
    """Times steps by the clock of a run, by CUDA's events and by the kernels that the profiler saw."""
    import tensorflow as tf

    tf.config.experimental.enable_tensor_float_32_execution(False)
    step, chain = _build_step(device, size, step_seconds)
    events = _Events() if "GPU" in device else _HostEvents()
    spans: list[StepSpan] = []

    def on_span(span: StepSpan) -> None:
        spans.append(span)
        events.record()

    ledger = Ledger(time.perf_counter_ns())
    config = MeasurementConfig(warmup_steps=2, min_span_seconds=0.2)
    measured = SpanClock(config, synchronize=placement.synchronize, on_span=on_span, ledger=ledger)
    measured.begin_epoch(1)
    for number in range(num_steps):
        step()
        measured.end_steps(1, ends_epoch=number + 1 == num_steps)
    steady = [span for span in spans if span.first_step > 2]
    took: list[float] = []

    def work() -> None:
        start = time.perf_counter()
        for _ in range(10):
            step()
        placement.synchronize()
        took.append(time.perf_counter() - start)

    placement.synchronize()
    found = op_trace.trace(work)
    kinds: dict[str, int] = {}
    for operation in found.operations:
        kinds[operation.kind] = kinds.get(operation.kind, 0) + 1
    return {
        "products_in_a_step": chain,
        "num_spans": len(steady),
        "step_seconds": sum(span.seconds for span in steady) / sum(span.num_steps for span in steady),
        "span_seconds": [span.seconds for span in steady],
        "event_seconds": events.seconds()[-len(steady) :],
        "traced_seconds": took[0],
        "kernel_seconds": found.active_seconds,
        "on_device": found.on_device,
        "kinds": kinds,
    }


def peaks(*, device: str, precisions: list[str], chains: list[int]) -> dict[str, Any]:
    """Measures the peak as a run does, and the same product in chains of other lengths and sizes."""
    import tensorflow as tf

    tf.config.experimental.enable_tensor_float_32_execution(False)
    found: dict[str, Any] = {"peak": {}, "chains": {}, "sizes": {}}
    for precision in precisions:
        tf.config.experimental.enable_tensor_float_32_execution(precision == "tf32")
        policy = "float32" if precision == "tf32" else precision
        check = peak.measure_peak(kernels, (device,), policy, seconds=1.0)
        found["peak"][precision] = check.flops_per_second
        found["sizes"][precision] = list(check.sizes)
    tf.config.experimental.enable_tensor_float_32_execution(False)
    last = precisions[-1]
    size, dtype = found["sizes"][last][0], peak._COMPUTE_DTYPES[last]
    for chain in chains:
        found["chains"][str(chain)] = _time_chain(device, size, dtype, chain)
    if "GPU" in device:  # on a processor it takes a minute
        found["chains"]["8 of twice the rows"] = _time_chain(device, 2 * size, dtype, 8)
    return found


def _time_chain(device: str, size: int, dtype: str, chain: int) -> float:
    """Returns the operations a second of calls of so many products, in rounds as a peak is measured in."""
    one = peak._build_candidate(kernels, (device,), (size, size, size), dtype, chain=chain)
    one.run(1)
    num_calls = peak._count_calls(one.run, peak._find_least(kernels, (device,)))
    return num_calls * one.flops / min(peak._time(one.run, num_calls) for _ in range(3))


def busy(*, device: str) -> dict[str, Any]:
    """Reads NVML of every GPU before and while this one computes, and what TensorFlow's log says of its address."""
    before = _read_nvml()
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "0"
    kept = os.dup(2)
    with tempfile.TemporaryFile() as log:
        os.dup2(log.fileno(), 2)
        recipe = load_recipe(find_recipe("mnist_mlp"), {"distribution.devices": [device]})
        placement.resolve(recipe.distribution, recipe.training)
        os.dup2(kept, 2)
        log.seek(0)
        words = log.read().decode(errors="replace")
    import tensorflow as tf

    step, _ = _build_step("/device:GPU:0", 4096, 0.02)
    readings: list[dict[str, Any]] = []
    watcher = threading.Thread(target=lambda: (time.sleep(1.5), readings.append(_read_nvml())))
    watcher.start()
    while watcher.is_alive():
        for _ in range(10):
            step()
        placement.synchronize()
    return {
        "before": before,
        "busy": readings[0],
        "tensorflow": sorted(set(map(gpus.read_address, re.findall(r"pci bus id: ([0-9a-fA-F:.]+)", words)))),
        "recorded": list(gpus.find_addresses([one.name for one in tf.config.get_visible_devices("GPU")])),
    }


def _read_nvml() -> dict[str, dict[str, Any]]:
    import pynvml

    pynvml.nvmlInit()
    readings = {}
    for number in range(pynvml.nvmlDeviceGetCount()):
        handle = pynvml.nvmlDeviceGetHandleByIndex(number)
        utilization = gpus._ask(pynvml.nvmlDeviceGetUtilizationRates, handle)
        milliwatts = gpus._ask(pynvml.nvmlDeviceGetPowerUsage, handle)
        readings[gpus.read_address(pynvml.nvmlDeviceGetPciInfo(handle).busId)] = {
            "used_bytes": int(pynvml.nvmlDeviceGetMemoryInfo(handle).used),
            "utilization_percent": utilization and utilization.gpu,
            "clock_mhz": gpus._ask(pynvml.nvmlDeviceGetClockInfo, handle, pynvml.NVML_CLOCK_SM),
            "watts": milliwatts and milliwatts / 1000,
        }
    pynvml.nvmlShutdown()
    return readings


if __name__ == "__main__":
    sys.stdout.write(json.dumps(globals()[sys.argv[1]](**json.loads(sys.argv[2]))) + "\n")
