"""What a reader is told of a run as it was asked for; and that all checks together say nothing of a sound one."""

from typing import Any

import pytest

from builders import build_epoch, build_placement, build_recipe, build_request, build_result, build_span, build_usage
from tfbench.analysis.run.checks import find_cautions, find_early_cautions, find_speed_cautions
from tfbench.records.machine import InputCheck, PeakCheck
from tfbench.records.placement import ReplicaCheck
from tfbench.records.run import DatasetSummary, ModelSummary, RunResult


def build_run(**fields: Any) -> RunResult:
    """Builds a run of a warm-up and eleven steady spans, of ten steps and a second each: 320 samples/s."""
    spans = tuple(build_span(first_step=10 * index + 1, last_step=10 * index + 10) for index in range(12))
    return build_result(**{"spans": spans} | fields)


def with_measurement(**values: object) -> RunResult:
    recipe = build_recipe(dataset={"data": "real"}, training={"epochs": 20}, measurement=values)
    return build_run(request=build_request(recipe=recipe))


def only_caution(result: RunResult) -> str:
    (caution,) = find_cautions(result)
    return caution


def test_a_sound_run_needs_no_caution() -> None:
    assert find_cautions(build_run()) == ()


def test_a_sound_run_of_which_all_is_known_needs_no_caution() -> None:
    result = build_run(
        model=ModelSummary(
            num_parameters=1000, num_trainable_parameters=1000, flops_per_sample=2000, training_flops_per_sample=6000
        ),
        input_check=InputCheck(num_batches=100, seconds=1.0),
        peak_checks=(PeakCheck(size=100, precision="float32", num_rounds=3, flops=9_000_000, seconds=1.0),),
    )
    assert find_cautions(result) == ()


def test_nothing_is_said_of_what_an_old_journal_does_not_hold() -> None:
    assert find_cautions(build_run(usage=None, environment=None, settings=None, model=None, placement=None)) == ()


def test_checks_of_the_machine_and_of_the_work_are_among_the_cautions() -> None:
    usage = build_usage(swapped_pages=1000)
    first, second = find_cautions(build_run(usage=usage, input_check=InputCheck(num_batches=12, seconds=1.0)))
    assert first.startswith("the machine swapped 1,000 pages")
    assert second.startswith("input-bound, or nearly: the input pipeline alone makes 384 samples/s, 1.20 times the 320")


def test_synthetic_data_is_pointed_out() -> None:
    data = DatasetSummary(name="mnist", source="seed 0", synthetic=True, train_samples=640, validation_samples=100)
    assert only_caution(build_run(dataset=data)).startswith("synthetic data: ")


def test_logical_cpu_devices_are_pointed_out() -> None:
    placement = build_placement(strategy="mirrored", devices=("cpu:0", "cpu:1"), num_replicas=2)
    assert only_caution(build_run(placement=placement)).startswith("2 logical CPU devices share the same physical")
    assert find_cautions(build_run(placement=build_placement(devices=("gpu:0", "gpu:1")))) == ()


def test_replicas_that_were_not_compared_with_one_are_pointed_out() -> None:
    check = ReplicaCheck(num_replicas=2, compared=("sums",), reason="another worker could not compute it")
    assert only_caution(build_run(replica_check=check)).startswith(
        "the first step of several devices was not compared with that of one: another worker could not compute it."
    )


def test_a_clock_that_waits_for_every_step_is_pointed_out() -> None:
    assert 'Do not compare this run with runs of clock = "span"' in only_caution(with_measurement(clock="step"))


def test_a_limited_run_is_pointed_out() -> None:
    caution = only_caution(with_measurement(steps=200, seconds=2.5))
    assert caution.startswith("limited to 200 steps or 2.5 s after the warm-up, not trained to the recipe's 20 epochs")
    assert "nothing was validated" in caution


