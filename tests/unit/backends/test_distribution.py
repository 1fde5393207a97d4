import os
import types

import pytest

from builders import build_placement
from tfbench.backends.tensorflow.device_watch import verify_placement
from tfbench.backends.tensorflow.placement import ResolvedDistribution, require_possible, resolve
from tfbench.errors import DeviceError, MeasurementError
from tfbench.recipe.devices import Device, parse_devices, require_usable
from tfbench.recipe.sections import DistributionConfig, TrainingConfig


def config(strategy: str, *devices: str, **values: str) -> DistributionConfig:
    return DistributionConfig(strategy=strategy, devices=devices, **values)


def training(batch: int = 128, **values: object) -> TrainingConfig:
    return TrainingConfig(global_batch_size=batch, epochs=1, **values)


@pytest.fixture(autouse=True)
def _restore_visible_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")


def test_reads_devices_by_kind_and_number() -> None:
    assert parse_devices(config("mirrored", "gpu:0", "GPU:2")) == (Device("gpu", 0), Device("gpu", 2))
    assert parse_devices(config("one_device", "cpu")) == (Device("cpu", 0),)
    assert parse_devices(config("default")) == ()


@pytest.mark.parametrize(
    ("strategy", "devices", "message"),
    [
        ("mirrored", ("tpu:0",), "devices: must be cpu, cpu:N, gpu or gpu:N. Received: 'tpu:0'."),
        ("mirrored", ("cpu:-1",), "devices: must be cpu, cpu:N, gpu or gpu:N. Received: 'cpu:-1'."),
        ("mirrored", ("cpu:64",), "devices: cpu:0 to cpu:63. Received: 'cpu:64'."),
        ("mirrored", ("cpu:1", "cpu:1"), "devices: each may be named once. Received: cpu:1, cpu:1."),
        ("mirrored", ("cpu", "cpu:0"), "devices: each may be named once. Received: cpu, cpu:0."),
        (
            "mirrored",
            ("cpu:0", "gpu:0"),
            "devices: replicas on CPU and GPU at once are not comparable. Received: cpu:0, gpu:0.",
        ),
        (
            "mirrored",
            ("gpu", "gpu:0"),
            "devices: 'gpu' means every GPU, so it stands alone; name them as gpu:0,gpu:2 otherwise.",
        ),
        (
            "one_device",
            ("cpu:0", "cpu:1"),
            "strategy one_device takes one device. Received: cpu:0, cpu:1. Use --strategy mirrored for several.",
        ),
        (
            "default",
            ("cpu:1",),
            "strategy default always places on cpu:0. Received: cpu:1. Use --strategy one_device for it.",
        ),
    ],
)
def test_refuses_devices_that_cannot_be_used(strategy: str, devices: tuple[str, ...], message: str) -> None:
    with pytest.raises(DeviceError) as caught:
        parse_devices(config(strategy, *devices))
    assert str(caught.value) == message


@pytest.mark.parametrize(("batch", "use"), [(100, "99 or 102"), (1, "3"), (2, "3")])
def test_rejects_a_batch_not_divisible_by_the_replicas(batch: int, use: str) -> None:
    with pytest.raises(DeviceError) as caught:
        require_possible(config("mirrored", "cpu:0", "cpu:1", "cpu:2"), training(batch))
    assert str(caught.value) == (
        f"training.global_batch_size: must be divisible by num_replicas. Received: {batch} with 3 replicas. Use {use}."
    )


def test_rejects_a_validation_batch_not_divisible_by_the_replicas() -> None:
    with pytest.raises(
        DeviceError, match=r"^training.validation_batch_size: .* Received: 9 with 2 replicas. Use 8 or 10."
    ):
        require_possible(config("mirrored", "cpu:0", "cpu:1"), training(8, validation_batch_size=9))


def test_rejects_xla_over_several_replicas_and_names_the_cause() -> None:
    with pytest.raises(DeviceError, match=r"^training.compiler: XLA cannot compile a step over several replicas"):
        require_possible(config("mirrored", "cpu:0", "cpu:1"), training(compiler="xla"))
    require_possible(config("mirrored", "cpu:0"), training(compiler="xla"))


