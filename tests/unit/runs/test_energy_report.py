"""What is shown of a run's energy: measured figures with what they are of."""

import dataclasses

import pytest

from builders import build_result
from powered import CARD, GPU, ON_GPU, build_powered_run
from sweeps import TWO_SETUPS, build_brief
from tfbench.comparisons.comparison import compare
from tfbench.comparisons.comparison_text import comparison_document, comparison_table
from tfbench.machine.energy_readings import EnergySources
from tfbench.runs.record import RunResult
from tfbench.runs.run_document import run_document
from tfbench.runs.run_text import run_sections
from tfbench.runs.summary import summarize_run
from tfbench.show.table import text as text_of

REASON = "GPUs: NVIDIA's driver cannot be asked: Driver Not Loaded"


def on_gpu() -> RunResult:
    return build_powered_run(CARD, placement=ON_GPU)


def shown(lines: list[str]) -> str:
    return " ".join(" ".join(lines).split())


def run_text(result: RunResult, *, is_full: bool = True) -> str:
    return shown(text_of(run_sections(result, summarize_run(result), is_full=is_full), 120))


def test_the_figures_are_shown_with_what_they_are_of() -> None:
    for is_full in (True, False):
        assert "Energy 0.249351 samples/J, 200 W (GPUs alone) " in run_text(
            on_gpu(), is_full=is_full
        )
    document = run_document(on_gpu(), summarize_run(on_gpu()), None)["energy"]
    assert document["joules"] == pytest.approx(15_400.0)
    assert document["sources"] == [
        {"name": GPU, "part": "gpu", "resolution_seconds": 0.1, "range_joules": None}
    ]


def test_a_run_of_which_nothing_could_be_read_shows_nothing_and_its_json_says_why() -> None:
    result = build_result(energy=EnergySources(problems=(REASON,)))
    summary = summarize_run(result)
    assert "Energy" not in run_text(result, is_full=False)
    assert f"Energy not measured: {REASON}" in run_text(result)
    document = run_document(result, summary, None)
    assert (
        document["energy"].items() >= {"sources": [], "joules": None, "problems": [REASON]}.items()
    )
    assert run_document(build_result(), summary, None)["energy"] is None


def test_a_comparison_has_a_column_of_energy_where_all_runs_have_it() -> None:
    briefs = [
        build_brief(100.0, setup=setup, round_number=number)
        for setup in TWO_SETUPS
        for number in (1, 2)
    ]
    powered = [
        dataclasses.replace(brief, metrics=brief.metrics | {"samples_per_joule": joule})
        for brief, joule in zip(briefs, (20.0, 45.0, 90.0, 90.0), strict=True)
    ]
    found = compare(powered, keys=["training.global_batch_size"])
    header, row = comparison_table(found).text(250)
    assert header.count("samples/J") == 2
    assert {"30", "90"} <= set(row.split())  # geometric means
    assert "| 30 |" in "\n".join(comparison_table(found).markdown())
    assert "90" in "\n".join(comparison_table(found).text(60)).split()
    first, second = comparison_document(found, [])["rows"][0]["entries"]
    assert first["samples_per_joule"] == pytest.approx(30.0)
    assert second["samples_per_joule"] == pytest.approx(90.0)
