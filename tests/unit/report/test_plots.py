import dataclasses
import struct
import sys
from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text

from builders import build_epoch, build_recipe, build_request, build_result, build_span
from tfbench.analysis.run.summary import summarize
from tfbench.metrics import LEDGER_ENTRIES
from tfbench.records.machine import LedgerRecord
from tfbench.records.run import DatasetSummary, RunExit, RunResult
from tfbench.report import figures as figures_of_comparisons
from tfbench.report.run.plots import write_plots

REFERENCES = [
    {
        "hardware": "Old GPU",
        "devices": "1 gpu",
        "source": "A paper",
        "figures": {"val_accuracy": 0.9},
        "curve": {"val_accuracy": [0.5, 0.8, 0.9]},
    },
    {
        "hardware": "Old CPU",
        "devices": "cpu",
        "source": "A paper",
        "figures": {"val_accuracy": 0.85},
        "verified": False,
    },
]


@pytest.fixture
def figures(monkeypatch: pytest.MonkeyPatch) -> dict[str, Figure]:
    """Collects the figures that are written, by file name."""
    written: dict[str, Figure] = {}

    def savefig(self: Figure, path: Path, **_: Any) -> None:
        written[path.name] = self

    monkeypatch.setattr(Figure, "savefig", savefig)
    return written


