"""What the end of a run under the fastest settings says of them, to readers and to scripts."""

from typing import Any

from builders import build_recipe, build_request, build_result
from tfbench.records.fast import AS_ASKED_TAG, CHANGED_TAG
from tfbench.records.run import RunRequest, Summary
from tfbench.report.run.run_document import run_document
from tfbench.report.run.sections import run_sections
from tfbench.report.table import text

FASTER: dict[str, float | None] = {"samples_per_second": 190_412.0}


def build(changed: str = "data_on_device steps_per_execution compiler") -> RunRequest:
    recipe = build_recipe(training={"data_on_device": True, "steps_per_execution": 100})
    return build_request(recipe=recipe, tags={AS_ASKED_TAG: "21284.25", CHANGED_TAG: changed})


def describe(request: RunRequest, metrics: dict[str, float | None]) -> Any:
    return run_document(build_result(request=request), Summary(metrics=metrics), None)["fast"]


def shown(request: RunRequest, metrics: dict[str, float | None]) -> str:
    return "\n".join(text(run_sections(build_result(request=request), Summary(metrics=metrics)), 300))


def test_both_speeds_are_shown_and_what_lies_between_them() -> None:
    settings = "training.data_on_device=true, training.steps_per_execution=100, training.compiler=graph"
    assert f"8.95x the recipe as it is (21,284 samples/s in a short run): {settings}" in shown(build(), FASTER)
    told = describe(build(), FASTER)
    assert (told["samples_per_second_as_asked"], told["speedup"]) == (21_284.25, 190_412.0 / 21_284.25)
    assert told["settings"]["training.steps_per_execution"] == 100 and len(told["settings"]) == 3


def test_where_nothing_was_faster_there_is_no_ratio() -> None:
    assert "no setting is faster" in shown(build(""), FASTER)
    assert describe(build(""), FASTER) == {"samples_per_second_as_asked": 21_284.25, "speedup": None, "settings": {}}


def test_a_run_that_came_to_no_speed_has_no_ratio() -> None:
    assert "training.compiler=graph" in shown(build(), {"samples_per_second": None})
    assert describe(build(), {})["speedup"] is None


def test_a_run_without_trial_says_nothing() -> None:
    assert "Fast" not in shown(build_request(), FASTER)
    assert describe(build_request(), FASTER) is None
