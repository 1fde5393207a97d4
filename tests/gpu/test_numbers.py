"""Whether a GPU computes what the processor does, and in the precision that was asked for.

A loss may differ from that of the processor by a bound. Both compute the same 30 steps of SGD in
float32, from the same weights and the same batches, with TF32 off; they differ by the order of sums
alone. A sum of n terms, rounded at random, is off by 4 sqrt(n) u at most, u = 2^-24 (Higham and
Mary 2019, but for one case in 1,500). The longest sums of an output have 784 terms, those of a
gradient 2,000, one a sample: e = 4 sqrt(2784) u = 1.3e-5 of their size. An error e in every
gradient changes the loss by no more than e times what 30 steps gain, sum(rate |gradient|^2), which
is less than the loss itself; an error e in the outputs changes it by e of its size. Two machines: 4
e = 5e-5 of the loss.

What that is worth, on a processor: float32 and float64 differ by 9e-9 in the mean loss of these
steps and by 6e-8 in the last, a sum forwards and backwards by as much; factors rounded to TF32's 10
bits make it 4e-3 and 1.4e-2. So the bound is 80 times below what TF32 would do, and a thousand
times above what was seen.
"""

import json
import math
import shutil
from functools import cache
from typing import Any

import pytest

import first_steps
from gpu_machine import (
    DEVICE,
    NAME,
    ON_BACKEND,
    STRATEGIES,
    count_gpus,
    of_tensorflow_alone,
    probe,
    run_json,
    show,
)
from tfbench.recipe.backend_support import COMPILERS

pytestmark = pytest.mark.gpu

UNIT = 2.0**-24
BOUND = 4 * 4 * math.sqrt(784 + 2000) * UNIT
# Convolutions by Winograd's method and Fourier transforms lose more: matrices of it for 5x5 kernels
# amplify by about 30 (Lavin and Gray 2016 measured 1.5e-5 in place of 5e-7 of direct sums).
CONVOLUTION_BOUND = 30 * BOUND
# bfloat16 has 8 bits, float16 and TF32 11: a factor is off by 2^-9 or less, and the loss by what 30
# steps make of it. On a processor that was 1.6e-3 and, after the last step, 2.9e-2 for bfloat16,
# 2.4e-4 and 1.9e-2 for float16. A network that does not learn is 0.6 away.
LOW_BOUND = 0.1

SHORT = (
    "run {} --data synthetic --epochs 1 --global-batch-size 2000 --set measurement.checks=false"
    ' --set training.optimizer={{name="sgd",learning_rate={}}}'
)
RECIPE = SHORT.format("mnist_hidden100_mlp", 0.1)
CONVOLUTIONS = SHORT.format("cifar10_lenet5", 0.01)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Returns what trains as it is told, once for all tests, and gives the run's document."""

    @cache
    def train(recipe: str, strategy: str, devices: str, *settings: str) -> Any:
        words = f"{recipe} --strategy {strategy} --devices {devices}".split()
        for setting in settings:
            words += ["--set", setting]
        return run_json(*words, *ON_BACKEND, cwd=tmp_path_factory.mktemp("numbers"))

    return train


def losses(document: Any) -> tuple[float, float]:
    (epoch,) = document["epochs"]
    return epoch["loss"], epoch["val_loss"]


def compare(title: str, found: Any, expected: Any, bound: float) -> None:
    show(
        title,
        f"loss {losses(found)}, expected {losses(expected)}; relative bound {bound:.2g}",
        f"{found['summary']['samples_per_second']:,.0f} samples/s; {found['settings']}",
    )
    assert losses(found) == pytest.approx(losses(expected), rel=bound)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_one_gpu_gives_the_loss_of_the_processor(trained: Any, strategy: str) -> None:
    expected = trained(RECIPE, "default", "cpu:0")
    compare(f"{strategy} {DEVICE}", trained(RECIPE, strategy, DEVICE), expected, BOUND)


@of_tensorflow_alone("mirrored")
@pytest.mark.gpu(2)
def test_all_gpus_give_the_loss_of_the_processor(trained: Any) -> None:
    number = max(number for number in range(1, count_gpus() + 1) if 2000 % number == 0)
    devices = ",".join(f"gpu:{index}" for index in range(number))
    expected = trained(RECIPE, "default", "cpu:0")
    compare(f"mirrored {devices}", trained(RECIPE, "mirrored", devices), expected, BOUND)


def test_convolutions_give_the_loss_of_the_processor(trained: Any) -> None:
    found = trained(CONVOLUTIONS, "default", DEVICE)
    expected = trained(CONVOLUTIONS, "default", "cpu:0")
    compare(f"convolutions, {DEVICE}", found, expected, CONVOLUTION_BOUND)


@pytest.mark.skipif(
    NAME == "torch" and not (shutil.which("cc") or shutil.which("gcc")),
    reason="torch.compile needs a C compiler",
)
def test_with_the_other_compiler_the_loss_is_the_same_and_the_record_says_which(
    trained: Any,
) -> None:
    """Compares each backend's usual compiler setting with another one.

    TensorFlow's graph is held against XLA, JAX's XLA against single operations, PyTorch's
    operations against Inductor.
    """
    usual, other = COMPILERS[NAME][:2]
    first = trained(RECIPE, "default", DEVICE)
    second = trained(RECIPE, "default", DEVICE, f"training.compiler={other}")
    compare(f"compiler {other}, not {usual}", second, first, BOUND)
    assert (first["settings"]["compiler"], second["settings"]["compiler"]) == (usual, other)


@pytest.mark.parametrize(
    ("recipe", "times"),
    [("mnist_mlp", 1), ("mnist_hidden100_rnn", 1), ("cifar10_lenet5", CONVOLUTION_BOUND / BOUND)],
)
def test_a_recipe_begins_as_on_a_processor(recipe: str, times: float) -> None:
    """Expects equal batch and weights, and first losses equal but for rounding.

    They are those of tests/data/first_steps.json, whose bounds stand in
    tests/support/first_steps.py.
    """
    expected = first_steps.read_expected()[f"{recipe} sgd"]
    found = probe("begin", device=DEVICE, recipe=recipe, optimizer="sgd")
    show(f"{recipe} on {found['devices']}", found["losses"], expected["losses"])
    assert found["devices"] == [DEVICE]
    assert first_steps.find_apart(found, expected, times=times) == []


@pytest.mark.parametrize(
    ("setting", "value"),
    [("precision", "mixed_float16"), ("precision", "mixed_bfloat16"), ("tensor_float_32", True)],
)
def test_fewer_bits_are_recorded_and_give_nearly_the_loss_of_float32(
    trained: Any, setting: str, value: Any
) -> None:
    found = trained(RECIPE, "default", DEVICE, f"training.{setting}={json.dumps(value)}")
    compare(f"{setting} {value}", found, trained(RECIPE, "default", DEVICE), LOW_BOUND)
    assert found["settings"][setting] == value
    assert all(math.isfinite(loss) for loss in losses(found))
