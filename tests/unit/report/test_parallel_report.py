"""What `tfbench show --parallel` says of networks: a published one, and those that cannot be cut."""

import functools
from collections.abc import Callable
from typing import Any

import pytest

from builders import build_recipe
from rows import conv, dense, small_alexnet
from tfbench.analysis.parallel.modes import Mode, advise, list_modes
from tfbench.analysis.parallel.shares import find_shares
from tfbench.errors import RecipeError
from tfbench.recipe import files, registry
from tfbench.recipe.mesh import LayoutRule
from tfbench.recipe.sections import DistributionConfig, Recipe
from tfbench.records.model_table import LayerRow, ModelTable
from tfbench.report.parallel.modes import describe_modes, list_sentences, modes_json
from tfbench.worker.model_table import build_table

PLAIN = DistributionConfig()


def tabulate(rows: list[LayerRow]) -> ModelTable:
    return ModelTable(
        layers=tuple(rows),
        num_parameters=0,
        num_trainable_parameters=0,
        num_kernel_weights=0,
        num_outputs=None,
        flops_per_sample=None,
        training_flops_per_sample=None,
    )


@functools.cache
def alexnet() -> tuple[Recipe, ModelTable]:
    recipe = files.load_recipe(files.find_recipe("imagenet_alexnet"))
    data = registry.load("datasets", recipe.dataset.name)
    spec = data.describe(data.Config(**recipe.dataset.options))
    return recipe, build_table(recipe.model, recipe.training, spec)


def of_batch(size: int) -> Recipe:
    return build_recipe(training={"global_batch_size": size})


def test_alexnet_is_said_as_its_golden_file_has_it(golden: Callable[[str, str], None]) -> None:
    recipe, table = alexnet()
    modes = list_modes(table.layers, PLAIN, 4, 128)
    golden("parallel_alexnet_80.txt", "\n".join(describe_modes(recipe, table, modes, 80)) + "\n")


def test_alexnets_shares_are_those_of_its_convolutions_and_dense_layers() -> None:
    _, table = alexnet()
    convolutions, dense_layers, other = find_shares(table.layers)
    # 23,232 + 307,200 + 663,552 + 884,736 + 589,824 of 74,721,984 weights
    assert convolutions.weights == pytest.approx(2_468_544 / 74_721_984)
    assert dense_layers.weights == pytest.approx(1 - 2_468_544 / 74_721_984)
    assert 0.9 < (convolutions.flops or 0) < 0.95
    assert (other.flops, other.weights) == (0, 0)


def test_json_has_every_exchange_of_every_mode() -> None:
    recipe, table = alexnet()
    shown = modes_json(recipe, table, list_modes(table.layers, PLAIN, 4, 128))
    data = next(mode for mode in shown["modes"] if mode["name"] == "data")
    assert data["num_bytes"] == 4 * 74_732_328
    assert data["exchanges"][0] == {"layer": "conv1", "kind": "gradients", "num_bytes": 4 * (23_232 + 64)}
    assert shown["published_shares"][0]["verified"] is False


@pytest.mark.parametrize(
    ("batch", "first"),
    [(16, "hybrid"), (128, "data")],
)
def test_hybrid_pays_up_to_a_batch_whose_inputs_are_as_large_as_the_gradients(batch: int, first: str) -> None:
    rows = small_alexnet()
    advice = advise(rows, list_modes(rows, PLAIN, 4, batch), batch)
    assert (advice.first, advice.fewer_bytes) == (first, "model")
    # Gradients of the dense layers: 471,568 values; a sample: twice 1568 + 256 + 256 values, and 12 of the loss.
    assert advice.equal_batch == 471_568 // (2 * (1568 + 256 + 256) + 12) == 113


def test_the_recipes_own_mesh_and_layout_stand_for_its_strategy() -> None:
    config = DistributionConfig(
        strategy="hybrid",
        mesh={"data": 2, "model": 2},
        layout=(LayoutRule(variables="fc6/*", split="model", axis=0),),
    )
    rows = small_alexnet()
    with pytest.raises(RecipeError, match=r"fc6/kernel|distribution\.layout"):
        list_modes(
            rows,
            DistributionConfig(strategy="hybrid", layout=(LayoutRule(variables="x", split="data", axis=0),)),
            4,
            64,
        )
    hybrid = list_modes(rows, config, 4, 64)[-1]
    assert hybrid.mesh.sizes == {"data": 2, "model": 2}
    assert hybrid.layout["fc6/kernel"] == ("model", None)


def say(rows: list[LayerRow], modes: tuple[Mode, ...], recipe: Any = None) -> list[str]:
    return list_sentences(recipe or of_batch(64), tabulate(rows), modes)


def test_a_network_that_cannot_be_cut_is_said_to_be_one() -> None:
    rows = [conv("conv", "data", (8, 8, 3), 4, 3, times=2), dense("last", "conv", (8, 8, 4), 10)]
    sentences = say(rows, list_modes(rows, PLAIN, 4, 64))
    assert "model: no dense layer's outputs divide by 4, so that nothing would be split." in sentences
    assert sentences[-1].startswith("By counts alone, try data first: it is the only mode that is possible")
    sentences = say(rows[:1], list_modes(rows[:1], PLAIN, 4, 10), of_batch(10))
    assert sentences == [
        "data: 10 samples of a step do not divide by 4.",
        "model: no dense layer, so that nothing would be split unless a layout says what.",
        "hybrid: no dense layer, so that nothing would be split unless a layout says what.",
        "By counts alone nothing is to be said of which mode to try first.",
    ]


def test_many_layers_stand_in_groups() -> None:
    rows = [dense(f"d{number}", f"d{number - 1}", (8,), 8) for number in range(1, 30)]
    lines = describe_modes(of_batch(64), tabulate(rows), list_modes(rows, PLAIN, 4, 64), 80)
    assert [line.split()[0] for line in lines if line.startswith(("dense", "d1"))] == ["dense", "dense"]
