"""Where a step's time goes on a GPU: phases that add up, and kernels at their own length."""

from typing import Any

import pytest

from gpu_machine import DEVICE, NAME, ON_BACKEND, REHEARSAL, TITLE, run_json, show
from tfbench.recipe.backend_support import COMPILERS, why_untraceable

pytestmark = pytest.mark.gpu
of_a_trace = pytest.mark.skipif(NAME == "jax", reason=f"tfbench reads no trace of {TITLE}'s")

# A step that the host's part is most of, and one that the GPU's is: 8192 samples of 20 million
# weights.
CASES = {"short": "mnist_mlp"}
if not REHEARSAL:
    CASES["long"] = "mnist_mlp --global-batch-size 8192 --set model.hidden_units=[4000,4000]"


@pytest.fixture(scope="module", params=CASES, ids=str)
def document(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    words = f"profile {CASES[request.param]} --data synthetic --devices {DEVICE} --seconds 4"
    if not why_untraceable(NAME, COMPILERS[NAME][0]):
        words += " --trace"
    return run_json(*words.split(), *ON_BACKEND, cwd=tmp_path_factory.mktemp("profile"))


def test_phases_add_up_to_the_step_and_none_is_negative(document: Any) -> None:
    step = document["profile"]["step"]
    half_width = step["difference_half_width"]
    show(
        f"a step of {step['full_seconds']} s",
        *step["phases"],
        f"the sum less the step: {step['difference_seconds']} s +- {half_width}",
        *document["profile"]["warnings"],
    )
    # Phases are calls that wait for the device each; steps of a training do not, so that they may
    # be shorter.
    assert step["sum_seconds"] >= 0.99 * step["full_seconds"] - 2 * half_width
    if REHEARSAL:
        assert abs(step["difference_seconds"]) <= max(0.5 * step["full_seconds"], 2 * half_width)
    negative = [one["name"] for one in step["phases"] if one["high"] < 0]
    assert negative == []


@of_a_trace
def test_a_gpu_s_kernels_are_taken_at_their_own_length_not_scaled_by_the_host_s_slow_down(
    document: Any,
) -> None:
    step = document["profile"]["step"]
    readings = document["profile"]["readings"]
    traced = [one["traced"]["update"] for one in readings["rounds"]]
    assert all(one["on_device"] is not REHEARSAL for one in traced)
    in_layers = 0.0
    for layer in step["layers"]:
        in_layers += layer["forward"]["seconds"] + layer["backward"]["seconds"]
    kernels = [sum(one["parts"].values()) - one["parts"].get("other", 0.0) for one in traced]
    others = sum(step["loss_seconds"].values()) + (step["optimizer_seconds"] or 0.0)
    show(
        f"layers {in_layers} s, loss and optimizer {others} s",
        f"kernels of traced steps: {kernels}",
        *step["layers"],
    )
    assert in_layers > 0
    if not REHEARSAL:
        assert 0.9 * min(kernels) <= in_layers + others <= 1.1 * max(kernels)


@of_a_trace
def test_operations_of_a_step_take_no_longer_than_it(document: Any) -> None:
    readings = document["trace"]["readings"]
    operations = readings["operations"]
    busy = sum(one["own_seconds"] for one in operations)
    title = f"a traced step of {readings['traced_step_seconds']} s, operations of {busy} s"
    show(title, *operations[:12])
    assert operations
    if NAME == "tensorflow":
        assert any("MatMul" in one["kind"] for one in operations)
    assert busy <= 1.02 * readings["traced_step_seconds"]
