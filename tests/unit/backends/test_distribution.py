import os
import types
from typing import Any
from unittest import mock

import keras
import pytest
import tensorflow as tf

from builders import build_placement
from kinds import Fields
from tfbench.backends.device_choice import choose_devices, require_possible
from tfbench.backends.profiling import TracedOperation
from tfbench.backends.tensorflow import backend, placement, several_workers
from tfbench.backends.tensorflow.device_watch import verify_placement
from tfbench.backends.tensorflow.placement import ResolvedDistribution, feed_alike, resolve
from tfbench.errors import DeviceError, MeasurementError
from tfbench.machine.environment import cpu_model
from tfbench.recipe.device_names import Device, parse_devices
from tfbench.recipe.sections import DistributionConfig, TrainingConfig

ONE = ("cpu:0",)
TWO = ("cpu:0", "cpu:1")
THREE = ("cpu:0", "cpu:1", "cpu:2")


def config(strategy: str, *devices: str, **values: str) -> DistributionConfig:
    return DistributionConfig(strategy=strategy, devices=devices, **values)


def training(batch: int = 128, **values: object) -> TrainingConfig:
    return TrainingConfig(global_batch_size=batch, epochs=1, **values)


@pytest.fixture(autouse=True)
def _restore_visible_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")


# Strategy, devices, what else is asked for, and what is said.
REJECTED = [
    ("mirrored", ("tpu:0",), {}, "must be cpu, cpu:N, gpu or gpu:N. Received: 'tpu:0'."),
    ("mirrored", ("cpu:64",), {}, "devices: cpu:0 to cpu:63. Received: 'cpu:64'."),
    ("mirrored", ("cpu", "cpu:0"), {}, "each may be named once. Received: cpu, cpu:0."),
    ("mirrored", ("cpu:0", "gpu:0"), {}, "devices: must not mix CPU and GPU."),
    ("mirrored", ("gpu", "gpu:0"), {}, "so it stands alone; name them as gpu:0,gpu:2"),
    ("one_device", TWO, {}, "strategy one_device takes one device. Received: cpu:0, cpu:1."),
    ("default", ("cpu:1",), {}, "strategy default always places on cpu:0. Received: cpu:1."),
    ("mirrored", THREE, {"batch": 100}, "Received: 100 with 3 replicas. Use 99 or 102."),
    ("mirrored", THREE, {"batch": 2}, "Received: 2 with 3 replicas. Use 3."),
    ("mirrored", TWO, {"validation_batch_size": 9}, "Received: 9 with 2 replicas. Use 8 or 10."),
    ("mirrored", TWO, {"compiler": "xla"}, "XLA cannot compile a step over several replicas"),
    ("one_device", ("cpu:1",), {"compiler": "xla"}, "XLA compiles for cpu:0 only"),
    ("mirrored", TWO, {"ops": "nccl"}, "between GPUs only. Use reduction_to_one_device."),
    ("multi_worker", TWO, {}, "takes one device per worker on TensorFlow: cpu:0, or a GPU. Rec"),
    ("multi_worker", ("cpu:3",), {}, "cpu:0, or a GPU. Received: cpu:3."),
    ("multi_worker", ONE, {"ops": "reduction_to_one_device"}, "needs several devices in one"),
    ("multi_worker", ONE, {"precision": "mixed_float16"}, "skips a step if its gradients overflow"),
    ("multi_worker", ONE, {"compiler": "xla"}, "XLA cannot compile a step over several workers"),
]


@pytest.mark.parametrize(("strategy", "devices", "options", "message"), REJECTED)
def test_rejects_what_devices_cannot_do(
    strategy: str, devices: tuple[str, ...], options: Fields, message: str
) -> None:
    values = dict(options)
    asked = config(strategy, *devices, cross_device_ops=values.pop("ops", "auto"))
    how = training(values.pop("batch", 128), **values)
    with pytest.raises(DeviceError) as caught:
        require_possible(asked, how)
        several_workers.require_fitting(parse_devices(asked), asked, how)
    assert message in str(caught.value)


# Strategy, devices, GPUs that are seen, and what is chosen, or said.
CHOSEN = [
    ("default", (), 2, "gpu:0"),
    ("mirrored", (), 2, "gpu:0 gpu:1"),
    ("mirrored", (), 0, "cpu:0"),
    ("mirrored", ("gpu",), 2, "gpu:0 gpu:1"),
    ("default", ("gpu:1",), 2, "gpu:1"),
    ("mirrored", TWO, 2, "cpu:0 cpu:1"),
    ("default", ("gpu:7",), 2, "gpu:7: not found. TensorFlow sees: cpu:0, gpu:0, gpu:1. `tfb"),
    ("mirrored", ("gpu",), 0, "gpu: not found. TensorFlow sees: cpu:0."),
    ("default", ("gpu",), 2, "devices: 'gpu' means every GPU, here gpu:0, gpu:1, and strategy"),
    ("multi_worker", ("gpu:0", "gpu:1"), 2, "gpu:0 gpu:1"),  # which `several_workers` rejects
]


@pytest.mark.parametrize(("strategy", "devices", "num_gpus", "expected"), CHOSEN)
def test_devices_are_chosen_among_those_that_are_seen(
    strategy: str, devices: tuple[str, ...], num_gpus: int, expected: str
) -> None:
    gpus = tuple(Device("gpu", index) for index in range(num_gpus))
    asked = config(strategy, *devices)
    try:
        chosen = choose_devices(asked, training(), gpus, takes_all=strategy == "mirrored")
        found = " ".join(map(str, chosen))
    except DeviceError as error:
        found = str(error)[: len(expected)]
    assert found == expected


