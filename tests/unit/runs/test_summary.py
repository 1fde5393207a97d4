import dataclasses
from typing import Any

import pytest

from builders import (
    build_dataset,
    build_epoch,
    build_peak,
    build_placement,
    build_recipe,
    build_request,
    build_result,
    build_sizes,
    build_span,
    build_usage,
)
from tfbench.machine.energy_readings import EnergyReading, EnergySource, EnergySources
from tfbench.machine.facts import BreakdownRecord, InputCheck
from tfbench.metrics import METRICS
from tfbench.recipe.sections import MeasurementConfig
from tfbench.runs.batch_sizes import BatchSizes
from tfbench.runs.placement_record import Collective, ExchangeCheck, ModelLayout, StepParts
from tfbench.runs.record import Evaluation, ResumePoint, RunExit, RunResult, StepSpan
from tfbench.runs.run_text import run_sections
from tfbench.runs.spans import (
    RunView,
    StepTimes,
    find_warmup_end,
    samples_per_second,
    steady_spans,
)
from tfbench.runs.summary import summarize_run
from tfbench.show.table import text
from tfbench.tracking.fields import epoch_metrics

# Two epochs of six steps of 128 samples, two warm-up steps, clock = "step", two replicas. Worked
# out by hand.
#
# Three steps an execution: 2.7 s for steps 1 to 3, which hold the warm-up, then 0.3, 0.6 and 1.5 s,
# 2.4 s together. 9 * 128 / 2.4 = 480 samples/s; step times 0.1, 0.2 and 0.5, three times each: the
# median is the fifth, both percentiles lie among the last three; three times each of the distances
# 0.1, 0 and 0.3, of which the fifth is 0.1.
#
# 5000 operations in training are 5000 * 480 = 2.4e6 a second. The peak is the better of 8e6 / 2 =
# 4e6 and 9e6 / 3, of which these are 0.6. Ten batches of 128 in 2.5 s: 512 a second.
BREAKDOWN = {
    "startup": 4.0,
    "data": 1.0,
    "model": 1.5,
    "waiting": 0.25,
    "first_step": 2.0,
    "warmup": 0.5,
    "steady": 5.0,
    "validation": 1.2,
    "callbacks": 0.8,
    "checks": 2.25,
}
FIGURES = {
    "tokens_per_second": 7680.0,  # 16 of a sample
    "bits_per_byte": 0.36,
    "val_bits_per_byte": 0.72,
    "num_replicas": 2,
    "per_replica_batch_size": 64,
    "samples_per_second": 480.0,
    "first_step_seconds": 2.7,
    "step_time_median_seconds": 0.2,
    "step_time_p90_seconds": 0.5,
    "step_time_p99_seconds": 0.5,
    "step_time_mad_seconds": 0.1,
    "flops_per_second": 2.4e6,
    "model_flops_utilization": 0.6,
    "input_headroom": 512 / 480,
    "steady_steps": 9,
    "steady_seconds": 2.4,
    "epoch_seconds": 2.0,
    "validation_seconds": 0.4,
    "elapsed_seconds": 7.2,
    "loss": 0.25,
    "accuracy": 0.9,
    "val_loss": 0.5,
    "val_accuracy": 0.7,
    "best_val_accuracy": 0.75,
    "inference_loss": 0.2,
    "inference_accuracy": 0.95,
    "inference_seconds": 0.35,  # between 0.3 and 0.4
    "val_loss_batch_mean": 0.52,
    "val_accuracy_batch_mean": 0.69,
    "test_loss": 0.6,
    "test_accuracy": 0.65,
    "multiview_loss": 0.45,
    "multiview_accuracy": 0.72,
    "time_to_accuracy_seconds": 4.8,  # the first epoch reached 0.75, the target
    "peak_memory_bytes": 3_000_000_000,
    "memory_before_model_bytes": 500_000_000,
    "peak_gpu_memory_bytes": 2_000_000_000,
    "other_busy_cores": 0.5,  # 6 s of CPU time, 4 of them its own, in 4 s
    "flops_per_sample": 2000,
    "training_flops_per_sample": 5000,
    "peak_flops_per_second": 4e6,
    "input_samples_per_second": 512.0,
    "num_parameters": 1000,
    "num_trainable_parameters": 900,
    "global_batch_size": 128,
    "collective_bytes_per_step": 1100,
    "state_bytes_per_device": 140,  # the larger of two
    # Of steps of 40 ms, one worker spends 20 in collectives, 15 of them waiting for the other.
    "transfer_seconds_per_step": 0.005,
    "waiting_seconds_per_step": 0.015,
    "transfer_share": 0.125,
    "waiting_share": 0.375,
    # In 20 s after the warm-up one GPU took 2000 J, and the other 2240 J.
    "energy_joules": 4240.0,
    "samples_per_joule": 1152 / 4240,
    "mean_watts": 212.0,
    # 36 an hour is 0.01 a second. Ten seconds in all, five to the accuracy of 0.75; the epochs take
    # 4.8 and 2.4 s with their validation.
    "cost/hours": 10 / 3600,
    "cost/machine": 0.1,
    "cost/epoch": 0.036,
    "cost/to_accuracy": 0.05,
    # 20 s in all; the entries add up to 18.5, half a second from the last record to the end, one
    # second in between.
    **{f"breakdown/{name}_seconds": seconds for name, seconds in BREAKDOWN.items()},
    "breakdown/replica_check_seconds": 0.0,
    "breakdown/evaluation_seconds": 0.0,
    "breakdown/teardown_seconds": 0.5,
    "breakdown/unaccounted_seconds": 1.0,
    "breakdown/wall_seconds": 20.0,
}
OF_LAST_EPOCH = (
    *(
        "epoch_seconds",
        "validation_seconds",
        "elapsed_seconds",
        "loss",
        "accuracy",
        "val_loss",
        "val_accuracy",
    ),
    *("inference_loss", "inference_accuracy", "val_loss_batch_mean", "val_accuracy_batch_mean"),
)


