import math
from typing import Any

import pytest
from matplotlib.axes import Axes

from sweeps import TWO_ARMS, build_brief
from tfbench.analysis.comparison.brief import RunBrief
from tfbench.analysis.comparison.comparison import Comparison, Failure, compare
from tfbench.records.sweep import Arm
from tfbench.report.comparison.layout import corner_rows, lay_out
from tfbench.report.comparison.plots import median_ledgers, plot_comparison
from tfbench.report.figures import keep_ends, to_png

BATCH, WIDTH = "training.global_batch_size", "model.hidden_units"
DEFAULT, MIRRORED = (arm.label for arm in TWO_ARMS)
SPEEDUP = "speedup_mirrored-cpu-0-cpu-1.png"


def sweep_of(sizes: tuple[int, ...] = (10, 20), batches: tuple[int, ...] = (32, 64), **options: Any) -> Comparison:
    """Compares arms of which the second is half as fast at the first batch size and twice as fast at any other."""
    briefs = [
        build_brief(
            1000.0
            * batch
            / size
            * (1 if arm is TWO_ARMS[0] else 0.5 if batch == batches[0] else 2)
            * (1 + number / 100),
            arm=arm,
            parameters=size,
            batch=batch,
            round_number=number,
        )
        for size in sizes
        for batch in batches
        for arm in TWO_ARMS
        for number in (1, 2, 3)
    ]
    return compare(briefs, keys=[WIDTH, BATCH], **options)


def texts_of(axes: Axes) -> list[str]:
    return [text.get_text() for text in axes.texts]


def test_a_panel_is_a_network_and_a_line_an_arm() -> None:
    figure = plot_comparison(sweep_of())["samples_per_second.png"].figure
    assert [axes.get_title() for axes in figure.axes] == [
        "hidden_units=[10]\n10 parameters",
        "hidden_units=[20]\n20 parameters",
    ]
    axes = figure.axes[0]
    first, second = [line for line in axes.get_lines() if line.get_label() in (DEFAULT, MIRRORED)]
    assert list(first.get_xdata()) == [32.0, 64.0]
    mean = (1.01 * 1.02 * 1.03) ** (1 / 3)  # of the three rounds, the geometric one
    assert list(first.get_ydata()) == pytest.approx([3200.0 * mean, 6400.0 * mean])
    assert list(second.get_ydata()) == pytest.approx([1600.0 * mean, 12800.0 * mean])
    assert (first.get_linestyle(), first.get_marker()) != (second.get_linestyle(), second.get_marker())
    assert (axes.get_yscale(), axes.get_xlabel()) == ("log", "global batch size (samples)")
    assert axes.get_ylabel() == "samples/s, all replicas"
    assert figure.get_suptitle().endswith("speed by global batch size (samples), bars: 95 % intervals")
    assert {axes.get_ylim() for axes in figure.axes} == {axes.get_ylim()}


def test_intervals_are_drawn_as_they_are() -> None:
    comparison = sweep_of()
    axes = plot_comparison(comparison)["samples_per_second.png"].figure.axes[0]
    bars = [segment for collection in axes.collections for segment in collection.get_segments()]
    interval = comparison.rows[0].entries[DEFAULT].interval
    assert interval is not None
    assert bars[0].tolist() == [[32.0, pytest.approx(interval.low)], [32.0, pytest.approx(interval.high)]]
    assert len(bars) == 4


def test_single_runs_have_no_intervals_and_are_drawn_all_the_same() -> None:
    briefs = [build_brief(100.0 * batch, batch=batch) for batch in (32, 64)]
    plots = plot_comparison(compare(briefs))
    assert list(plots) == ["samples_per_second.png"]
    assert not plots["samples_per_second.png"].figure.axes[0].collections
    assert to_png(plots["samples_per_second.png"].figure).startswith(b"\x89PNG")


def test_one_setting_gives_no_plots_and_neither_do_runs_without_a_speed() -> None:
    other = Arm(strategy="one_device", devices=("cpu:0",))
    assert plot_comparison(compare([build_brief(), build_brief(arm=other)])) == {}
    failures = [Failure(setting={BATCH: batch}, arm=DEFAULT, outcome="FAILED", reason="NaN") for batch in (32, 64)]
    assert plot_comparison(compare([], keys=[BATCH], failures=failures)) == {}


