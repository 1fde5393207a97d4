"""Which settings are tried for the fastest run, and what becomes of them."""

import dataclasses
from typing import Any

import pytest

from builders import build_placement, build_recipe, build_request
from fake_runs import FakeRuns
from tfbench.errors import DatasetError, DeviceError, InterruptedRunError, MeasurementError
from tfbench.records.fast import FAST_TAG, read_fast
from tfbench.records.run import RunRequest
from tfbench.runs.fast import TRIAL_SECONDS, find_fastest
from tfbench.runs.limits import RunOutcome


class LongEpochs(FakeRuns):
    """Runs of an epoch of 5,000 steps, on as many replicas as there are to be."""

    num_replicas = 1
    steps_per_epoch = 5000

    def __call__(self, request: RunRequest, label: str = "", *rest: Any) -> RunOutcome:
        outcome = super().__call__(request, label, *rest)
        placement = build_placement(num_replicas=self.num_replicas)
        result = dataclasses.replace(outcome.result, steps_per_epoch=self.steps_per_epoch, placement=placement)
        return dataclasses.replace(outcome, result=result)


FAILED = DatasetError("training.data_on_device: needs samples that are in memory.")


def build(
    *overrides: str,
    measurement: dict[str, Any] | None = None,
    distribution: dict[str, Any] | None = None,
    **training: Any,
) -> RunRequest:
    recipe = build_recipe(
        training={"global_batch_size": 32, "epochs": 5} | training,
        output={"saves_model": True},
        measurement=measurement or {},
        distribution=distribution or {},
    )
    return build_request(name="mine", recipe=recipe, overrides=overrides)


def tried(runs: LongEpochs) -> list[tuple[bool, int, bool]]:
    """Samples on the device, steps of a call and XLA in each of the runs."""
    trainings = [request.recipe.training for request in runs.requests]
    return [(one.data_on_device, one.steps_per_execution, one.compiler_used == "xla") for one in trainings]


def test_the_fastest_of_three_is_taken_and_says_what_it_was_held_against() -> None:
    runs = LongEpochs(32 * 900.0, 90_000.0, 60_000.0)
    request = build()
    found = find_fastest(request, runs)
    assert tried(runs) == [(False, 1, False), (True, 100, True), (True, 100, False)]
    training = found.recipe.training
    assert (training.data_on_device, training.steps_per_execution, training.compiler) == (True, 100, "xla")
    fast = read_fast(found)
    assert fast and fast.as_asked == 32 * 900.0
    assert fast.settings == {"data_on_device": True, "steps_per_execution": 100, "compiler": "xla"}
    assert found.overrides == ("training.data_on_device", "training.steps_per_execution", "training.compiler")
    assert (found.name, found.recipe.output, found.recipe.measurement) == (
        "mine-fast",
        request.recipe.output,
        request.recipe.measurement,
    )
    assert {one.tags["tfbench.group"] for one in runs.requests} == {found.tags[FAST_TAG]}


def test_the_runs_that_look_for_it_are_short_and_leave_nothing_else() -> None:
    runs = LongEpochs(1000.0)
    find_fastest(build(), runs)
    for request in runs.requests:
        assert (request.recipe.measurement.seconds, request.recipe.measurement.checks) == (TRIAL_SECONDS, False)
        assert not request.recipe.output.saves_model


@pytest.mark.parametrize(
    ("steps_per_second", "steps"), [(0.1, 1), (4.9, 1), (10.0, 2), (260.0, 50), (9_999.0, 1000), (1e6, 1000)]
)
def test_a_call_takes_a_fifth_of_a_second_as_asked_for_at_most(steps_per_second: float, steps: int) -> None:
    runs = LongEpochs(32 * steps_per_second)
    found = find_fastest(build(), runs)
    assert tried(runs)[1][1] == steps
    fast = read_fast(found)
    assert fast and fast.as_asked == 32 * steps_per_second


def test_what_the_user_set_stays_as_it_is() -> None:
    runs = LongEpochs(32_000.0)
    find_fastest(build("training.compiler", "training.steps_per_execution", steps_per_execution=7), runs)
    assert tried(runs) == [(False, 7, False), (True, 7, False)]


def test_a_name_that_the_user_gave_stays_as_it_is() -> None:
    runs = LongEpochs(32_000.0, 90_000.0)
    assert find_fastest(build(), runs, name="mine").name == "mine"
    assert [request.name for request in runs.requests] == ["mine-trial1", "mine-trial2", "mine-trial3"]
    assert runs.labels[1] == "trial 2, on the device, 200 steps a call, XLA"


@pytest.mark.parametrize(
    ("measurement", "steps"),
    [
        ({}, 200),
        ({"steps": 500}, 50),
        ({"steps": 9}, 1),
        ({"seconds": 1.0}, 100),
        ({"seconds": 20.0}, 200),
        ({"seconds": 20.0, "steps": 300}, 20),
    ],
)
def test_ten_calls_or_more_are_left_for_the_run_itself(measurement: dict[str, Any], steps: int) -> None:
    runs = LongEpochs(32_000.0)
    find_fastest(build(measurement=measurement), runs)
    assert tried(runs)[1] == (True, steps, True)


