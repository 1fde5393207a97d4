"""Which parts of a network lie along which axis of a mesh, and what cannot be."""

from typing import Any

import pytest

from tfbench.errors import DeviceError, RecipeError
from tfbench.recipe.device_names import Device, find_mesh, require_usable
from tfbench.recipe.mesh import Mesh, lay_out
from tfbench.recipe.sections import DistributionConfig, TrainingConfig

NETWORK = {"fc1/kernel": (72, 16), "fc1/bias": (16,), "fc2/kernel": (16, 10), "fc2/bias": (10,)}


def mesh_of_four(strategy: Any, asked: Any) -> Mesh:
    devices = tuple(Device("cpu", index) for index in range(4))
    return find_mesh(devices, DistributionConfig(strategy=strategy, mesh=asked))


@pytest.mark.parametrize(
    ("strategy", "asked", "mesh"),
    [
        ("mirrored", {}, Mesh(4)),
        ("multi_worker", {}, Mesh(4)),
        ("model", {}, Mesh(1, 4)),
        ("hybrid", {}, Mesh(4)),
        ("hybrid", {"data": 2, "model": 2}, Mesh(2, 2)),
    ],
)
def test_a_strategy_has_a_mesh_unless_the_recipe_names_one(
    strategy: str, asked: Any, mesh: Mesh
) -> None:
    assert mesh_of_four(strategy, asked) == mesh
    with pytest.raises(DeviceError, match=r"\{ data = 2, model = 3 \} are 6 devices\. Received: 4"):
        mesh_of_four("hybrid", {"data": 2, "model": 3})


def test_dense_layers_are_cut_by_their_outputs_where_these_divide() -> None:
    assert lay_out(NETWORK, Mesh(1, 4)) == {"fc1/kernel": (None, "model"), "fc1/bias": ("model",)}
    assert lay_out(NETWORK, Mesh(2)) == {
        "fc1/kernel": (None, "data"),
        "fc1/bias": ("data",),
        "fc2/kernel": (None, "data"),
        "fc2/bias": ("data",),
    }
    with pytest.raises(RecipeError, match="no dense layer's outputs divide by 7"):
        lay_out(NETWORK, Mesh(7))


@pytest.mark.parametrize(
    ("backend", "strategy", "message"),
    [
        ("tensorflow", "hybrid", "Keras splits no weights.* Backends with hybrid: jax"),
        ("torch", "multi_worker", "no released version of Keras .*: tensorflow, jax"),
        ("jax", "one_device", "it places on one device by itself: use --strategy default"),
    ],
)
def test_a_backend_without_a_strategy_says_why_and_which_have_it(
    backend: str, strategy: str, message: str
) -> None:
    training = TrainingConfig(backend=backend, global_batch_size=6, epochs=1)
    with pytest.raises(DeviceError, match=f"not on backend {backend}: {message}"):
        require_usable(DistributionConfig(strategy=strategy), training)


def test_a_batch_divides_by_the_parts_that_it_is_cut_into() -> None:
    devices = tuple(f"cpu:{index}" for index in range(4))
    mesh = {"data": 2, "model": 2}
    training = TrainingConfig(backend="jax", global_batch_size=6, epochs=1)
    require_usable(DistributionConfig(strategy="hybrid", devices=devices, mesh=mesh), training)