def test_a_processors_placement_names_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placement, "list_gpus", lambda: ("H100",))
    monkeypatch.setattr(placement, "_configure", lambda _: {"cpu:0": "/device:CPU:0"})
    monkeypatch.setattr(placement, "feed_alike", lambda *_: "direct")
    assert resolve(config("default", "cpu:0"), training()).placement.hardware == (cpu_model(),)


def test_a_worker_must_know_which_it_is() -> None:
    with pytest.raises(DeviceError, match="takes a process for each worker"):
        resolve(config("multi_worker", "cpu:0"), training())


def verify(kind: str, task: int, *nodes: tuple[str, str]) -> None:
    """Verifies a network with one weight, which is on the first CPU or GPU of a worker."""
    device = f"/device:{kind}:0"
    weight = types.SimpleNamespace(value=types.SimpleNamespace(device=full_name(kind, task)))
    model = types.SimpleNamespace(
        variables=[weight],
        trainable_variables=[weight],
        optimizer=types.SimpleNamespace(variables=[]),
    )
    placement = build_placement(devices=(f"{kind.lower()}:0",))
    placed = ResolvedDistribution(placement, (device,), None, task=f"/task:{task}/")
    verify_placement(placed, model, [(full_name(kind, task), "MatMul"), *nodes])


def full_name(kind: str, task: int) -> str:
    return f"/job:worker/replica:0/task:{task}/device:{kind}:0"


def test_a_device_of_another_worker_is_not_taken_for_ones_own() -> None:
    verify("CPU", 1)
    other = full_name("CPU", 11)
    with pytest.raises(MeasurementError, match=f"ran on {other}, cpu:0 instead of cpu:0"):
        verify("CPU", 1, (other, "MatMul"))


def test_what_a_step_computes_on_the_host_instead_of_a_gpu_is_found() -> None:
    host = full_name("CPU", 0)
    verify("GPU", 0, (host, "Identity"))
    with pytest.raises(MeasurementError, match=r"^MatMul of the training step ran on cpu:0"):
        verify("GPU", 0, (host, "MatMul"))


@pytest.mark.parametrize(("kind", "is_allowed"), [("cpu", False), ("gpu", True)])
def test_on_a_processor_tensorflow_takes_no_other_device_than_the_one_named(
    monkeypatch: pytest.MonkeyPatch, kind: str, is_allowed: bool
) -> None:
    allowed = [True]  # as TensorFlow begins
    own = mock.Mock(set_soft_device_placement=allowed.append)
    own.list_physical_devices.return_value = [kind]
    monkeypatch.setattr(placement, "tf", mock.Mock(config=own))
    placement._configure([Device(kind, 0)])
    assert allowed[-1] is is_allowed


def test_all_exchanges_of_a_trace_count(monkeypatch: pytest.MonkeyPatch) -> None:
    kinds = ["CollectiveReduceV2", "NcclAllReduce", "MatMul"]
    operations = [TracedOperation(0, 2 * 10**12, "", kind) for kind in kinds]
    trace = types.SimpleNamespace(operations=operations)
    monkeypatch.setattr(backend.op_trace, "trace", lambda work: trace)
    monkeypatch.setattr(backend.BACKEND, "list_gpus", lambda: ("H100", "H100"))
    assert backend.BACKEND.trace_exchange(lambda: None) == pytest.approx(2.0)


@pytest.mark.parametrize(
    ("devices", "visible"), [(ONE, "-1"), ((), "0"), (("gpu",), "0"), (("gpu:0",), "0")]
)
def test_a_run_on_the_cpu_alone_hides_the_gpus_before_tensorflow_starts(
    devices: tuple[str, ...], visible: str
) -> None:
    require_possible(config("default", *devices), training())
    assert os.environ["CUDA_VISIBLE_DEVICES"] == visible


@pytest.mark.parametrize(
    "build",
    [
        tf.distribute.get_strategy,
        lambda: tf.distribute.OneDeviceStrategy("/cpu:0"),
        lambda: tf.distribute.MirroredStrategy(["/cpu:0"]),
    ],
)
def test_on_a_processor_a_batch_is_taken_from_the_pipeline_itself(
    build: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    strategy = build()
    own = strategy.experimental_distribute_dataset
    monkeypatch.setattr(strategy, "experimental_distribute_dataset", own)  # put back afterwards
    assert feed_alike(strategy, ["/device:CPU:0"]) == "direct"
    batches = tf.data.Dataset.range(50).batch(8)
    assert strategy.experimental_distribute_dataset(batches) is batches


def test_several_replicas_are_fed_by_tensorflow() -> None:
    strategy = tf.distribute.MirroredStrategy(["/cpu:0"])
    own = strategy.experimental_distribute_dataset
    assert feed_alike(strategy, ["/device:GPU:0", "/device:GPU:1"]) == "split"
    assert strategy.experimental_distribute_dataset == own


@pytest.mark.advice("Use Keras 3.15")
def test_a_keras_that_cannot_train_over_workers_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(several_workers.trainer, "reduce_per_replica", len)  # put back afterwards
    several_workers.fit_over_workers(keras.Sequential())  # of a Keras that has it
    monkeypatch.delattr(several_workers.trainer, "reduce_per_replica")
    with pytest.raises(MeasurementError, match=r"Use Keras 3\.15\."):
        several_workers.fit_over_workers(keras.Sequential())
