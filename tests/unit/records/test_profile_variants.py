"""What `--try` asks for: variants of a step, or why there is no such variant."""

from typing import Any

import pytest

from builders import build_recipe
from tfbench.errors import RecipeError
from tfbench.recipe.sections import Recipe
from tfbench.records.profile import Variant
from tfbench.records.variants import BASE, CONTROL, apply_variant, parse_variants

CNN = {"name": "scratch_cnn"}


def parse(*texts: str, recipe: Recipe | None = None) -> dict[str, dict[str, Any]]:
    return {variant.name: variant.values for variant in parse_variants(texts, recipe or build_recipe())}


def refused(text: str, recipe: Recipe | None = None) -> str:
    with pytest.raises(RecipeError) as caught:
        parse(text, recipe=recipe)
    return str(caught.value)


def test_items_stand_between_commas_and_the_option_can_be_repeated() -> None:
    assert parse("compiler=xla, steps_per_execution=10", "mixed_precision") == {
        "compiler=xla": {"training.compiler": "xla"},
        "steps_per_execution=10": {"training.steps_per_execution": 10},
        "mixed_precision": {"training.precision": "mixed_bfloat16"},
    }


def test_an_item_holds_several_changes_between_plus_signs() -> None:
    assert parse("compiler=xla+steps_per_execution=10+mixed_precision,compiler=xla") == {
        "compiler=xla+steps_per_execution=10+mixed_precision": {
            "training.compiler": "xla",
            "training.steps_per_execution": 10,
            "training.precision": "mixed_bfloat16",
        },
        "compiler=xla": {"training.compiler": "xla"},
    }


@pytest.mark.parametrize(
    ("text", "key", "value"),
    [
        ("compiler=xla", "training.compiler", "xla"),
        ("training.compiler=eager", "training.compiler", "eager"),
        ("precision=mixed_float16", "training.precision", "mixed_float16"),
        ("mixed_precision=on", "training.precision", "mixed_bfloat16"),
        ("head=double_softmax", "training.head", "double_softmax"),
        ("learning_rate=0.01", "training.optimizer.learning_rate", 0.01),
        ("training.optimizer.epsilon=1e-8", "training.optimizer.epsilon", 1e-8),
        ("epsilon=1e+1", "training.optimizer.epsilon", 10.0),
        ("training.optimizer.name=sgd", "training.optimizer.name", "sgd"),
        ("hidden_units=[8,9]", "model.hidden_units", [8, 9]),
        ("model.hidden_units=[8,9]", "model.hidden_units", [8, 9]),
    ],
)
def test_keys_are_whole_or_short(text: str, key: str, value: Any) -> None:
    assert parse(text) == {text: {key: value}}


def test_a_switch_that_is_on_can_be_tried_off() -> None:
    recipe = build_recipe(training={"compiler": "xla"})
    assert parse("compiler=graph", recipe=recipe) == {"compiler=graph": {"training.compiler": "graph"}}


def test_a_models_own_options_may_go_without_their_section() -> None:
    recipe = build_recipe(model=CNN)
    found = parse("pooling_backward=index_scatter,model.pooling_backward=printed_scatter", recipe=recipe)
    assert [values["model.pooling_backward"] for values in found.values()] == ["index_scatter", "printed_scatter"]


def test_a_variant_changes_the_recipe_in_its_values_alone() -> None:
    recipe = build_recipe(model=CNN, reference=[{"hardware": "x", "devices": "cpu", "source": "x", "figures": {}}])
    values = {"model.pooling_backward": "index_scatter", "training.precision": "mixed_bfloat16"}
    changed = apply_variant(recipe, Variant(name="both", values=values))
    assert changed == build_recipe(
        model=CNN | {"pooling_backward": "index_scatter"},
        training={"precision": "mixed_bfloat16"},
        reference=[{"hardware": "x", "devices": "cpu", "source": "x", "figures": {}}],
    )
    assert recipe.training.precision == "float32"


