"""What the end of a run under the fastest settings says of them, to readers and to scripts."""

import pytest

from builders import build_recipe, build_request, build_result
from tfbench.records.run import AS_ASKED_TAG, CHANGED_TAG, Summary
from tfbench.report.run.run_document import run_document
from tfbench.report.run.sections import run_sections
from tfbench.report.table import text

SPEED: dict[str, float | None] = {"samples_per_second": 190_412.0}
SETTINGS = "training.data_on_device=true, training.steps_per_execution=100, training.compiler=graph"


@pytest.mark.parametrize(
    ("changed", "metrics", "line", "speedup"),
    [
        ("data_on_device steps_per_execution compiler", SPEED, SETTINGS, 190_412.0 / 21_284.25),
        ("", SPEED, "no setting is faster", None),
        ("compiler", {}, "training.compiler=graph", None),  # it came to no speed
    ],
)
def test_both_speeds_are_shown_and_what_lies_between_them(
    changed: str, metrics: dict[str, float | None], line: str, speedup: float | None
) -> None:
    recipe = build_recipe(training={"data_on_device": True, "steps_per_execution": 100})
    request = build_request(recipe=recipe, tags={AS_ASKED_TAG: "21284.25", CHANGED_TAG: changed})
    result, summary = build_result(request=request), Summary(metrics=metrics)
    shown = "\n".join(text(run_sections(result, summary), 300))
    times = f"{speedup:.2f}x" if speedup else "as fast as"
    assert f"{times} the recipe as it is (21,284 samples/s in a short run): {line}" in shown
    told = run_document(result, summary, None)["fast"]
    assert (told["samples_per_second_as_asked"], told["speedup"]) == (21_284.25, speedup)
    assert list(told["settings"]) == [f"training.{name}" for name in changed.split()]