def build_spans(seconds: list[float], steps: int) -> tuple[StepSpan, ...]:
    return tuple(
        build_span(
            epoch=1 + index * steps // 6,
            first_step=index * steps + 1,
            last_step=(index + 1) * steps,
            seconds=s,
        )
        for index, s in enumerate(seconds)
    )


def build_measured_run() -> RunResult:
    recipe = build_recipe(
        dataset={"data": "real"},
        training={"global_batch_size": 128, "steps_per_execution": 3, "stop_at_val_accuracy": 0.75},
        measurement={"clock": "step", "warmup_steps": 2},
        cost={"price_per_hour": 36.0},
        expect={"target_accuracy": 0.75},
    )
    return build_result(
        request=build_request(recipe=recipe),
        placement=build_placement(
            devices=("gpu:0", "gpu:1"),
            num_replicas=2,
            global_batch_size=128,
            per_replica_batch_size=64,
        ),
        dataset=build_dataset(synthetic=False, tokens_per_sample=16),
        model=build_sizes(
            num_trainable_parameters=900,
            flops_per_sample=2000,
            training_flops_per_sample=5000,
        ),
        spread=ModelLayout(
            variables=(),
            bytes_per_device=(100, 140),
            collectives=(
                Collective(operation="all-gather", num=1, num_bytes=100),
                Collective(operation="all-reduce", num=2, num_bytes=1000),
            ),
        ),
        exchange_check=ExchangeCheck(
            num_steps=8,
            workers=(
                StepParts(step_seconds=0.04, exchange_seconds=0.02),
                StepParts(step_seconds=0.039, exchange_seconds=0.005),
            ),
        ),
        steps_per_epoch=6,
        spans=build_spans([2.7, 0.3, 1.5, 0.6], 3),
        epochs=(
            build_epoch(
                epoch=1,
                num_steps=6,
                epoch_seconds=4.0,
                validation_seconds=0.8,
                elapsed_seconds=4.8,
                finished_at=1_700_000_005.0,
                inference_loss=0.3,
                inference_accuracy=0.85,
                inference_seconds=0.4,
            ),
            build_epoch(
                epoch=2,
                num_steps=6,
                inference_seconds=0.3,
                metrics={"bits_per_byte": 0.36, "val_bits_per_byte": 0.72},
                **{name: FIGURES[name] for name in OF_LAST_EPOCH},
            ),
        ),
        evaluations=(
            Evaluation(name="test", num_samples=50, seconds=0.1, loss=0.6, accuracy=0.65),
            Evaluation(name="multiview", num_samples=40, seconds=0.2, loss=0.45, accuracy=0.72),
        ),
        usage=build_usage(
            seconds=4.0,
            own_cpu_seconds=4.0,
            busy_cpu_seconds=6.0,
            peak_memory_bytes=3_000_000_000,
            memory_before_model_bytes=500_000_000,
            peak_gpu_memory_bytes=(2_000_000_000, 1_000_000_000),
        ),
        energy=EnergySources(
            sources=(
                EnergySource(name="gpu 0", resolution_seconds=0.1),
                EnergySource(name="gpu 1", resolution_seconds=0.1),
            )
        ),
        energy_readings=tuple(
            EnergyReading(moment=moment, seconds=at, joules={"gpu 0": first, "gpu 1": second})
            for moment, at, first, second in (
                ("steady", 10.0, 500.0, 120.0),
                ("end", 30.0, 2500.0, 2360.0),
            )
        ),
        input_check=InputCheck(num_batches=10, seconds=2.5),
        peak_checks=(
            build_peak(flops=8_000_000, seconds=2.0),
            build_peak(flops=9_000_000, seconds=3.0),
        ),
        breakdown=BreakdownRecord(entries=BREAKDOWN, elapsed_seconds=19.5),
        exit=RunExit(status="FINISHED", worker_seconds=20.0),
    )


