"""What the end of a run under the fastest settings says of them, to readers and to scripts."""

import pytest

from builders import build_recipe, build_request, build_result
from tfbench.records.run import AS_ASKED_TAG, CHANGED_TAG, RunRequest, Summary
from tfbench.report.run.run_document import run_document
from tfbench.report.run.sections import run_sections
from tfbench.report.table import text

FASTER: dict[str, float | None] = {"samples_per_second": 190_412.0}


def build(changed: str = "data_on_device steps_per_execution compiler") -> RunRequest:
    recipe = build_recipe(training={"data_on_device": True, "steps_per_execution": 100})
    return build_request(recipe=recipe, tags={AS_ASKED_TAG: "21284.25", CHANGED_TAG: changed})


@pytest.mark.parametrize(
    ("request_", "metrics", "line", "document"),
    [
        (
            build(),
            FASTER,
            "8.95x the recipe as it is (21,284 samples/s in a short run): training.data_on_device=true, "
            "training.steps_per_execution=100, training.compiler=graph",
            (21_284.25, 190_412.0 / 21_284.25, 3),
        ),
        (build(""), FASTER, "no setting is faster", (21_284.25, None, 0)),
        (build(), {}, "training.compiler=graph", (21_284.25, None, 3)),  # it came to no speed
        (build_request(), FASTER, "", None),
    ],
)
def test_both_speeds_are_shown_and_what_lies_between_them(
    request_: RunRequest, metrics: dict[str, float | None], line: str, document: tuple[float, float | None, int] | None
) -> None:
    result, summary = build_result(request=request_), Summary(metrics=metrics)
    shown = "\n".join(text(run_sections(result, summary), 300))
    assert line in shown if line else "Fast" not in shown
    told = run_document(result, summary, None)["fast"]
    found = told and (told["samples_per_second_as_asked"], told["speedup"], len(told["settings"]))
    assert found == document