def test_what_a_limited_run_leaves_out_is_pointed_out() -> None:
    recipe = build_recipe(
        dataset={"data": "real"}, measurement={"steps": 5}, output={"snapshot_every_epochs": 1, "num_predictions": 16}
    )
    _, caution = find_cautions(build_run(request=build_request(recipe=recipe)))
    assert caution.startswith(
        "not done, since the run was limited: output.snapshot_every_epochs, output.num_predictions. Leave out --steps"
    )


@pytest.mark.parametrize(
    ("losses", "beginning"),
    [
        ([0.5, None, None], "loss was not finite from epoch 2 on:"),
        ([0.5, None, 0.4, None, 0.3], "loss was not finite in epochs 2, 4:"),
    ],
)
def test_a_loss_that_was_not_finite_is_pointed_out(losses: list[float | None], beginning: str) -> None:
    epochs = tuple(build_epoch(epoch=number, loss=loss) for number, loss in enumerate(losses, start=1))
    assert only_caution(build_run(epochs=epochs)).startswith(beginning)


def test_the_warmup_may_differ_from_the_recipes() -> None:
    assert find_cautions(build_run(), warmup_steps=105)[0].startswith("the speed rests on one span of 10 steps")
    assert find_cautions(build_run(), warmup_steps=120)[0].startswith("no steady steps: all of the 120 measured steps")


def test_what_the_worker_noted_is_passed_on_once() -> None:
    placement = build_placement(notes=("no GPU found: mirrored runs on the CPU",))
    result = build_run(placement=placement, notes=("another run", "another run"))
    assert find_cautions(result) == ("another run", "no GPU found: mirrored runs on the CPU")


def test_what_speaks_against_the_speed_comes_first_and_what_was_asked_for_last() -> None:
    data = DatasetSummary(name="mnist", source="seed 0", synthetic=True, train_samples=640, validation_samples=100)
    result = build_run(
        dataset=data,
        notes=("another run was measuring",),
        placement=build_placement(devices=("cpu:0", "cpu:1")),
        usage=build_usage(swapped_pages=1000),
        request=build_request(recipe=build_recipe(measurement={"steps": 120}, training={"epochs": 20})),
        epochs=(build_epoch(loss=None),),
    )
    cautions = find_cautions(result)
    assert [caution.split(" ")[0] for caution in cautions] == ["the", "another", "2", "loss", "synthetic", "limited"]
    assert find_speed_cautions(result) == cautions[:2]


def test_an_epoch_that_executions_do_not_divide_is_pointed_out() -> None:
    recipe = build_recipe(dataset={"data": "real"}, training={"epochs": 1, "steps_per_execution": 3})
    assert only_caution(build_run(request=build_request(recipe=recipe))).startswith(
        "an epoch takes 21 steps instead of 20: training.steps_per_execution (3) does not divide it"
    )


def test_a_gpu_that_is_not_used_is_pointed_out_before_training_and_after() -> None:
    placement = build_placement(unused_gpu="no driver")
    assert find_early_cautions(build_run(placement=placement, spans=(), epochs=(), exit=None)) == ("no driver",)
    assert only_caution(build_run(placement=placement)) == "no driver"


@pytest.mark.parametrize("kind", ["cpu", "gpu"])
def test_a_device_that_the_recipe_is_not_meant_for_is_pointed_out_before_training_and_after(
    kind: str,
) -> None:
    recipe = build_recipe(recipe={"not_meant_for": [kind]}, dataset={"data": "real"}, training={"epochs": 1})
    placement = build_placement(devices=(f"{kind}:1",))
    under_way = build_run(request=build_request(recipe=recipe), placement=placement, spans=(), epochs=(), exit=None)
    (text,) = find_early_cautions(under_way)
    assert text.startswith(f"this recipe is not meant for {kind}: ")
    assert only_caution(build_run(request=build_request(recipe=recipe), placement=placement)) == text
    other = build_placement(devices=("gpu:0" if kind == "cpu" else "cpu:0",))
    assert find_cautions(build_run(request=build_request(recipe=recipe), placement=other)) == ()
    assert find_early_cautions(build_run(request=build_request(recipe=recipe), placement=None)) == ()