def test_every_metric_is_the_figure_worked_out_by_hand_in_the_order_of_the_table() -> None:
    metrics = summarize_run(build_measured_run()).metrics
    assert metrics == pytest.approx(FIGURES, rel=1e-12)
    assert list(metrics) == list(METRICS)


@pytest.mark.parametrize(
    ("limits", "first_steady"),
    [
        ({"warmup_steps": 1}, 1),
        ({"warmup_steps": 3}, 1),
        ({"warmup_steps": 4}, 2),
        ({"warmup_steps": 7}, 3),
        ({"warmup_steps": 10}, 3),
        ({"warmup_seconds": 1.0}, 2),
        ({"warmup_seconds": 1.5}, 3),
        ({"warmup_steps": 4, "warmup_seconds": 1.5}, 2),
    ],
)
def test_the_first_span_and_those_that_hold_a_warmup_step_are_not_steady(
    limits: dict[str, float], first_steady: int
) -> None:
    spans = build_spans([9.0, 1.0, 1.0], 3)
    warmup_end = find_warmup_end(spans, MeasurementConfig(**limits))
    assert steady_spans(spans, warmup_end=warmup_end) == spans[first_steady:]


def test_the_span_of_the_first_short_batch_is_not_steady_and_others_count_what_they_hold() -> None:
    spans = build_spans([9.0, 1.0, 1.0, 2.0, 2.0, 2.0], 1)
    assert steady_spans(spans, warmup_end=1, short_step=3) == (spans[1], *spans[3:])
    recipe = build_recipe(training={"global_batch_size": 4}, measurement={"warmup_steps": 1})
    batches = BatchSizes(size=4, last_size=1, num_steps=3)
    run = build_result(
        request=build_request(recipe=recipe),
        dataset=build_dataset(batches=batches),
        steps_per_epoch=3,
        spans=spans,
    )
    assert RunView(run).speed == pytest.approx((4 + 4 + 4 + 1) / 7.0)
    assert batches.count([build_span(first_step=2, last_step=7, seconds=1.0)]) == 4 * 4 + 2
    assert BatchSizes(size=2.5).count(spans) == 15.0


def test_a_step_that_gives_no_loss_is_not_one_whose_loss_is_not_finite() -> None:
    def warnings_of(**fields: Any) -> str:
        epochs = (build_epoch(epoch=1, loss=None, **fields),)
        return " ".join(summarize_run(build_result(epochs=epochs)).warnings)

    assert "Loss was not finite in 1 epoch" in warnings_of()
    assert "not finite in" not in warnings_of(has_loss=False, metrics={"d_loss": 1.0})


def test_speeds_are_samples_over_seconds_and_step_times_weigh_by_steps_not_by_spans() -> None:
    slow = build_span(first_step=1, last_step=1, seconds=3.0)
    fast = build_span(first_step=2, last_step=10, seconds=1.0)
    ten = BatchSizes(size=10)
    assert (samples_per_second([slow, fast], ten), samples_per_second([], ten)) == (25.0, None)
    times = StepTimes([slow, fast])
    assert [times.quantile(share) for share in (0.5, 1.0)] == pytest.approx([1 / 9, 3.0])
    # Steps of 3, a ninth nine times, and a fifth: the distances from a ninth are 0 in the middle.
    three = StepTimes([slow, fast, build_span(first_step=11, last_step=11, seconds=0.2)])
    assert three.mad == pytest.approx(0.0)
    assert StepTimes([]).quantile(0.5) is StepTimes([]).mad is None
    # Between the ninth and the tenth of 0.05, 0.15 ... 0.95, at 9 * 0.9 = 8.1.
    tenths = StepTimes(build_spans([0.05 + n / 10 for n in range(10)], 1))
    assert tenths.quantile(0.9) == pytest.approx(0.86)
    many = StepTimes(build_spans([1.0, 2.0, 4.0], 10**15))  # whose steps no memory holds
    assert [1e15 * find for find in (many.quantile(0.5), many.mad)] == [2.0, 1.0]