def test_wide_intervals_of_two_runs_do_not_press_the_lines_together() -> None:
    briefs = [
        build_brief(speed, batch=batch, run_id=f"{speed}-{batch}") for batch in (32, 64) for speed in (100.0, 200.0)
    ]
    axes = plot_comparison(compare(briefs, keys=[BATCH]))["samples_per_second.png"].figure.axes[0]
    assert math.log10(axes.get_ylim()[1] / axes.get_ylim()[0]) < 1.6  # the interval alone spans four decades


def test_cells_say_speed_up_and_mark_and_failures_what_they_are() -> None:
    failures = [
        Failure(
            setting={WIDTH: [20], BATCH: 128}, arm=MIRRORED, outcome="KILLED", reason="out of memory: it took 9 GiB"
        ),
        Failure(setting={WIDTH: [20], BATCH: 256}, arm=MIRRORED, outcome="MISSING", reason="not measured"),
    ]
    plot = plot_comparison(sweep_of(failures=failures))[SPEEDUP]
    axes = plot.figure.axes[0]
    assert texts_of(axes) == ["0.50 -", "2.00 +", "out of\nmemory", "not\nmeasured", "0.50 -", "2.00 +"]
    assert [label.get_text() for label in axes.get_yticklabels()] == [
        "hidden_units=[20]\n20 parameters",
        "hidden_units=[10]\n10 parameters",
    ]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["32", "64", "128", "256"]
    assert axes.get_ylim()[0] > axes.get_ylim()[1]  # the first row, the largest network, is on top
    assert "2 faster, 2 slower" in plot.alt


def test_colours_are_centred_at_no_difference_on_a_logarithmic_scale() -> None:
    figure = plot_comparison(sweep_of())[SPEEDUP].figure
    cells, scale = figure.axes
    assert scale.get_ylim() == pytest.approx((-1.0, 1.0))  # powers of two
    assert [label.get_text() for label in scale.get_yticklabels()] == ["0.5 x", "1 x", "2 x"]
    slower, faster = (cells.patches[index].get_facecolor() for index in (0, 1))
    assert slower[0] > slower[2]
    assert faster[2] > faster[0]


def _cells_of(speeds: dict[int, tuple[float, float]]) -> Any:
    """Returns the cells of two settings at which each arm has these speeds, in two rounds."""
    briefs = [
        build_brief(speed, arm=arm, batch=batch, round_number=number)
        for batch in (32, 64)
        for place, arm in enumerate(TWO_ARMS)
        for number, speed in enumerate(speeds[place], 1)
    ]
    return plot_comparison(compare(briefs, keys=[BATCH]))[SPEEDUP].figure.axes[0]


def test_what_is_too_noisy_to_tell_has_no_colour() -> None:
    cells = _cells_of({0: (90.0, 110.0), 1: (20.0, 70.0)})  # a fourth to two thirds, of rounds that scatter as widely
    assert {text[-1] for text in texts_of(cells)} == {"!"}
    assert {cell.get_facecolor()[:3] for cell in cells.patches} == {(0.93, 0.93, 0.93)}


def test_what_differs_by_no_more_than_chance_has_the_colour_of_no_difference() -> None:
    cells = _cells_of({0: (100.0, 100.0), 1: (96.0, 102.0)})
    assert {text[-1] for text in texts_of(cells)} == {"="}
    (color,) = {cell.get_facecolor()[:3] for cell in cells.patches}
    assert color[0] == pytest.approx(color[2], abs=0.02)  # neither orange nor blue
    assert min(color) > 0.93


def test_an_arm_that_is_not_alike_is_said_to_be_unequal() -> None:
    briefs = [build_brief(batch=batch) for batch in (32, 64)]
    briefs += [build_brief(200.0, arm=TWO_ARMS[1], batch=32)]
    briefs.append(build_brief(200.0, arm=TWO_ARMS[1], batch=64, settings={"compiler": "xla"}))
    axes = plot_comparison(compare(briefs, keys=[BATCH]))[SPEEDUP].figure.axes[0]
    assert texts_of(axes) == ["2.00 ?", "unequal"]
    assert {cell.get_facecolor()[:3] for cell in axes.patches} == {(0.93, 0.93, 0.93)}  # neither is judged


