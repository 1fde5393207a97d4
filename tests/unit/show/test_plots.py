"""Any plot as a picture, and what the plots of a run hold."""

import struct
import sys
from pathlib import Path

import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text

from builders import (
    build_dataset,
    build_epoch,
    build_recipe,
    build_request,
    build_result,
    build_span,
)
from plots import SLOW, build_plot
from tfbench.runs.epoch_plots import TimeCurve, plots_by_time, run_plots
from tfbench.runs.record import RunResult
from tfbench.runs.summary import summarize_run
from tfbench.show.figures import lines, png, svg, write_plots
from tfbench.show.plot import Plot, PlotLine, Point, keep_ends

PAPER = {"devices": "1 gpu", "source": "A paper"}
REFERENCES = [
    PAPER
    | {
        "hardware": "Old GPU",
        "figures": {"val_accuracy": 0.9},
        "curve": {"val_accuracy": [0.5, 0.8, 0.9]},
    },
    PAPER | {"hardware": "Old CPU", "figures": {"val_accuracy": 0.85}, "verified": False},
]


def build_trained_run(*, synthetic: bool = False, title: str = "Test") -> RunResult:
    recipe = build_recipe(
        recipe={"title": title, "source": "x"},
        dataset={"data": "real"},
        training={"epochs": 3},
        reference=[REFERENCES[0] | {"hardware": title}, REFERENCES[1]],
    )
    epochs = []
    spans = [build_span(first_step=1, last_step=1)]
    for number in (1, 2, 3):
        figures = {"loss": 1 / number, "val_loss": 1.1 / number, "accuracy": 1 - 0.3 / number}
        figures["val_accuracy"] = 1 - 0.4 / number
        epochs.append(build_epoch(epoch=number, num_steps=20, **figures))
    for step in range(2, 61):
        epoch = 1 + (step - 1) // 20
        spans.append(build_span(epoch=epoch, first_step=step, last_step=step, seconds=0.1))
    return build_result(
        request=build_request(recipe=recipe),
        epochs=tuple(epochs),
        spans=tuple(spans),
        dataset=build_dataset(synthetic=synthetic),
    )


def plots_of(result: RunResult) -> dict[str, Plot]:
    return {plot.name: plot for plot in run_plots(result, summarize_run(result))}


def series_of(plot: Plot) -> dict[str, list[tuple[float, float]]]:
    found = {}
    for panel in plot.panels:
        for line in panel.series:
            if line.points:
                found[line.name] = [(point.x, point.y) for point in line.points]
    return found


def test_a_plot_is_a_file_and_a_part_of_a_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(
        sys.modules, "matplotlib.pyplot", None
    )  # which may ask for a display: importing it now fails
    plot = build_plot(PlotLine("half of 1.23456 < 2", (Point(32, 1.0), Point(64, 2.0))))
    (path,) = write_plots([plot], tmp_path / "plots")
    assert struct.unpack(">I", path.read_bytes()[16:20]) == (1200,)
    assert write_plots([], tmp_path / "none") == [] and not (tmp_path / "none").exists()
    picture = svg(plot)
    assert picture == svg(plot) and picture.startswith("<svg ") and "://" not in picture
    assert "half of 1.23456 &lt; 2</text>" in picture


def test_lines_are_told_apart_without_colour_and_intervals_are_drawn_as_they_are() -> None:
    (axes,) = lines(build_plot()).axes
    slow, fast = (line for line in axes.get_lines() if line.get_label() in ("slow", "fast"))
    assert (list(slow.get_xdata()), list(slow.get_ydata())) == ([32, 64], [100.0, 150.0])
    assert (slow.get_linestyle(), slow.get_marker()) != (fast.get_linestyle(), fast.get_marker())
    intervals = []
    for collection in axes.collections:
        intervals += [segment.tolist() for segment in collection.get_segments()]
    assert intervals == [
        [[32, 90.0], [32, 110.0]],
        [[64, 140.0], [64, 160.0]],
        [[32, 180.0], [32, 220.0]],
    ]


def test_what_chance_may_have_put_somewhere_has_a_hollow_marker() -> None:
    points = (Point(32, 100.0), Point(64, 150.0, 140.0, 160.0, is_open=True))
    (axes,) = lines(build_plot(PlotLine("some", points))).axes
    hollow = [line for line in axes.get_lines() if line.get_markerfacecolor() == "#ffffff"]
    assert [(list(line.get_xdata()), list(line.get_ydata())) for line in hollow] == [
        ([64], [150.0])
    ]
    (legend,) = axes.figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["some"]