def test_utilization_does_not_exist_above_the_peak() -> None:
    result = dataclasses.replace(build_measured_run(), peak_checks=(build_peak(),) * 2)
    metrics = summarize_run(result).metrics
    assert (metrics["peak_flops_per_second"], metrics.get("model_flops_utilization")) == (1e6, None)


def test_what_a_run_did_not_check_is_not_missing() -> None:
    summary = summarize_run(build_result())
    words = ("flops", "input", "breakdown", "gpu", "memory_before", "cost", "joule")
    assert not [name for name in summary.metrics if any(word in name for word in words)]
    assert summary.warnings == ()


def test_the_time_after_the_last_sign_of_a_killed_process_is_not_accounted_for() -> None:
    result = dataclasses.replace(build_measured_run(), stage="training")
    metrics = summarize_run(result).metrics
    assert metrics["breakdown/teardown_seconds"] == 0.0
    assert metrics["breakdown/unaccounted_seconds"] == pytest.approx(1.5)
    recovered = dataclasses.replace(result, exit=RunExit(status="KILLED"))
    assert summarize_run(recovered).metrics["breakdown/wall_seconds"] == 19.5


@pytest.mark.parametrize(
    ("times", "seconds"),
    [
        (
            [(20, 9.0), (20, 1.0), (20, 3.0), (20, 2.0), (7, 0.5)],
            2.0,
        ),  # the median of the whole ones after the first
        ([(20, 9.0)], 9.0),
        ([(7, 9.0)], None),
    ],
)
def test_epoch_times_are_of_whole_epochs(
    times: list[tuple[int, float]], seconds: float | None
) -> None:
    epochs = [
        build_epoch(epoch=number, num_steps=steps, epoch_seconds=one, validation_seconds=one / 10)
        for number, (steps, one) in enumerate(times, start=1)
    ]
    summary = summarize_run(build_result(epochs=tuple(epochs)))
    assert summary.metrics["epoch_seconds"] == seconds
    assert summary.metrics["validation_seconds"] == (seconds and pytest.approx(seconds / 10))
    assert ("epoch_seconds" in "".join(summary.warnings)) == (seconds is None)


def test_what_a_limited_run_cannot_have_is_not_called_missing() -> None:
    recipe = build_recipe(dataset={"data": "real"}, measurement={"steps": 20})
    epoch = build_epoch(num_steps=7, val_loss=None, val_accuracy=None, validation_seconds=None)
    summary = summarize_run(build_result(request=build_request(recipe=recipe), epochs=(epoch,)))
    assert summary.metrics["epoch_seconds"] is summary.metrics["val_accuracy"] is None
    assert summary.warnings == ()
    assert summary.notes[0].startswith("Limited to 20 steps after the warm-up")


def test_a_regression_has_no_accuracies() -> None:
    recipe = build_recipe(
        model={"name": "sine_lstm"},
        dataset={"name": "sine", "data": "real"},
        training={"loss": "mean_squared_error"},
    )
    epoch = build_epoch(num_steps=20, accuracy=None, val_accuracy=None)
    summary = summarize_run(build_result(request=build_request(recipe=recipe), epochs=(epoch,)))
    assert not [name for name in summary.metrics if "accuracy" in name]
    assert summary.warnings == ()


@pytest.mark.parametrize("accuracy", [None, 0.5])
def test_a_network_that_comes_compiled_has_accuracies_where_it_measures_one(
    accuracy: float | None,
) -> None:
    epoch = build_epoch(num_steps=20, accuracy=accuracy, val_accuracy=accuracy)
    model = build_sizes(own_optimizer="Adam")
    summary = summarize_run(build_result(model=model, epochs=(epoch,)))
    assert ("accuracy" in summary.metrics) == (accuracy is not None)
    assert summary.warnings == ()