def test_of_many_networks_the_ends_are_kept_and_a_note_says_so() -> None:
    figure = plot_comparison(sweep_of(sizes=tuple(range(1, 10))))["samples_per_second.png"].figure
    assert len(figure.axes) == 6
    assert figure.axes[0].get_title().startswith("hidden_units=[1]\n")
    assert figure.axes[-1].get_title().startswith("hidden_units=[9]\n")
    assert figure.get_suptitle().endswith("6 of 9 networks are shown, the table has all of them")


def test_arms_whose_names_make_the_same_file_name_have_a_file_each() -> None:
    arms = (TWO_ARMS[0], Arm(strategy="mirrored", devices=("gpu:0,1",)), Arm(strategy="mirrored", devices=("gpu:0:1",)))
    briefs = [
        build_brief(100.0, arm=arm, batch=batch, run_id=f"{arm.label}{batch}") for arm in arms for batch in (32, 64)
    ]
    names = list(plot_comparison(compare(briefs)))
    assert names == ["samples_per_second.png", "speedup_mirrored-gpu-0-1.png", "speedup_2_mirrored-gpu-0-1.png"]


@pytest.mark.parametrize(
    ("settings", "label", "xs"),
    [
        ([{BATCH: 32}, {BATCH: 64}], "global batch size (samples)", [32.0, 64.0]),
        ([{"threads": 1}, {"threads": 2}], "threads", [1.0, 2.0]),
        ([{WIDTH: [10]}, {WIDTH: [20]}], "parameters of the network", [10.0, 20.0]),
        ([{"model.activation": "relu"}, {"model.activation": "tanh"}], "global batch size (samples)", [32.0, 32.0]),
    ],
)
def test_the_x_axis_is_the_batch_size_or_what_else_is_varied(
    settings: list[dict[str, Any]], label: str, xs: list[float]
) -> None:
    def brief_of(index: int, setting: dict[str, Any]) -> RunBrief:
        values = {"training.intra_op_threads" if key == "threads" else key: value for key, value in setting.items()}
        size = setting.get(WIDTH, [1000])[0]
        return build_brief(100.0, batch=setting.get(BATCH, 32), parameters=size, settings=values, run_id=str(index))

    briefs = [brief_of(index, setting) for index, setting in enumerate(settings)]
    layout = lay_out(compare(briefs, keys=list(settings[0])))
    assert layout.x_label == label
    assert [x for panel in layout.panels for x, _ in panel.points] == xs
    assert len(layout.panels) == (2 if "model.activation" in settings[0] else 1)


def test_the_corners_are_the_ends_of_both_ranges() -> None:
    rows = corner_rows(sweep_of(sizes=(10, 20, 30), batches=(32, 64, 128)))
    assert [(row.num_parameters, row.global_batch_size) for row in rows] == [(10, 32), (10, 128), (30, 32), (30, 128)]


def test_the_ledger_is_the_median_of_the_runs_of_an_arm() -> None:
    def brief_of(number: int, steady: float) -> RunBrief:
        plain = build_brief()
        ledger = {"ledger/wall_seconds": steady + 3, "ledger/startup_seconds": 3.0, "ledger/steady_seconds": steady}
        return build_brief(run_id=str(number), metrics=plain.metrics | ledger)

    comparison = compare([brief_of(number, steady) for number, steady in enumerate((1.0, 5.0, 6.0))])
    assert median_ledgers(comparison)[DEFAULT]["steady"] == 5.0
    axes = plot_comparison(comparison)["ledger.png"].figure.axes[0]
    assert [(bar.get_x(), bar.get_width()) for bar in axes.patches] == [(0.0, 3.0), (3.0, 5.0)]
    assert len({bar.get_hatch() for bar in axes.patches}) == 2
    assert axes.get_xlabel() == "time (s)"


def test_keeps_the_ends_of_a_range() -> None:
    assert keep_ends([1, 2, 3], 5) == [1, 2, 3]
    assert keep_ends(list(range(100)), 4) == [0, 33, 66, 99]
