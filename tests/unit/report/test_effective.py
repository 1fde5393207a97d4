"""What was in effect in a run, and what of it is not what the recipe asked for."""

import dataclasses
from typing import Any

import pytest

from builders import build_environment, build_placement, build_recipe, build_request, build_result, build_settings
from tfbench.analysis.run.effective import EffectiveValue, list_effective
from tfbench.records.run import RunResult
from tfbench.report.run.sections import effective_section
from tfbench.report.table import text


def run_asked_for(settings: dict[str, Any] | None = None, **sections: Any) -> RunResult:
    """Builds a run of a recipe that asked for the run of the builders, but for these sections and settings."""
    distribution = {"strategy": "one_device"} | sections.pop("distribution", {})
    request = build_request(recipe=build_recipe(distribution=distribution, **sections))
    return build_result(request=request, settings=build_settings(**settings or {}))


def differing(result: RunResult) -> list[str]:
    return [value.name for value in list_effective(result) if value.differs]


def find(result: RunResult, name: str) -> EffectiveValue:
    (value,) = [value for value in list_effective(result) if value.name == name]
    return value


@pytest.mark.parametrize(
    ("section", "key", "asked", "name"),
    [
        ("training", "compiler", "xla", "compiler"),
        ("training", "precision", "mixed_float16", "precision"),
        ("training", "tensor_float_32", True, "tensor_float_32"),
        ("training", "steps_per_execution", 3, "steps_per_execution"),
        ("training", "deterministic", True, "deterministic"),
        ("training", "intra_op_threads", 2, "intra_op_threads"),
        ("training", "inter_op_threads", 2, "inter_op_threads"),
        ("training", "global_batch_size", 64, "global_batch_size"),
        ("distribution", "strategy", "mirrored", "strategy"),
        ("distribution", "cross_device_ops", "nccl", "cross_device_ops"),
        ("distribution", "devices", ["gpu"], "devices"),
        ("distribution", "devices", ["cpu:1"], "devices"),
    ],
)
def test_names_what_is_not_as_asked_for(section: str, key: str, asked: object, name: str) -> None:
    assert differing(run_asked_for(**{section: {key: asked}})) == [name]


@pytest.mark.parametrize("devices", [[], ["cpu"], ["CPU:0"]])  # the first is a run that was as asked for
def test_devices_are_as_asked_for_however_they_were_named(devices: list[str]) -> None:
    assert differing(run_asked_for(distribution={"devices": devices})) == []


@pytest.mark.parametrize(
    ("settings", "distribution", "placement"),
    [
        ({}, {"devices": ["gpu"]}, {"devices": ("gpu:0", "gpu:1"), "num_replicas": 2}),
        ({"intra_op_threads": 8}, {"cross_device_ops": "auto"}, {"cross_device_ops": "reduction_to_one_device"}),
    ],
)
def test_what_a_recipe_left_open_is_not_different_whatever_was_chosen(
    settings: dict[str, Any], distribution: dict[str, Any], placement: dict[str, Any]
) -> None:
    result = run_asked_for(settings, distribution=distribution)
    assert differing(dataclasses.replace(result, placement=build_placement(**placement))) == []


@pytest.mark.parametrize(
    ("variable", "in_use", "differs"),
    [("", True, False), ("1", True, False), ("1", False, True), ("0", True, True), ("true", None, False)],
)
def test_onednn_is_held_against_the_variable_that_asks_for_it(
    variable: str, in_use: bool | None, differs: bool
) -> None:
    result = run_asked_for({"onednn": variable})
    result = dataclasses.replace(result, environment=build_environment(tensorflow_onednn=in_use))
    assert find(result, "onednn").effective == in_use
    assert find(result, "onednn").differs == differs


def test_nothing_is_known_of_a_run_that_ended_before_its_devices_were() -> None:
    assert (
        effective_section(build_result(stage="loading data", settings=None, placement=None, environment=None)) is None
    )


def shown(result: RunResult) -> list[str]:
    section = effective_section(result)
    assert section
    return text([section], 120)


def test_lines_mark_what_differs() -> None:
    lines = shown(run_asked_for({"xla_flags": "--xla_a=1"}, training={"precision": "mixed_float16"}))
    assert lines[:2] == ["Settings", "Not as asked for: precision."]
    rows = [line.split() for line in lines[3:]]
    assert ["!", "precision", "float32", "mixed_float16"] in rows
    assert ["devices", "cpu:0"] in rows and ["xla_flags", "--xla_a=1"] in rows and ["onednn", "-"] in rows
    assert ["intra_op_threads", "0:", "one", "per", "core"] in rows
    assert not any("framework_variables" in line for line in lines)
    assert any(
        line.split() == ["framework_variables", "NCCL_ALGO=Ring"]
        for line in shown(run_asked_for({"framework_variables": "NCCL_ALGO=Ring"}))
    )
    assert shown(run_asked_for())[1] == "All settings are as asked for."
