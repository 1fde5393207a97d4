"""Where a step's time goes on a GPU: phases that add up, and kernels at their own length."""

from typing import Any

import pytest

from gpu_machine import DEVICE, NAME, ON_BACKEND, REHEARSAL, TITLE, run_json, show
from tfbench.recipe.backend_support import COMPILERS, why_untraceable

pytestmark = pytest.mark.gpu
of_a_trace = pytest.mark.skipif(NAME == "jax", reason=f"tfbench reads no trace of {TITLE}'s")

# A step that the host's part is most of, and one that the GPU's is: 8192 samples of 20 million
# weights.
SHORT = ("mnist_mlp",)
LONG = ("mnist_mlp", "--global-batch-size", "8192", "--set", "model.hidden_units=[4000,4000]")
CASES = {"short": SHORT} if REHEARSAL else {"short": SHORT, "long": LONG}


@pytest.fixture(scope="module", params=CASES, ids=str)
def document(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    words = ("--data", "synthetic", "--devices", DEVICE, "--seconds", "4", *ON_BACKEND)
    trace = () if why_untraceable(NAME, COMPILERS[NAME][0]) else ("--trace",)
    return run_json(
        "profile", *CASES[request.param], *words, *trace, cwd=tmp_path_factory.mktemp("profile")
    )


def test_phases_add_up_to_the_step_and_none_is_negative(document: Any) -> None:
    step = document["profile"]["step"]
    half_width = step["difference_half_width"]
    show(
        f"a step of {1e3 * step['full_seconds']:.3f} ms",
        *step["phases"],
        f"the sum less the step: {1e3 * step['difference_seconds']:+.3f} ms +-"
        f" {1e3 * half_width:.3f}",
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
    in_layers = sum(
        layer[one]["seconds"] for layer in step["layers"] for one in ("forward", "backward")
    )
    kernels = [
        sum(seconds for part, seconds in one["parts"].items() if part != "other") for one in traced
    ]
    others = sum(step["loss_seconds"].values()) + (step["optimizer_seconds"] or 0.0)
    show(
        f"layers {1e3 * in_layers:.3f} ms, loss and optimizer {1e3 * others:.3f} ms",
        f"all of them in a traced step: {1e3 * min(kernels):.3f} to {1e3 * max(kernels):.3f} ms of"
        " kernels",
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
    show(
        f"a traced step of {1e3 * readings['traced_step_seconds']:.3f} ms, of which operations"
        f" {1e3 * busy:.3f} ms",
        *(
            f"{1e3 * one['own_seconds']:.3f} ms {one['kind']} {one['name'][-90:]}"
            for one in operations[:12]
        ),
    )
    assert operations
    if NAME == "tensorflow":
        assert any("MatMul" in one["kind"] for one in operations)
    assert busy <= 1.02 * readings["traced_step_seconds"]
