"""What the end of a run under the fastest settings says of them, to readers and to scripts."""

from typing import Any

from builders import build_recipe, build_request, build_result
from tfbench.records.fast import AS_ASKED_TAG, CHANGED_TAG
from tfbench.records.run import RunRequest, Summary
from tfbench.report.run.answer import answer_lines
from tfbench.report.run.fast import fast_pairs
from tfbench.report.run.run_json import to_json
from tfbench.report.run.tables import summary_lines

AS_IT_IS = ("without fast", "21,284 samples/s: the recipe as it is, in a short run before")
SETTINGS = "training.data_on_device=true, training.steps_per_execution=100, training.compiler=graph"
FASTER: dict[str, float | None] = {"samples_per_second": 190_412.0}


def build(changed: str = "data_on_device steps_per_execution compiler") -> RunRequest:
    recipe = build_recipe(training={"data_on_device": True, "steps_per_execution": 100})
    return build_request(recipe=recipe, tags={AS_ASKED_TAG: "21284.25", CHANGED_TAG: changed})


def describe(request: RunRequest, metrics: dict[str, float | None]) -> Any:
    return to_json(build_result(request=request), Summary(metrics=metrics), None)["fast"]


def test_both_speeds_are_shown_and_what_lies_between_them() -> None:
    assert fast_pairs(build(), FASTER) == [AS_IT_IS, ("fast", f"8.95 times that, by {SETTINGS}")]
    assert describe(build(), FASTER) == {
        "samples_per_second_as_asked": 21_284.25,
        "speedup": 190_412.0 / 21_284.25,
        "settings": {
            "training.data_on_device": True,
            "training.steps_per_execution": 100,
            "training.compiler": "graph",
        },
    }


def test_they_stand_below_the_speed_at_the_end_of_a_run_and_in_all_there_is_of_it() -> None:
    result, summary = build_result(request=build()), Summary(metrics=FASTER)
    for lines in (answer_lines(result, summary, 80), summary_lines(result, summary, 80)):
        labels = [line[2:16].strip() for line in lines]
        at = labels.index("speed")
        assert labels[at : at + 3] == ["speed", "without fast", "fast"]
        assert max(map(len, lines)) <= 80


def test_where_nothing_was_faster_there_is_no_ratio() -> None:
    text = "no setting that was tried is faster, so that this run has the recipe's own"
    assert fast_pairs(build(""), FASTER) == [AS_IT_IS, ("fast", text)]
    assert describe(build(""), FASTER) == {"samples_per_second_as_asked": 21_284.25, "speedup": None, "settings": {}}


def test_a_run_that_came_to_no_speed_shows_its_settings() -> None:
    assert fast_pairs(build(), {"samples_per_second": None}) == [AS_IT_IS, ("fast", SETTINGS)]
    assert describe(build(), {})["speedup"] is None


def test_a_run_without_trial_says_nothing() -> None:
    assert fast_pairs(build_request(), FASTER) == []
    assert describe(build_request(), FASTER) is None