def test_the_picture_says_what_was_compared_and_what_was_found() -> None:
    plot = build_plot(finding="Use fast.", level=(300.0, "the baseline"))
    figure = lines(plot)
    assert figure.get_suptitle() == "What\nUse fast."
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["slow", "fast", "the baseline"]
    assert plot.alt == "What. Use fast. samples/s by batch: slow, fast."


def test_a_sweep_over_a_wide_range_has_a_logarithmic_axis_with_a_tick_at_each_value() -> None:
    wide = PlotLine("wide", tuple(Point(x, 1.0) for x in (1, 8, 1000)))
    for line, scale, ticks in ((wide, "log", [1, 8, 1000]), (SLOW, "linear", [32, 64])):
        (axes,) = lines(build_plot(line, is_swept=True)).axes
        assert (axes.get_xscale(), list(axes.get_xticks())) == (scale, ticks)
    # An interval may go beyond the axis.
    noisy = PlotLine("noisy", (Point(32, 100.0, 1.0, 10_000.0), Point(64, 120.0)))
    (axes,) = lines(build_plot(noisy, scale="logarithmic")).axes
    assert axes.get_ylim()[0] > 10.0 and axes.get_ylim()[1] < 1000.0


def test_of_many_panels_the_ends_are_kept_and_a_note_says_so() -> None:
    figure = lines(build_plot(SLOW, num_panels=9))
    assert [axes.get_title() for axes in figure.axes] == [
        f"panel {number}" for number in (0, 2, 3, 5, 6, 8)
    ]
    assert figure.get_suptitle().endswith("6 of 9 are shown, the table has all.")
    assert keep_ends([1, 2, 3], 5) == [1, 2, 3]


def test_a_text_of_the_users_is_drawn_as_it_is_and_never_read_as_mathematics(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    texts = []
    monkeypatch.setattr(
        Figure, "savefig", lambda figure, *_, **__: texts.extend(figure.findobj(Text))
    )
    title = r"50 % of $\HOME$, \$5"
    for plot in plots_of(build_trained_run(title=title)).values():
        png(plot)
    assert any(title in text.get_text() for text in texts)
    assert not [text for text in texts if text.get_parse_math() or text.get_usetex()]


def test_a_trained_run_has_its_course_and_says_what_it_was_made_on() -> None:
    plots = plots_of(build_trained_run())
    assert list(plots) == ["loss.png", "accuracy.png"]
    titles = {plot.title.splitlines()[1] for plot in plots.values()}
    assert titles == {"Test, real data, batch 32, one_device on cpu:0 (Example CPU 3000)"}
    assert plots["loss.png"].y_label == "sparse categorical crossentropy (lower is better)"


def test_what_there_is_nothing_of_has_no_plot() -> None:
    no_accuracy = build_epoch(accuracy=None, val_accuracy=None)
    limited = build_request(
        recipe=build_recipe(measurement={"seconds": 1.0})
    )  # it was stopped in its first epoch
    assert plots_of(build_result(epochs=())) == plots_of(build_result(request=limited)) == {}
    assert list(plots_of(build_result(epochs=(no_accuracy,)))) == ["loss.png"]


def test_published_accuracies_stand_beside_those_of_the_same_data() -> None:
    found = series_of(plots_of(build_trained_run())["accuracy.png"])
    assert list(found)[:2] == ["training", "validation"]
    assert found["published validation, Test"] == [(1, 0.5), (2, 0.8), (3, 0.9)]
    assert found["published validation, Old CPU (unverified)"] == [(1, 0.85), (3, 0.85)]
    plot = plots_of(build_trained_run(synthetic=True))["accuracy.png"]
    assert "synthetic data" in plot.title
    assert list(series_of(plot)) == ["training", "validation"]


def test_figures_by_time_have_a_panel_for_each_setting_and_a_line_for_each_setup() -> None:
    accuracy = ((1.0, 0.5), (2.0, 0.75))
    samples = ((1.0, 1000.0), (2.0, 2000.0))
    curves = []
    for configuration in ("small", "large"):
        for setup in ("a", "b"):
            curves.append(TimeCurve(configuration, setup, accuracy, samples))
    of_samples, of_accuracy = plots_by_time(curves, "mnist_mlp, real data")
    for plot, points in ((of_samples, samples), (of_accuracy, accuracy)):
        assert [panel.title for panel in plot.panels] == ["small", "large"]
        assert series_of(plot) == {"a": list(points), "b": list(points)}
    (only,) = plots_by_time([TimeCurve("small", "a", (), samples)], "x")
    assert only.name == "samples_by_time.png"
    assert plots_by_time([TimeCurve("small", "a", (), ())], "x") == ()
