import dataclasses
import io
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from builders import (
    build_dataset,
    build_environment,
    build_epoch,
    build_peak,
    build_placement,
    build_progress,
    build_recipe,
    build_request,
    build_result,
    build_span,
    build_usage,
)
from kinds import Golden
from screens import Screen
from tfbench.machine.facts import BreakdownRecord, InputCheck
from tfbench.runs.console import RunConsole
from tfbench.runs.record import (
    ModelSummary,
    RunExit,
    RunResult,
    Summary,
    TrackedRun,
)
from tfbench.runs.run_text import next_section, run_sections
from tfbench.runs.stored_run import Run
from tfbench.runs.summary import summarize_run
from tfbench.show import formats
from tfbench.show.table import text

RUN_ID = "0123456789abcdef" * 2
JOURNAL = f"/home/u/mlruns/journals/{RUN_ID}.jsonl"
TRACKED = TrackedRun(
    tracking_uri="sqlite:////home/u/mlruns/mlflow.db",
    experiment_id="1",
    run_id="fedcba9876543210" * 2,
)
REFERENCES = [
    {
        "hardware": "Intel i7-6850K",
        "devices": "cpu",
        "source": "An article",
        "notes": "loss is of the last batch",
        "figures": {
            "epochs": 20,
            "elapsed_seconds": 131.866,
            "loss": 0.000392997,
            "val_accuracy": 0.9802,
        },
    },
    {
        "hardware": "NVIDIA Titan X (Pascal)",
        "devices": "1 gpu",
        "source": "An article",
        "figures": {"epochs": 20, "elapsed_seconds": 34.7934, "val_accuracy": 0.9835},
        "verified": False,
    },
]


pytestmark = pytest.mark.usefixtures("plain_terminal")


def build_mnist_run() -> RunResult:
    recipe = build_recipe(
        recipe={"title": "MNIST MLP"},
        model={"hidden_units": [1000, 1000]},
        training={"global_batch_size": 100, "epochs": 3},
        reference=REFERENCES,
    )
    learned = [
        (0.192, 0.944, 0.0983, 0.9689),
        (0.0731, 0.97725, 0.0766771, 0.9761),
        (0.000392997, 1.0, 0.0812, 0.9802),
    ]
    epochs = tuple(
        build_epoch(
            epoch=number,
            num_steps=600,
            epoch_seconds=5.125 if number == 1 else 4.0,
            validation_seconds=0.25,
            elapsed_seconds=4.25 * number + 1.125,
            samples_per_second=15000.0 + number / 3,
            loss=loss,
            accuracy=accuracy,
            val_loss=val_loss,
            val_accuracy=val_accuracy,
        )
        for number, (loss, accuracy, val_loss, val_accuracy) in enumerate(learned, start=1)
    )
    return build_result(
        request=build_request(recipe=recipe, run_id=RUN_ID, name="brave-otter"),
        placement=build_placement(
            strategy="mirrored",
            devices=("cpu:0", "cpu:1"),
            num_replicas=2,
            global_batch_size=100,
            per_replica_batch_size=50,
            cross_device_ops="hierarchical_copy",
            notes=("no GPU found: mirrored runs on the CPU",),
        ),
        dataset=build_dataset(),
        model=ModelSummary(
            num_parameters=1_796_010,
            num_trainable_parameters=1_796_010,
            flops_per_sample=3_588_000,
            training_flops_per_sample=9_196_000,
        ),
        steps_per_epoch=600,
        spans=(
            build_span(first_step=1, last_step=1, seconds=1.125),
            build_span(first_step=2, last_step=600, seconds=4.0),
            build_span(epoch=2, first_step=601, last_step=1200, seconds=4.0),
            build_span(epoch=3, first_step=1201, last_step=1800, seconds=4.0),
        ),
        epochs=epochs,
        usage=build_usage(peak_memory_bytes=1_500_000_000, memory_before_model_bytes=600_000_000),
        input_check=InputCheck(num_batches=64, seconds=0.128),
        peak_checks=(build_peak(size=2048, num_rounds=4, flops=500_000_000_000),),
        breakdown=BreakdownRecord(
            entries={
                "startup": 4.0,
                "data": 0.02,
                "model": 0.5,
                "first_step": 1.125,
                "steady": 12.0,
                "validation": 0.75,
            },
            elapsed_seconds=18.45,
        ),
        exit=RunExit(status="FINISHED", worker_seconds=18.7),
    )