def test_the_metrics_of_a_network_of_its_own_have_their_own_names_everywhere() -> None:
    own = {"top2": 0.25, "val_top2": 0.5, "f1@0.5": 0.75, "loss": 9.0}
    result = build_result(epochs=(build_epoch(metrics=own),), placement=build_placement())
    summary = summarize_run(result)
    metrics = summary.metrics
    assert (metrics["top2"], metrics["val_top2"], metrics["loss"]) == (0.25, 0.5, 0.5)
    shown = " ".join("\n".join(text(run_sections(result, summary, is_full=True), 80)).split())
    assert "top2 validation 0.5, training 0.25" in shown
    tracked = epoch_metrics(result.epochs[0])
    assert (tracked["val_top2"], tracked["f1_0_5"], tracked["loss"]) == (0.5, 0.75, 0.5)


def test_a_run_that_never_got_ready_has_sizes_of_its_recipe_and_one_warning() -> None:
    result = RunResult(
        request=build_request(recipe=build_recipe(dataset={"data": "real"})),
        exit=RunExit(status="FAILED", reason="no GPU"),
    )
    summary = summarize_run(result)
    existing = {name: value for name, value in summary.metrics.items() if value is not None}
    assert existing == {"steady_steps": 0, "steady_seconds": 0.0, "global_batch_size": 32}
    assert summary.warnings == (
        "No training step was measured: there is no speed, loss or accuracy.",
    )


def test_what_is_missing_is_none_and_named_in_a_warning() -> None:
    result = build_result(
        epochs=(build_epoch(num_steps=20, val_loss=None, val_accuracy=None),), usage=None
    )
    summary = summarize_run(result)
    missing = {name for name, value in summary.metrics.items() if value is None}
    assert missing == {"val_loss", "val_accuracy", "best_val_accuracy", "peak_memory_bytes"}
    assert all(name in summary.warnings[-1] for name in missing)


def test_what_is_not_finite_is_none() -> None:
    spans = build_spans([2.0, 5e-324, 5e-324], 10)
    assert summarize_run(build_result(spans=spans)).metrics["samples_per_second"] is None


def test_times_of_a_resumed_run_are_those_of_its_own_epochs() -> None:
    before = tuple(
        build_epoch(epoch=n, num_steps=20, epoch_seconds=50.0, inference_seconds=9.0)
        for n in (1, 2, 3)
    )
    own = tuple(
        build_epoch(epoch=n, num_steps=20, epoch_seconds=seconds, inference_seconds=1.0)
        for n, seconds in ((4, 8.0), (5, 2.0), (6, 2.0))  # the first one with tracing
    )
    resume = ResumePoint(run_id="b" * 12, checkpoint="epoch_000003.npz", epochs=before)
    result = build_result(request=build_request(resume=resume), epochs=(*before, *own))
    metrics = summarize_run(result).metrics
    assert metrics["epoch_seconds"] == 2.0
    assert metrics["inference_seconds"] == 1.0


@pytest.mark.parametrize(
    ("feed", "measurement", "steps_per_epoch", "speed"),
    [
        ("fit", {"seconds": 1.0}, 10, 100.0),  # 8 steps, of which one is slow: not like an epoch
        ("fit", {"seconds": 1.0}, 8, 8 / 1.07),  # a whole epoch
        ("fit", {}, 10, 8 / 1.07),  # it was to be trained to the end
        ("pipeline", {"seconds": 1.0}, 10, 8 / 1.07),  # where no epoch begins slowly
    ],
)
def test_a_part_of_an_epoch_has_no_beginning_of_one(
    feed: str, measurement: dict[str, Any], steps_per_epoch: int, speed: float
) -> None:
    slow = steps_per_epoch + 1  # the first step of the second epoch
    spans = []
    for step in range(1, 13):
        seconds = 1.0 if step == slow else 0.01
        epoch = 1 + (step - 1) // steps_per_epoch
        spans.append(StepSpan(epoch=epoch, first_step=step, last_step=step, seconds=seconds))
    recipe = build_recipe(measurement={"warmup_steps": 4} | measurement, training={"feed": feed})
    result = build_result(
        request=build_request(recipe=recipe), spans=tuple(spans), steps_per_epoch=steps_per_epoch
    )
    per_step = result.batch_sizes.size
    assert RunView(result).speed == pytest.approx(speed * per_step)