def test_rejects_xla_on_a_logical_cpu_device_but_the_first() -> None:
    with pytest.raises(DeviceError, match=r"^training.compiler: XLA compiles for cpu:0 only.* Received: cpu:1\."):
        require_possible(config("one_device", "cpu:1"), training(compiler="xla"))


@pytest.mark.parametrize("count", [3, 5, 7])
@pytest.mark.parametrize(("kind", "use"), [("cpu", ""), ("gpu", "nccl or ")])
def test_rejects_hierarchical_copy_over_an_odd_number_of_replicas(kind: str, use: str, count: int) -> None:
    devices = [f"{kind}:{index}" for index in range(count)]
    with pytest.raises(DeviceError) as caught:
        require_usable(config("mirrored", *devices, cross_device_ops="hierarchical_copy"), training(8 * count))
    assert str(caught.value) == (
        "distribution.cross_device_ops: TensorFlow's hierarchical_copy leaves replicas out of the sum of gradients "
        f"unless their number is even. Received: {count} replicas. Use {use}reduction_to_one_device."
    )


@pytest.mark.parametrize("count", [1, 2, 4])
def test_takes_hierarchical_copy_over_one_or_an_even_number_of_replicas(count: int) -> None:
    devices = [f"cpu:{index}" for index in range(count)]
    require_possible(config("mirrored", *devices, cross_device_ops="hierarchical_copy"), training())


@pytest.mark.parametrize(
    ("devices", "values", "options", "message"),
    [
        (
            ("cpu:0", "cpu:1"),
            {},
            {},
            "takes one device a worker on TensorFlow: cpu:0, or a GPU. Received: cpu:0, cpu:1.",
        ),
        (("cpu:3",), {}, {}, "takes one device a worker on TensorFlow: cpu:0, or a GPU. Received: cpu:3."),
        (("cpu:0",), {"cross_device_ops": "reduction_to_one_device"}, {}, "is of several devices in one process"),
        (("cpu:0",), {}, {"precision": "mixed_float16"}, "leave out the step that the others wait for it in"),
        (("cpu:0",), {}, {"compiler": "xla"}, "XLA cannot compile a step over several workers"),
    ],
)
def test_says_what_several_workers_cannot_do(
    devices: tuple[str, ...], values: dict[str, str], options: dict[str, str], message: str
) -> None:
    with pytest.raises(DeviceError) as error:
        require_possible(config("multi_worker", *devices, **values), training(**options))
    assert message in str(error.value)


def test_a_worker_must_know_which_it_is() -> None:
    with pytest.raises(DeviceError, match="takes a process for each worker"):
        resolve(config("multi_worker", "cpu:0"), training())


@pytest.mark.parametrize(
    ("node", "place"),
    [
        ("/job:worker/replica:0/task:1/device:CPU:0", "cpu:0"),
        ("/job:worker/replica:0/task:11/device:CPU:0", "/job:worker/replica:0/task:11/device:CPU:0"),
    ],
)
def test_a_device_of_another_worker_is_not_taken_for_ones_own(node: str, place: str) -> None:
    model = types.SimpleNamespace(variables=[], trainable_variables=[], optimizer=types.SimpleNamespace(variables=[]))
    placed = ResolvedDistribution(None, build_placement(devices=()), {"/device:CPU:0": "cpu:0"}, task="/task:1/")
    with pytest.raises(MeasurementError, match=f"the training step ran on {place}, asked for was no device"):
        verify_placement(placed, model, [(node, "MatMul")])


def test_rejects_nccl_on_the_cpu() -> None:
    with pytest.raises(DeviceError, match=r"nccl moves data between GPUs only. Use reduction_to_one_device\."):
        require_possible(config("mirrored", "cpu:0", "cpu:1", cross_device_ops="nccl"), training())


def test_a_run_on_the_cpu_hides_the_gpus_before_tensorflow_starts() -> None:
    require_possible(config("one_device", "cpu:0"), training())
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "-1"


@pytest.mark.parametrize("devices", [(), ("gpu",), ("gpu:0",)])
def test_a_run_that_may_use_a_gpu_leaves_them_visible(devices: tuple[str, ...]) -> None:
    require_possible(config("default", *devices), training())
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "0"
