from typing import Any

import pytest

from kinds import Fields
from sweeps import BATCH, DEFAULT, MIRRORED, build_brief, build_briefs
from tfbench.comparisons.comparison import Comparison, compare
from tfbench.comparisons.failures import Failure
from tfbench.comparisons.plots import comparison_plots, corner_rows, lay_out
from tfbench.show.plot import Plot
from tfbench.sweeps.plan import Setup

WIDTH = "model.hidden_units"
THREADS = "training.intra_op_threads"


def sweep_of(
    sizes: tuple[int, ...] = (10, 20), batches: tuple[int, ...] = (32, 64), **options: Any
) -> Comparison:
    """Compares two setups, either of which is faster at some batch sizes.

    The second is half as fast at the first batch size, and twice as fast at any other.
    """
    briefs = []
    for size in sizes:
        for batch in batches:
            first = [1000.0 * batch / size * (1 + number / 100) for number in (1, 2, 3)]
            ratio = 0.5 if batch == batches[0] else 2.0
            second = [ratio * speed for speed in first]
            briefs += build_briefs({batch: (first, second)}, parameters=size)
    return compare(briefs, keys=[WIDTH, BATCH], **options)


def plots_of(comparison: Comparison) -> dict[str, Plot]:
    return {plot.name: plot for plot in comparison_plots(comparison, "Use it.")}


def test_a_panel_is_a_network_and_a_line_a_setup() -> None:
    comparison = sweep_of()
    plot = plots_of(comparison)["samples_per_second.png"]
    assert [panel.title for panel in plot.panels] == [
        "hidden_units=[10]\n10 parameters",
        "hidden_units=[20]\n20 parameters",
    ]
    first, second = plot.panels[0].series
    assert (first.name, second.name) == (DEFAULT, MIRRORED)
    mean = (1.01 * 1.02 * 1.03) ** (1 / 3)  # of the three rounds, the geometric one
    assert [(x, y) for x, y, *_ in first.points] == [
        (32, pytest.approx(3200.0 * mean)),
        (64, pytest.approx(6400.0 * mean)),
    ]
    assert [y for _, y, *_ in second.points] == pytest.approx([1600.0 * mean, 12800.0 * mean])
    interval = comparison.rows[0].entries[DEFAULT].interval
    assert first.points[0][2:4] == (interval.low, interval.high)
    assert plot.title.splitlines() == [
        "Training speed by global batch size (samples), with 95 % intervals",
        "test, real data, on Example CPU 3000",
    ]
    assert plot.finding == "Use it."


def test_speed_ups_have_their_intervals_and_lie_above_or_below_the_baseline() -> None:
    failures = [
        Failure(
            configuration={WIDTH: [20], BATCH: 128},
            setup=MIRRORED,
            outcome="KILLED",
            reason="out of memory",
        )
    ]
    comparison = sweep_of(failures=failures)
    plot = plots_of(comparison)["speedup.png"]
    baseline, other = plot.panels[0].series
    assert (
        baseline.points == ()
    )  # which keeps its place, so that a setup looks the same in every plot
    assert [(x, y) for x, y, *_ in other.points] == [
        (32, pytest.approx(0.5)),
        (64, pytest.approx(2.0)),
    ]
    (row,) = [row for row in comparison.rows if row.configuration == {WIDTH: [10], BATCH: 32}]
    speedup = row.entries[MIRRORED].speedup
    assert other.points[0][2:4] == (speedup.low, speedup.high)
    assert plot.level == (1.0, f"{DEFAULT} (baseline)")
    assert [x for x, *_ in plot.panels[1].series[1].points] == [32, 64]


def test_what_is_undecided_is_hollow_in_every_plot_and_explained() -> None:
    briefs = sweep_of(sizes=(10,)).runs
    undecided = [run for run in briefs if run.settings[BATCH] == 64]
    for run in undecided:  # each setup is faster in some rounds
        is_fast = (run.tags["tfbench.round"] == "2") == (run.tags["tfbench.setup"] == DEFAULT)
        run.metrics["samples_per_second"] = 2000.0 if is_fast else 1000.0
    found = plots_of(compare(briefs, keys=[BATCH]))
    for plot in found.values():
        baseline, other = plot.panels[0].series
        assert not any(point.is_open for point in baseline.points)
        assert {point.x: point.is_open for point in other.points} == {32: False, 64: True}
        assert "hollow: undecided" in plot.title
    assert not any("hollow" in plot.title for plot in plots_of(sweep_of()).values())


def test_single_runs_have_no_intervals_and_what_there_is_nothing_of_no_plot() -> None:
    (plot,) = comparison_plots(
        compare([build_brief(100.0 * batch, batch=batch) for batch in (32, 64)])
    )
    assert [point.low for point in plot.panels[0].series[0].points] == [None, None]
    assert "intervals" not in plot.title
    other = Setup(strategy="one_device", devices=("cpu:0",))
    assert comparison_plots(compare([build_brief(), build_brief(setup=other)])) == ()
    failures = [
        Failure(configuration={BATCH: batch}, setup=DEFAULT, outcome="FAILED", reason="NaN")
        for batch in (32, 64)
    ]
    assert comparison_plots(compare([], keys=[BATCH], failures=failures)) == ()


@pytest.mark.parametrize(
    ("settings", "label", "xs"),
    [
        ([{BATCH: 32}, {BATCH: 64}], "global batch size (samples)", [32.0, 64.0]),
        ([{THREADS: 1}, {THREADS: 2}], "intra op threads", [1.0, 2.0]),
        ([{WIDTH: [10]}, {WIDTH: [20]}], "parameters of the network", [10.0, 20.0]),
        (
            [{"model.activation": "relu"}, {"model.activation": "tanh"}],
            "global batch size (samples)",
            [32.0, 32.0],
        ),
    ],
)
def test_the_x_axis_is_the_batch_size_or_what_else_is_varied(
    settings: list[Fields], label: str, xs: list[float]
) -> None:
    briefs = [
        build_brief(
            100.0,
            batch=one.get(BATCH, 32),
            parameters=one.get(WIDTH, [1000])[0],
            settings=one,
            run_id=str(index),
        )
        for index, one in enumerate(settings)
    ]
    layout = lay_out(compare(briefs, keys=list(settings[0])))
    assert layout.x_label == label
    assert [x for panel in layout.panels for x, _ in panel.points] == xs
    assert len(layout.panels) == (2 if "model.activation" in settings[0] else 1)


def test_the_corners_are_the_ends_of_both_ranges() -> None:
    rows = corner_rows(sweep_of(sizes=(10, 20, 30), batches=(32, 64, 128)))
    assert [(row.num_parameters, row.global_batch_size) for row in rows] == [
        (10, 32),
        (10, 128),
        (30, 32),
        (30, 128),
    ]