def build_failed_run() -> RunResult:
    finished = build_mnist_run()
    return dataclasses.replace(
        finished,
        stage="training",
        spans=finished.spans[:2],
        epochs=finished.epochs[:1],
        usage=None,
        input_check=None,
        peak_checks=(),
        exit=RunExit(
            status="FAILED",
            reason="the worker was killed by signal 9; the machine may be out of memory",
        ),
    )


def open_console(
    file: io.StringIO, width: int = 80, is_full: bool = False, **terminal: Any
) -> RunConsole:
    console = Console(file=file, width=width, **terminal)
    return RunConsole(quiet_stdout=False, is_full=is_full, console=console)


def show(
    result: RunResult,
    *,
    width: int,
    is_full: bool = True,
    tracked: TrackedRun | None = TRACKED,
    file: io.StringIO | None = None,
) -> str:
    file = file or io.StringIO()
    colors = {"force_terminal": True, "color_system": "standard"} if file.isatty() else {}
    shown = open_console(file, width, is_full, **colors)
    shown.stage("starting TensorFlow")
    shown.stage("loading data")
    shown.ready(result)
    for record in result.epochs:
        shown.progress(build_progress(step=600 * record.epoch - 300, epoch=record.epoch))
        shown.epoch(record)
    shown.finish(
        Run(result=result, summary=summarize_run(result), tracked=tracked, journal=Path(JOURNAL))
    )
    return file.getvalue()


@pytest.mark.parametrize(
    ("name", "result"), [("mnist", build_mnist_run()), ("failed", build_failed_run())]
)
@pytest.mark.parametrize("is_full", [True, False])
def test_a_run_without_a_terminal_is_shown_as_in_the_golden_file(
    golden: Golden, name: str, result: RunResult, is_full: bool
) -> None:
    shown = show(result, width=80, is_full=is_full, tracked=None if name == "failed" else TRACKED)
    assert shown.isascii() and max(map(len, shown.splitlines())) <= 80
    golden(f"{'console' if is_full else 'console_short'}_{name}_80.txt", shown)


def sections_of(
    result: RunResult, summary: Summary | None = None, *, width: int = 200, is_full: bool = False
) -> str:
    made = run_sections(result, summary or summarize_run(result), is_full=is_full)
    made.append(next_section(result, TRACKED, JOURNAL))
    return "\n".join(text(made, width))


def test_a_run_ends_shortly_whatever_its_warnings_and_says_where_the_rest_is() -> None:
    result = build_mnist_run()
    warnings = tuple(
        f"warning {number}: {'said at length ' * 12}. And more of it." for number in range(12)
    )
    summary = Summary(metrics=summarize_run(result).metrics, warnings=warnings)
    short = sections_of(result, summary, width=80)
    assert len(short.splitlines()) <= 24
    assert "9 more kinds of warning" in short and "And more of it" not in short
    assert f"tfbench runs {RUN_ID[:12]} --store /home/u/mlruns" in short
    assert sections_of(result, summary, is_full=True).count("And more of it") == 12


def test_settings_have_what_was_read_back_of_onednn_and_of_threads() -> None:
    environment = build_environment(tensorflow_onednn=False, thread_variables="OMP_NUM_THREADS=1")
    shown = sections_of(
        dataclasses.replace(build_mnist_run(), environment=environment), is_full=True
    ).split()
    assert shown[shown.index("tensorflow_onednn") + 1] == "false"
    assert shown[shown.index("thread_variables") + 1] == "OMP_NUM_THREADS=1"


def test_a_part_of_an_epoch_is_marked_and_is_none() -> None:
    finished = build_mnist_run()
    part = build_epoch(epoch=1, num_steps=21, elapsed_seconds=6.68)
    result = dataclasses.replace(finished, epochs=(part,))
    shown = show(result, width=120)
    assert "\n   1*  " in shown
    assert "\n* 21 of the 600 steps of an epoch\n" in shown


def test_a_terminal_shows_both_percentages_the_speed_and_the_time_left() -> None:
    shown = show(build_mnist_run(), width=80, file=Screen())
    assert " 16 %" in shown
    assert "epoch 1/3  50 %  150.0 steps/s  0:08 left" in shown
    assert "\x1b[1;32mFINISHED" in shown
    assert "\x1b[1;31mFAILED" in show(build_failed_run(), width=80, file=Screen())