def build_trained_run(*, synthetic: bool = False) -> RunResult:
    recipe = build_recipe(dataset={"data": "real"}, training={"epochs": 3}, reference=REFERENCES)
    epochs = tuple(
        build_epoch(epoch=n, num_steps=20, loss=1 / n, val_loss=1.1 / n, accuracy=1 - 0.3 / n, val_accuracy=1 - 0.4 / n)
        for n in (1, 2, 3)
    )
    spans = [build_span(first_step=1, last_step=1)]
    spans += [build_span(epoch=1 + n // 20, first_step=n + 1, last_step=n + 1, seconds=0.1) for n in range(1, 60)]
    data = DatasetSummary(name="mnist", source="seed 0", synthetic=synthetic, train_samples=640, validation_samples=100)
    return build_result(request=build_request(recipe=recipe), epochs=epochs, spans=tuple(spans), dataset=data)


def draw(result: RunResult, folder: Path) -> list[Path]:
    return write_plots(result, summarize(result, warmup_steps=1), folder)


def labels_of(figure: Figure) -> list[str]:
    return [str(line.get_label()) for line in figure.axes[0].get_lines()]


def test_a_trained_run_gives_three_pictures(tmp_path: Path) -> None:
    written = draw(build_trained_run(), tmp_path / "plots")
    assert [path.name for path in written] == ["loss.png", "accuracy.png", "samples_per_second.png"]
    for path in written:
        data = path.read_bytes()
        assert data.startswith(b"\x89PNG")
        assert struct.unpack(">II", data[16:24]) == (1200, 675)


def test_a_run_without_a_finished_epoch_gives_none(tmp_path: Path) -> None:
    assert draw(build_result(epochs=()), tmp_path / "plots") == []
    assert not (tmp_path / "plots").exists()


def test_a_run_that_was_stopped_in_its_first_epoch_gives_no_curve_over_epochs(tmp_path: Path) -> None:
    limited = build_request(recipe=build_recipe(measurement={"seconds": 1.0}))
    result = build_result(request=limited, epochs=(build_epoch(samples_per_second=99.0),))
    assert [path.name for path in draw(result, tmp_path)] == ["samples_per_second.png"]


def test_a_run_without_accuracies_gives_no_plot_of_them(tmp_path: Path) -> None:
    result = build_result(epochs=(build_epoch(accuracy=None, val_accuracy=None),))
    assert [path.name for path in draw(result, tmp_path)] == ["loss.png", "samples_per_second.png"]


def test_a_run_without_validation_shows_no_line_for_it(tmp_path: Path, figures: dict[str, Figure]) -> None:
    draw(build_result(epochs=(build_epoch(val_loss=None, val_accuracy=None),)), tmp_path)
    assert labels_of(figures["loss.png"]) == ["training"]


def test_accuracy_on_synthetic_data_is_marked(tmp_path: Path, figures: dict[str, Figure]) -> None:
    draw(build_trained_run(synthetic=True), tmp_path)
    assert "accuracy on synthetic data" in figures["accuracy.png"].axes[0].get_title()
    assert labels_of(figures["accuracy.png"]) == ["training", "validation"]  # published ones are of another task
    draw(build_trained_run(), tmp_path)
    assert "synthetic" not in figures["accuracy.png"].axes[0].get_title()


def test_published_accuracies_stand_beside_ours(tmp_path: Path, figures: dict[str, Figure]) -> None:
    draw(build_trained_run(), tmp_path)
    assert labels_of(figures["accuracy.png"]) == [
        "training",
        "validation",
        "validation, Old GPU",
        "validation, Old CPU (unverified)",
    ]
    curve, level = figures["accuracy.png"].axes[0].get_lines()[2:]
    assert list(curve.get_ydata()) == [0.5, 0.8, 0.9]
    assert set(level.get_ydata()) == {0.85}


def test_axes_name_their_units(tmp_path: Path, figures: dict[str, Figure]) -> None:
    draw(build_trained_run(), tmp_path)
    names = {name: (figure.axes[0].get_xlabel(), figure.axes[0].get_ylabel()) for name, figure in figures.items()}
    assert names == {
        "loss.png": ("epoch", "loss (sparse_categorical_crossentropy)"),
        "accuracy.png": ("epoch", "accuracy (share of samples)"),
        "samples_per_second.png": ("step", "samples per second, all replicas (samples/s)"),
    }


def test_the_speed_of_each_steady_span_lies_at_its_middle_step(tmp_path: Path, figures: dict[str, Figure]) -> None:
    measured = [(1, 1, 2.0), (2, 10, 1.0), (11, 20, 1.0)]
    spans = tuple(build_span(first_step=first, last_step=last, seconds=seconds) for first, last, seconds in measured)
    draw(build_result(spans=spans), tmp_path)
    drawn, epochs = figures["samples_per_second.png"].axes[0].get_lines()
    assert list(drawn.get_xdata()) == [6.0, 15.5]
    assert list(drawn.get_ydata()) == [9 * 32, 10 * 32]
    assert (list(epochs.get_xdata()), list(epochs.get_ydata())) == ([20], [320.0])


def test_a_loss_that_falls_far_has_a_logarithmic_axis(tmp_path: Path, figures: dict[str, Figure]) -> None:
    draw(build_result(epochs=(build_epoch(loss=1.0), build_epoch(epoch=2, loss=0.01))), tmp_path)
    assert figures["loss.png"].axes[0].get_yscale() == "log"
    draw(build_trained_run(), tmp_path)
    assert figures["loss.png"].axes[0].get_yscale() == "linear"


def test_plots_need_no_pyplot_and_so_no_display(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)  # importing it now fails
    assert len(draw(build_trained_run(), tmp_path)) == 3


def test_the_ledger_is_a_bar_whose_parts_add_up_to_the_wall_time(tmp_path: Path, figures: dict[str, Figure]) -> None:
    ledger = LedgerRecord(entries={"startup": 3.0, "first_step": 1.0, "steady": 4.0}, elapsed_seconds=9.0)
    result = build_result(ledger=ledger, exit=RunExit(status="FINISHED", worker_seconds=10.0))
    draw(result, tmp_path)
    axes = figures["ledger.png"].axes[0]
    widths = [bar.get_width() for bar in axes.patches]
    assert widths == [3.0, 1.0, 4.0, 1.0, 1.0]
    assert sum(widths) == axes.get_xlim()[1] == 10.0
    legend = axes.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == [
        "startup: 3.00 s, 30 %",
        "first step: 1.00 s, 10 %",
        "steady: 4.00 s, 40 %",
        "teardown: 1.00 s, 10 %",
        "unaccounted: 1.00 s, 10 %",
    ]
    assert len({bar.get_hatch() for bar in axes.patches}) == 5


def test_every_entry_of_the_ledger_can_be_told_from_the_others(tmp_path: Path, figures: dict[str, Figure]) -> None:
    ledger = LedgerRecord(entries=dict.fromkeys(LEDGER_ENTRIES, 1.0), elapsed_seconds=20.0)
    draw(build_result(ledger=ledger, exit=RunExit(status="FINISHED", worker_seconds=21.0)), tmp_path)
    bars = figures["ledger.png"].axes[0].patches
    assert len({bar.get_hatch() for bar in bars}) == len(bars) == len(LEDGER_ENTRIES) + 1
    assert len({bar.get_facecolor() for bar in bars}) == len(bars)


def test_an_entry_of_the_ledger_looks_the_same_in_every_plot(tmp_path: Path, figures: dict[str, Figure]) -> None:
    styles = []
    for entries in ({"startup": 3.0, "steady": 4.0}, {"data": 1.0, "first_step": 1.0, "steady": 4.0}):
        ledger = LedgerRecord(entries=entries, elapsed_seconds=7.0)
        draw(build_result(ledger=ledger, exit=RunExit(status="FINISHED", worker_seconds=7.0)), tmp_path)
        (steady,) = [bar for bar in figures["ledger.png"].axes[0].patches if bar.get_width() == 4.0]
        styles.append((steady.get_facecolor(), steady.get_hatch()))
    assert styles[0] == styles[1]


def test_a_text_of_the_users_is_drawn_as_it_is_and_never_read_as_mathematics(tmp_path: Path) -> None:
    result = build_trained_run()
    title = r"50 % of $\HOME$, \$5"
    recipe = build_recipe(
        recipe={"title": title, "source": "x"},
        dataset={"data": "real"},
        training={"epochs": 3},
        reference=[{**REFERENCES[0], "hardware": title}],
    )
    result = dataclasses.replace(result, request=build_request(recipe=recipe))
    written = draw(result, tmp_path / "plots")
    assert len(written) == 3
    figure = figures_of_comparisons.new_figure(2.0, title)
    figures_of_comparisons.to_png(figure)
    assert not [text for text in figure.findobj(Text) if text.get_parse_math() or text.get_usetex()]


def test_the_levels_of_a_logarithmic_loss_are_plain_numbers(figures: dict[str, Figure], tmp_path: Path) -> None:
    epochs = tuple(build_epoch(epoch=n, num_steps=20, loss=10.0**-n, val_loss=2 * 10.0**-n) for n in range(4))
    draw(build_result(epochs=epochs), tmp_path)
    axes = figures["loss.png"].axes[0]
    figures["loss.png"].draw_without_rendering()
    labels = [label.get_text() for label in (*axes.get_yticklabels(), *axes.get_yticklabels(minor=True))]
    assert {"0.001", "0.01", "0.1", "1"} <= set(labels)
    assert not [label for label in labels if "$" in label]
