import shlex
from typing import Any

import pytest

from builders import build_recipe
from sweeps import BATCHES, build_limited_plan, build_plan
from tfbench.recipe.files import load_recipe, shipped_folder
from tfbench.recipe.sections import Recipe
from tfbench.recipe.tables import to_tables
from tfbench.records.sweep import SweepPlan, Variation
from tfbench.report.commands import (
    find_overrides,
    fold_command,
    run_command,
    sweep_command,
)
from tfbench.sweeps.arguments import parse_arm, parse_variation


def shipped_recipe(name: str = "mnist_mlp", **values: Any) -> Recipe:
    """Returns a shipped recipe, with values of keys such as training__epochs laid over it."""
    overrides = {key.replace("__", "."): value for key, value in values.items()}
    return load_recipe(shipped_folder() / f"{name}.toml", overrides)


def shipped(name: str = "mnist_mlp", **values: Any) -> dict[str, Any]:
    """Returns the tables of the same."""
    return to_tables(shipped_recipe(name, **values))


def options_of(command: str, name: str) -> list[str]:
    words = shlex.split(command)
    return [words[place + 1] for place, word in enumerate(words) if word == name]


def plan_of(**fields: Any) -> SweepPlan:
    return build_plan(**{"recipe_name": "mnist_mlp", "tables": shipped()} | fields)


def test_a_shipped_recipe_needs_no_overrides_and_a_changed_one_those_that_changed_it() -> None:
    assert find_overrides(shipped(), "mnist_mlp") == {}
    changed = shipped(training__epochs=3, training__optimizer__learning_rate=0.1, model__hidden_units=[50])
    assert find_overrides(changed, "mnist_mlp") == {
        "model.hidden_units": [50],
        "training.epochs": 3,
        "training.optimizer.learning_rate": 0.1,
    }
    assert find_overrides(shipped(expect__target_accuracy=0.5), "mnist_mlp") == {"expect.target_accuracy": 0.5}


@pytest.mark.parametrize("name", ["svhn_rcnn", "cifar10_lenet5", "cifar10_resnet152"])
def test_another_network_in_place_of_a_recipes_own_is_named(name: str) -> None:
    changed = shipped(name, model__name="mlp", model__hidden_units=[7])
    overrides = find_overrides(changed, name)
    assert overrides is not None and overrides["model.name"] == "mlp" and overrides["model.hidden_units"] == [7]
    assert {key.partition(".")[0] for key in overrides} == {"model"}
    asked = shipped("svhn_rcnn", model__name="mlp", training__head="double_softmax")
    overrides = find_overrides(asked, "svhn_rcnn")
    assert overrides is not None and overrides["training.head"] == "double_softmax"
    assert "training.validation_head" not in overrides


def test_what_cannot_be_set_on_a_command_line_is_not_expressed() -> None:
    tables = shipped()
    tables["expect"]["target_accuracy"] = None  # nothing unsets a value
    assert find_overrides(tables, "mnist_mlp") is None
    assert find_overrides(shipped(), "no_such_recipe") is None
    assert find_overrides(to_tables(build_recipe()), "../mnist_mlp") is None


@pytest.mark.parametrize(
    "variation",
    [
        BATCHES,
        Variation(key="model.hidden_units", values=([100], [1000, 1000])),
        Variation(key="model.hidden_units", values=([100],)),
        Variation(key="model.activation", values=("relu", "tanh")),
        Variation(key="model.activation", values=("true", "two words")),
        Variation(key="training.compiler", values=("graph", "xla")),
        Variation(key="threads", values=(1, 2)),
        Variation(key="training.optimizer", values=({"name": "sgd", "learning_rate": 0.1},)),
    ],
)
def test_what_a_sweep_varies_is_read_back_as_it_was(variation: Variation) -> None:
    (text,) = options_of(sweep_command(plan_of(variations=(variation,))), "--vary")
    assert parse_variation(text) == variation


def test_the_command_of_a_sweep_says_all_that_its_plan_does() -> None:
    plan = plan_of(
        tables=shipped(dataset__data="synthetic", measurement__seconds=2.5),
        num_rounds=5,
        run_timeout_seconds=90.0,
        memory_limit_bytes=2**30,
        time_budget_seconds=600.0,
        data_dir="/data/a folder",
    )
    command = sweep_command(plan)
    assert command.startswith("tfbench sweep mnist_mlp --vary training.global_batch_size=32,64 --arm 'default cpu:0' ")
    assert [parse_arm(text) for text in options_of(command, "--arm")] == list(plan.arms)
    assert options_of(command, "--set") == []
    expected = {
        "--data": ["synthetic"],
        "--repeats": ["5"],
        "--seconds": ["2.5"],
        "--time-budget": ["600s"],
        "--run-timeout": ["90s"],
        "--memory-limit": [str(2**30)],
        "--data-dir": ["/data/a folder"],
    }
    assert {name: options_of(command, name) for name in expected} == expected
    assert "--full" not in command
    assert "--full" in sweep_command(plan_of(tables=shipped(training__epochs=20)))
    assert "--full" not in sweep_command(plan_of(tables=shipped(measurement__steps=50)))
    assert "--allow-code" in sweep_command(plan_of(allows_code=True))


def test_the_command_of_a_recipe_that_is_not_shipped_names_a_file() -> None:
    plan = build_limited_plan(5.0, recipe_name="mine")
    assert sweep_command(plan).startswith("tfbench sweep mine.toml --vary ")
    assert "--set" not in sweep_command(plan)  # the file has all values
    plan = build_limited_plan(5.0, recipe_name="mine", overrides=("dataset.data", "training.optimizer"))
    assert options_of(sweep_command(plan), "--seconds") == ["5"]
    assert options_of(sweep_command(plan), "--data") == ["synthetic"]
    assert {word.partition("=")[0].rpartition(".")[0] for word in options_of(sweep_command(plan), "--set")} == {
        "training.optimizer"
    }


def test_the_command_of_a_run_sets_what_its_recipe_has_not() -> None:
    tables = shipped(
        model__hidden_units=[50, 50], distribution__strategy="mirrored", distribution__devices=["cpu:0", "cpu:1"]
    )
    command = run_command("mnist_mlp", tables, repeats=3, data_dir=None, allows_code=False)
    assert command == (
        "tfbench run mnist_mlp --strategy mirrored --devices cpu:0,cpu:1 --set 'model.hidden_units=[50,50]' --repeats 3"
    )
    assert run_command("mine", tables, repeats=1, data_dir=None, allows_code=False) is None


def test_a_long_command_is_folded_before_its_options_and_stays_the_same_to_a_shell() -> None:
    command = sweep_command(plan_of(data_dir="/data/it's -- here", variations=(BATCHES,)))
    first, *others = fold_command(command).split(" \\\n    ")
    assert first == "tfbench sweep mnist_mlp"
    assert len(others) > 3 and all(line.startswith("--") for line in others)
    assert shlex.split(" ".join((first, *others))) == shlex.split(command)


def test_a_short_command_and_one_with_a_comment_are_not_folded() -> None:
    for command in ("tfbench report --sweep @last", f"tfbench export 0123    # {'why ' * 40}"):
        assert fold_command(command) == command
