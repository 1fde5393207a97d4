"""Networks as users have them train as under plain Keras; `KERAS_BACKEND=jax pytest FILE` on JAX.

Of `own_networks`: a U-Net, two inputs and outputs with weights, a language model, several labels, a
step of one's own.
"""

import functools
import os
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from runs import facts_of

NAME = os.environ.get("KERAS_BACKEND", "tensorflow")
STRATEGIES = ("default",) if NAME == "torch" else ("default", "mirrored")
NETWORKS = ("unet", "two", "language", "labels", "own_step")
LABELS = "d71f33837193"  # the identity of that network, on every backend
ROUNDING = 2e-5  # of a loss, for sums in another order over two replicas; one device: the same bits

pytestmark = pytest.mark.slow


@functools.cache
def trained(strategy: str) -> Any:
    """Returns what `own_networks` prints of all networks, trained in one process."""
    probe = Path(__file__).parents[1] / "support" / "own_networks.py"
    return facts_of(probe, strategy, *NETWORKS, KERAS_BACKEND=NAME)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("name", NETWORKS)
def test_a_compiled_network_has_the_losses_of_plain_keras(name: str, strategy: str) -> None:
    losses = trained(strategy)[name]["losses"]
    plain = trained("default")[name]["plain"]
    tolerance = ROUNDING if strategy == "mirrored" else 1e-6
    assert losses == [pytest.approx(pair, rel=tolerance) for pair in plain]


def test_what_cannot_be_counted_is_left_out() -> None:
    found = trained("default")
    assert found["own_step"]["flops"] is None
    assert all(found[name]["flops"] for name in NETWORKS if name != "own_step")
    assert {"sign_loss", "val_twice_loss"} <= set(found["two"]["metrics"])


@pytest.mark.skipif(NAME != "tensorflow", reason="elsewhere a step is one program for all devices")
def test_a_step_that_may_not_divide_its_loss_by_the_replicas_is_warned_of() -> None:
    found = trained("mirrored")
    assert [name for name in NETWORKS if found[name]["doubt"]] == ["own_step"]
    assert "num_replicas_in_sync" in found["own_step"]["doubt"]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_network_has_one_identity_on_all_backends_and_under_all_strategies(strategy: str) -> None:
    found = {name: trained(strategy)[name]["digest"] for name in NETWORKS}
    assert found == {name: trained("default")[name]["digest"] for name in NETWORKS}
    if version("keras").startswith("3.15."):  # a version that adds a field changes it
        assert found["labels"] == LABELS