def test_a_pipe_is_told_once_how_long_a_run_will_take() -> None:
    file = io.StringIO()
    shown = open_console(file)
    shown.ready(dataclasses.replace(build_mnist_run(), step_guess=90.0, epochs=()))
    shown.progress(build_progress(steps_per_second=None, seconds_left=None))
    shown.progress(build_progress(steps_per_second=0.02, seconds_left=7200.0))
    shown.progress(build_progress(steps_per_second=0.025, seconds_left=6000.0))
    lines = file.getvalue().splitlines()
    assert [line for line in lines if "left" in line] == ["50 s a step, about 2 h left"]
    assert any(line.startswith("i It takes 45 h, roughly: 90 s a step") for line in lines)


def test_no_thread_draws_beside_the_measurement() -> None:
    before = threading.active_count()
    shown = open_console(Screen(), force_terminal=True)
    shown.ready(build_mnist_run())
    shown.progress(build_progress(total_steps=None, steps_per_second=None, seconds_left=None))
    assert threading.active_count() == before
    shown.close()
    shown.close()


def test_a_long_first_step_says_how_long_it_has_taken() -> None:
    screen = Screen()
    shown = open_console(screen, force_terminal=True)
    shown.stage("building the model")
    shown.first_step(0.0)
    shown.first_step(74.0)
    assert "first step, 1:14 so far" in screen.getvalue()
    shown.close()
    file = io.StringIO()
    shown = open_console(file)
    for seconds in range(0, 300, 2):
        shown.first_step(float(seconds))
    assert file.getvalue().splitlines() == [
        "first step, 1 min so far",
        "first step, 2 min so far",
        "first step, 4 min so far",
    ]


def test_what_is_to_be_known_of_devices_is_the_first_line() -> None:
    file = io.StringIO()
    shown = open_console(file)
    shown.stage("starting TensorFlow")
    shown.warning("a GPU is not used")
    shown.stage("loading data")
    shown.stage("building the model")
    assert file.getvalue().splitlines() == [
        "warning: a GPU is not used",
        "starting TensorFlow",
        "loading data",
        "building the model",
    ]


def test_a_run_that_never_got_ready_shows_why() -> None:
    result = RunResult(
        request=build_request(),
        stage="loading data",
        exit=RunExit(status="FAILED"),
        error={"type": "ValueError", "message": "bad"},
    )
    file = io.StringIO()
    shown = open_console(file)
    shown.finish(
        Run(result=result, summary=Summary(metrics={}), tracked=None, journal=Path("run.jsonl"))
    )
    assert file.getvalue() == (
        "FAILED while loading data: ValueError: bad\n"
        "\n"
        "  Details     tfbench runs aaaaaaaaaaaa\n"
        "  To MLflow   tfbench recover\n"
    )


def test_a_tracking_server_is_shown_with_the_runs_address() -> None:
    tracked = TrackedRun(tracking_uri="http://127.0.0.1:5000/", experiment_id="7", run_id="abc")
    assert next_section(build_result(), tracked, "j").code.endswith(
        "  http://127.0.0.1:5000/#/experiments/7/runs/abc"
    )


@pytest.mark.parametrize(
    ("show", "shown"),
    [
        (
            formats.format_number,
            {
                None: "-",
                1.234567e-05: "1.23457e-05",
                1.0: "1",
                123456.7: "123457",
                1234564.4: "1,234,560",
            },
        ),
        (
            formats.format_clock,
            {
                None: "-:--",
                7.4: "0:07",
                3723.0: "1:02:03",
                170_000.0: "47:13:20",
                9e8: "10,417 days",
            },
        ),
        (formats.format_rate, {345.67: "345.7 steps/s", 1.0: "1.0 steps/s", 0.01: "100 s a step"}),
        (formats.format_bytes, {2**20: "1 MiB", 1.5 * 2**30: "1.50 GiB"}),
        (
            partial(formats.format_si, unit="J"),
            {0.5: "0.5 J", 999.9: "1 kJ", 65_500.0: "65.5 kJ", 2e19: "2e+04 PJ"},
        ),
        (formats.format_time, {12.5: "12.5 s", 0.00812: "8.12 ms", 4e-05: "40 us", 0.0: "0 us"}),
    ],
)
def test_figures_are_shown_in_the_form_that_suits_their_size(
    show: Callable[..., str], shown: dict[Any, str]
) -> None:
    assert {value: show(value) for value in shown} == shown