def test_an_epoch_of_one_step_is_done_one_step_a_call() -> None:
    runs = LongEpochs(32_000.0)
    runs.steps_per_epoch = 1
    find_fastest(build(epochs=1000), runs)
    assert tried(runs) == [(False, 1, False), (True, 1, True), (True, 1, False)]


def test_few_epochs_of_few_steps_are_cut_into_calls_of_few() -> None:
    runs = LongEpochs(32_000.0)
    runs.steps_per_epoch = 60
    find_fastest(build(epochs=2), runs)  # 119 steps after the warm-up
    assert tried(runs)[1] == (True, 10, True)


def test_samples_that_cannot_lie_on_the_device_stay_on_the_host() -> None:
    runs = LongEpochs(32_000.0, FAILED, FAILED, 50_000.0, 40_000.0)
    found = find_fastest(build(), runs)
    assert tried(runs)[3:] == [(False, 200, True), (False, 200, False)]
    assert not found.recipe.training.data_on_device
    assert found.recipe.training.compiler == "xla"


@pytest.mark.parametrize(("steps_per_epoch", "steps"), [(5000, 200), (1875, 125), (1876, 134), (1877, 1), (60, 20)])
def test_calls_on_the_host_divide_an_epoch_which_they_would_make_longer(steps_per_epoch: int, steps: int) -> None:
    runs = LongEpochs(32_000.0)
    runs.steps_per_epoch = steps_per_epoch
    find_fastest(build("training.data_on_device"), runs)
    assert tried(runs)[1] == (False, steps, True)


def test_it_ends_where_the_host_can_do_nothing_else_either() -> None:
    runs = LongEpochs(32_000.0, FAILED)
    found = find_fastest(build(), runs)
    assert len(runs.requests) == 5
    assert found.recipe == build().recipe


@pytest.mark.parametrize(
    ("num_replicas", "others"), [(1, [(False, 200, True), (False, 200, False)]), (2, [(False, 200, False)])]
)
def test_mirrored_keeps_its_samples_on_the_host_and_has_xla_on_one_device_alone(
    num_replicas: int, others: list[tuple[bool, int, bool]]
) -> None:
    runs = LongEpochs(32_000.0)
    runs.num_replicas = num_replicas
    find_fastest(build(distribution={"strategy": "mirrored"}), runs)
    assert tried(runs) == [(False, 1, False), *others]


def test_xla_is_not_tried_where_it_cannot_be_deterministic() -> None:
    runs = LongEpochs(32_000.0)
    find_fastest(build(deterministic=True), runs)
    assert tried(runs) == [(False, 1, False), (True, 200, False)]


def test_on_jax_there_is_no_other_compiler_to_try() -> None:
    runs = LongEpochs(32_000.0, 90_000.0)
    found = find_fastest(build(backend="jax"), runs)
    assert tried(runs) == [(False, 1, True), (True, 200, True)]
    assert read_fast(found).settings == {"data_on_device": True, "steps_per_execution": 200}  # type: ignore[union-attr]
    assert runs.labels[1] == "trial 2, on the device, 200 steps a call"
    on_host = LongEpochs(32_000.0, FAILED)
    find_fastest(build(backend="jax"), on_host)  # nor several steps a call, which Keras does one by one there
    assert tried(on_host) == [(False, 1, True), (True, 200, True)]
    uncompiled = LongEpochs(32_000.0)
    find_fastest(build(backend="jax", compiler="eager", deterministic=True), uncompiled)
    assert tried(uncompiled) == [(False, 1, False), (True, 200, True)]


def test_on_pytorch_a_call_has_one_step_and_its_own_compiler_is_tried() -> None:
    runs = LongEpochs(32_000.0, FAILED, FAILED, 40_000.0)
    found = find_fastest(build(backend="torch"), runs)
    assert [
        (one.recipe.training.data_on_device, one.recipe.training.steps_per_execution, one.recipe.training.compiler_used)
        for one in runs.requests
    ] == [(False, 1, "eager"), (True, 1, "inductor"), (True, 1, "eager"), (False, 1, "inductor")]
    assert runs.labels[1:3] == ["trial 2, on the device, torch.compile", "trial 3, on the device"]
    assert found.recipe.training.compiler == "inductor"


def test_where_nothing_is_faster_the_recipe_stays_as_it_is() -> None:
    request = build()
    found = find_fastest(request, LongEpochs(32_000.0, 30_000.0, DeviceError("no XLA")))
    assert (found.recipe, found.overrides, found.name) == (request.recipe, (), "mine")
    fast = read_fast(found)
    assert fast and (fast.as_asked, fast.settings) == (32_000.0, {})


def test_it_ends_where_the_recipe_itself_does_not_run() -> None:
    with pytest.raises(DatasetError):
        find_fastest(build(), LongEpochs(FAILED))
    with pytest.raises(MeasurementError, match="--fast: the recipe as it is came to no speed"):
        find_fastest(build(), LongEpochs("FAILED"))
    runs = LongEpochs(32_000.0, "STOPPED")
    with pytest.raises(InterruptedRunError, match="the runs are group"):
        find_fastest(build(), runs)
    assert len(runs.requests) == 2


def test_other_runs_are_held_against_nothing() -> None:
    assert read_fast(build()) is None