def test_another_optimizer_does_without_the_options_of_the_first() -> None:
    variant = Variant(name="sgd", values={"training.optimizer.momentum": 0.9, "training.optimizer.name": "sgd"})
    optimizer = apply_variant(build_recipe(), variant).training.optimizer
    assert (optimizer.name, optimizer.learning_rate, optimizer.momentum) == ("sgd", 0.01, 0.9)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        (
            "global_batch_size=64",
            (
                "training.global_batch_size makes another amount of work a step",
                "--global-batch-size, or compare in processes of their own: "
                "tfbench sweep test --arm default --vary training.global_batch_size=VALUE,VALUE.",
            ),
        ),
        ("dataset.data=real", ("trained on the same batches", "--vary dataset.data=VALUE,VALUE.")),
        ("distribution.strategy=mirrored", ("--strategy and --devices", 'sweep test --arm "STRATEGY DEVICES".')),
        ("deterministic", ("training.deterministic holds for a whole process", "--vary training.deterministic=VALUE")),
        ("training.intra_op_threads=1", ("holds for a whole process", "--vary training.intra_op_threads=VALUE,VALUE.")),
        ("inter_op_threads=1", ("holds for a whole process",)),
        ("tensor_float_32", ("holds for a whole process",)),
        ("threads=2", ("threads holds for a whole process", "--vary threads=VALUE,VALUE.")),
        ("epochs=3", ("training.epochs changes nothing of how a step is carried out. Leave it out.",)),
        ("seed=1", ("training.seed changes nothing of how a step is carried out.",)),
        ("measurement.seconds=1", ("measurement.seconds changes nothing",)),
        ("loss=mean_squared_error", ("training.loss makes another task",)),
        ("model.name=lenet5", ("model.name names another network", "Profile it by itself: --set model.name=VALUE.")),
        ("compile=xla", ("unknown key 'compile'. Did you mean 'compiler'? Known: mixed_precision, training.",)),
        ("training.optimiser.epsilon=1", ("Did you mean 'training.optimizer.epsilon'?",)),
        ("model.hidden_unit=[1]", ("model.hidden_unit: unknown key. Did you mean 'hidden_units'?",)),
        ("training.optimizer.rho=0.9", (".rho: unknown key.",)),
        ("training.optimizer.beta_1.x=0.9", ("training.optimizer.beta_1 is no table",)),
        ("model.=1", ("unknown key 'model.'.",)),
        ("=1", ("unknown key ''.",)),
        ("steps_per_execution", ("is no switch, and needs a value: steps_per_execution=VALUE.",)),
        ("steps_per_execution=0", ("training.steps_per_execution: must be greater than or equal to 1. Received: 0.",)),
        (
            "steps_per_execution=",
            ("--try steps_per_execution=: training.steps_per_execution=: the value is not valid",),
        ),
        ("precision=float16", ("training.precision: must be one of float32, mixed_float16, mixed_bfloat16.",)),
        ("mixed_precision=float16", ("mixed_precision stands alone", "is written precision=mixed_float16.")),
        ("steps_per_execution=1", ("that is what the recipe has, and it is timed in any case. Leave it out.",)),
        ("compiler=graph", ("that is what the recipe has",)),
        ("compiler", ("is no switch, and needs a value: compiler=VALUE.",)),
        ("compiler=inductor", ("must be graph or xla or eager on backend tensorflow. Received: inductor.",)),
        ("compiler=xla,training.compiler=xla", ("is the same variant as compiler=xla. Leave one of them out.",)),
        ("compiler=xla+compiler=graph", ("changes training.compiler twice.",)),
        ("compiler=xla,,head=logits", ("--try ...: is empty where a change should be. Write KEY=VALUE",)),
        ("", ("is empty",)),
        ("compiler=xla+", ("--try compiler=xla+: is empty",)),
    ],
)
def test_says_why_there_is_no_such_variant(text: str, parts: tuple[str, ...]) -> None:
    message = refused(text)
    assert all(line.startswith("--try ") for line in message.splitlines())
    assert [part for part in parts if part not in message] == []


def test_the_recipes_own_checks_are_heard() -> None:
    message = refused("compiler=xla", build_recipe(training={"deterministic": True}))
    assert message.startswith('--try compiler=xla: training: compiler cannot be "xla" with deterministic = true')


def test_a_name_that_could_be_two_keys_is_refused() -> None:
    recipe = build_recipe(model={"name": "nets:build", "epsilon": 1, "precision": 2})
    message = refused("epsilon=2", recipe)
    assert "'epsilon' could be training.optimizer.epsilon or model.epsilon. Write the whole key." in message
    assert parse("model.epsilon=2", recipe=recipe) == {"model.epsilon=2": {"model.epsilon": 2}}


def test_no_variant_can_be_called_like_the_two_that_are_always_timed() -> None:
    for name in (BASE, CONTROL):
        assert "unknown key" in refused(name)
