"""Which parts of a network lie along which axis of a mesh, and what cannot be."""

from typing import Any

import pytest

from tfbench.errors import DeviceError, RecipeError
from tfbench.recipe.devices import Device, find_mesh, require_usable
from tfbench.recipe.files import find_recipe, load_recipe
from tfbench.recipe.mesh import LayoutRule, Mesh, VariableShape, lay_out
from tfbench.recipe.sections import DistributionConfig

NETWORK = [
    VariableShape("conv/kernel", (3, 3, 4, 8), "Conv2D"),
    VariableShape("fc1/kernel", (72, 16), "Dense"),
    VariableShape("fc1/bias", (16,), "Dense"),
    VariableShape("fc2/kernel", (16, 10), "Dense"),
    VariableShape("fc2/bias", (10,), "Dense"),
]


def mesh_of_four(strategy: Any, asked: Any) -> Mesh:
    return find_mesh(
        tuple(Device("cpu", index) for index in range(4)), DistributionConfig(strategy=strategy, mesh=asked)
    )


def rule(variables: str, axis: int, split: Any = None) -> LayoutRule:
    return LayoutRule(variables=variables, split=split, axis=axis)


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
def test_a_strategy_has_a_mesh_unless_the_recipe_names_one(strategy: str, asked: Any, mesh: Mesh) -> None:
    assert mesh_of_four(strategy, asked) == mesh
    with pytest.raises(DeviceError, match=r"\{ data = 2, model = 3 \} are 6 devices\. Received: 4"):
        mesh_of_four("hybrid", {"data": 2, "model": 3})


DENSE_BY_OUTPUTS = {
    "fc1/kernel": (None, "data"),
    "fc1/bias": ("data",),
    "fc2/kernel": (None, "data"),
    "fc2/bias": ("data",),
}


@pytest.mark.parametrize(
    ("mesh", "rules", "layout"),
    [
        # Dense layers are cut by their outputs where these divide.
        (Mesh(1, 4), [], {"fc1/kernel": (None, "model"), "fc1/bias": ("model",)}),
        (Mesh(2), [], DENSE_BY_OUTPUTS),
        (
            Mesh(2, 2),
            [rule("conv/kernel", 3), rule("fc*/kernel", 0)],
            {
                "conv/kernel": (None, None, None, "model"),
                "fc1/kernel": ("model", None),
                "fc2/kernel": ("model", None),
            },
        ),
        # A rule without an axis of the mesh serves every mesh.
        (Mesh(1, 4), [rule("fc1/kernel", 1)], {"fc1/kernel": (None, "model")}),
        (Mesh(4), [rule("fc1/kernel", 1)], {"fc1/kernel": (None, "data")}),
        (Mesh(2, 2), [rule("fc1/kernel", 1, "data")], {"fc1/kernel": (None, "data")}),
    ],
)
def test_variables_are_cut_by_rules_or_dense_layers_without_any(
    mesh: Mesh, rules: list[LayoutRule], layout: dict[str, Any]
) -> None:
    assert lay_out(NETWORK, rules, mesh) == layout


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        (
            [rule("dense*/kernel", 1)],
            r"layout\[0\]\.variables: 'dense\*/kernel' matches none of conv/kernel, fc1/kernel",
        ),
        (
            [rule("fc*/kernel", 1)],
            r"layout\[0\]: fc2/kernel has 10 along axis 1, which does not divide by the 4 places",
        ),
        ([rule("fc1/bias", 1)], r"layout\[0\]\.axis: fc1/bias has axes 0 to 0\. Received: 1"),
        ([rule("fc1/*", 0), rule("fc1/kernel", 1)], r"layout\[1\]\.variables: fc1/kernel is cut by a rule before it"),
    ],
)
def test_a_rule_that_fits_nothing_or_does_not_divide_is_named(rules: list[LayoutRule], message: str) -> None:
    with pytest.raises(RecipeError, match=message):
        lay_out(NETWORK, rules, Mesh(1, 4))
    with pytest.raises(RecipeError, match="no dense layer's outputs divide by 7"):
        lay_out(NETWORK, (), Mesh(7))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"distribution.num_workers": 2}, "num_workers: is of strategy multi_worker. Received: strategy default"),
        ({"distribution.mesh": {"data": 2}}, "mesh, layout: are of strategies model and hybrid"),
        (
            {"distribution.strategy": "model", "distribution.mesh": {"data": 2, "model": 2}},
            "mesh: under strategy model no batch is cut",
        ),
        (
            {"distribution.strategy": "hybrid", "distribution.mesh": {"rows": 2}},
            "mesh.rows: must be one of data, model",
        ),
    ],
)
def test_what_does_not_go_together_is_rejected(values: dict[str, Any], message: str) -> None:
    with pytest.raises(RecipeError, match=message):
        load_recipe(find_recipe("mnist_mlp"), values)


@pytest.mark.parametrize(
    ("backend", "strategy", "message"),
    [
        ("tensorflow", "hybrid", "not on backend tensorflow: Keras splits no weights.* Backends with hybrid: jax"),
        ("torch", "multi_worker", "not on backend torch: no released version of Keras .*: tensorflow, jax"),
        ("jax", "one_device", "not on backend jax: it places on one device by itself: use strategy default"),
    ],
)
def test_a_backend_without_a_strategy_says_why_and_which_have_it(backend: str, strategy: str, message: str) -> None:
    recipe = load_recipe(find_recipe("mnist_mlp"), {"training.backend": backend, "distribution.strategy": strategy})
    with pytest.raises(DeviceError, match=message):
        require_usable(recipe.distribution, recipe.training)


def test_a_batch_divides_by_the_parts_that_it_is_cut_into() -> None:
    values = {
        "training.backend": "jax",
        "training.global_batch_size": 6,
        "distribution.strategy": "hybrid",
        "distribution.devices": ["cpu:0", "cpu:1", "cpu:2", "cpu:3"],
    }
    mesh = load_recipe(find_recipe("mnist_mlp"), values | {"distribution.mesh": {"data": 2, "model": 2}})
    require_usable(mesh.distribution, mesh.training)
