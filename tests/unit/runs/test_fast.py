"""Which settings are tried for the fastest run, and what becomes of them."""

import dataclasses
from typing import Any

import pytest

from builders import build_dataset, build_placement, build_recipe, build_request
from fake_runs import FakeRuns, Fate, Fates
from kinds import Fields
from tfbench.errors import DatasetError, DeviceError, InterruptedRunError, MeasurementError
from tfbench.runs.fast import TRIAL_SECONDS, find_fastest
from tfbench.runs.record import DatasetSummary, RunRequest, read_fast
from tfbench.runs.stored_run import Run
from tfbench.tags import FAST_TAG

OFF_DEVICE = DatasetError("training.data_on_device: needs samples that are in memory.")


class Trials(FakeRuns):
    """Runs of an epoch of so many steps, on so many replicas."""

    def __init__(
        self,
        *fates: Fate,
        steps_per_epoch: int = 5000,
        num_replicas: int = 1,
        data: DatasetSummary | None = None,
    ) -> None:
        super().__init__(*fates)
        self._known = {
            "dataset": data or build_dataset(train_samples=32 * steps_per_epoch),
            "steps_per_epoch": steps_per_epoch,
            "placement": build_placement(num_replicas=num_replicas),
        }

    def __call__(self, request: RunRequest, label: str = "", *rest: Any) -> Run:
        outcome = super().__call__(request, label, *rest)
        return dataclasses.replace(
            outcome, result=dataclasses.replace(outcome.result, **self._known)
        )

    @property
    def tried(self) -> list[tuple[bool, int, str]]:
        """Samples on the device, steps of a call and the compiler of each of the runs."""
        trainings = [request.recipe.training for request in self.requests]
        return [
            (one.data_on_device, one.steps_per_execution, one.compiler_used) for one in trainings
        ]


def build(
    *overrides: str,
    measurement: Fields | None = None,
    strategy: str = "default",
    **training: Any,
) -> Any:
    recipe = build_recipe(
        training={"global_batch_size": 32, "epochs": 5} | training,
        output={"saves_model": True},
        measurement=measurement or {},
        distribution={"strategy": strategy},
    )
    return build_request(name="mine", recipe=recipe, overrides=overrides)


def test_batches_that_fit_makes_give_way_to_those_of_the_pipeline_unless_fit_is_asked_for() -> None:
    runs = Trials(32 * 900.0, 90_000.0, 60_000.0)
    found = find_fastest(build(feed="fit"), runs)
    assert found.recipe.training.feed == "pipeline"
    assert read_fast(found).settings["feed"] == "pipeline"
    runs = Trials(32 * 900.0, 90_000.0, 60_000.0, data=build_dataset(has_own_batches=True))
    assert find_fastest(build(feed="fit"), runs).recipe.training.feed == "fit"
    runs = Trials(32 * 900.0, 90_000.0, 60_000.0)
    find_fastest(build("training.feed", feed="fit"), runs)
    assert {request.recipe.training.feed for request in runs.requests} == {"fit"}
    assert not any(on_device for on_device, _, _ in runs.tried)


def test_the_fastest_of_three_is_taken_and_says_what_it_was_held_against() -> None:
    runs = Trials(32 * 900.0, 90_000.0, 60_000.0)
    request = build()
    found = find_fastest(request, runs)
    assert runs.tried == [(False, 1, "graph"), (True, 100, "xla"), (True, 100, "graph")]
    assert runs.labels[1] == "trial 2, data_on_device=true steps_per_execution=100 compiler=xla"
    fast = read_fast(found)
    assert fast.as_asked == 32 * 900.0
    assert fast.settings == {"data_on_device": True, "steps_per_execution": 100, "compiler": "xla"}
    assert found.recipe.training.steps_per_execution == 100
    assert found.overrides == tuple(f"training.{key}" for key in fast.settings)
    assert (found.name, found.recipe.output) == ("mine-fast", request.recipe.output)
    assert found.recipe.measurement == request.recipe.measurement
    for number, one in enumerate(runs.requests, 1):
        # Short, and nothing is left of it but its speed.
        assert (one.name, one.recipe.measurement.seconds) == (f"mine-trial{number}", TRIAL_SECONDS)
        assert not (one.recipe.measurement.checks or one.recipe.output.saves_model)
        assert one.tags["tfbench.group"] == found.tags[FAST_TAG]
    assert (
        find_fastest(request, Trials(1.0, 2.0), name="mine").name == "mine"
    )  # as the user named it


@pytest.mark.parametrize(
    ("request_", "speed", "steps_per_epoch", "steps"),
    [
        # A call takes a fifth of a second as asked for at most, and 1,000 steps.
        (build(), 32 * 4.9, 5000, 1),
        (build(), 32 * 260.0, 5000, 50),
        (build(), 32 * 1e6, 5000, 1000),
        # Ten calls or more are left for the run itself.
        (build(measurement={"steps": 9}), 32_000.0, 5000, 1),
        (build(measurement={"seconds": 1.0}), 32_000.0, 5000, 100),
        (build(measurement={"seconds": 20.0, "steps": 300}), 32_000.0, 5000, 20),
        (build(epochs=2), 32_000.0, 60, 10),  # of 119 steps after the warm-up
        # On the host calls divide an epoch, which they would make longer.
        (build("training.data_on_device"), 32_000.0, 1875, 125),
        (build("training.data_on_device"), 32_000.0, 1877, 1),
    ],
)
def test_a_call_has_as_many_steps_as_do_no_harm(
    request_: RunRequest, speed: float, steps_per_epoch: int, steps: int
) -> None:
    runs = Trials(speed, steps_per_epoch=steps_per_epoch)
    find_fastest(request_, runs)
    assert runs.tried[1] == ("training.data_on_device" not in request_.overrides, steps, "xla")


@pytest.mark.parametrize(
    ("request_", "runs", "tried"),
    [
        # What the user set stays as it is.
        (
            build("training.compiler", "training.steps_per_execution", steps_per_execution=7),
            Trials(32_000.0),
            [(False, 7, "graph"), (True, 7, "graph")],
        ),
        # Samples that cannot lie on the device stay on the host.
        (
            build(),
            Trials(32_000.0, OFF_DEVICE),
            [
                (False, 1, "graph"),
                (True, 200, "xla"),
                (True, 200, "graph"),
                (False, 200, "xla"),
                (False, 200, "graph"),
            ],
        ),
        # Under MirroredStrategy they do always; XLA is for one device.
        (
            build(strategy="mirrored"),
            Trials(32_000.0),
            [(False, 1, "graph"), (False, 200, "xla"), (False, 200, "graph")],
        ),
        (
            build(strategy="mirrored"),
            Trials(32_000.0, num_replicas=2),
            [(False, 1, "graph"), (False, 200, "graph")],
        ),
        # Of a pipeline that is what was asked for, samples stay on the host.
        (
            build(parallel_batches=3),
            Trials(32_000.0),
            [(False, 1, "graph"), (False, 200, "xla"), (False, 200, "graph")],
        ),
        # Nor is XLA deterministic.
        (build(deterministic=True), Trials(32_000.0), [(False, 1, "graph"), (True, 200, "graph")]),
        # On JAX and PyTorch samples are on the host, and Keras does the steps of a call one by one.
        (
            build(backend="jax", compiler="eager"),
            Trials(32_000.0),
            [(False, 1, "eager"), (False, 1, "xla")],
        ),
        (build(backend="torch"), Trials(32_000.0), [(False, 1, "eager"), (False, 1, "inductor")]),
    ],
)
def test_what_is_tried(
    request_: RunRequest, runs: Trials, tried: list[tuple[bool, int, str]]
) -> None:
    find_fastest(request_, runs)
    assert runs.tried == tried


@pytest.mark.parametrize(
    "fates", [(32_000.0, 30_000.0, DeviceError("no XLA")), (32_000.0, OFF_DEVICE)]
)
def test_where_nothing_is_faster_the_recipe_stays_as_it_is(fates: Fates) -> None:
    request = build()
    found = find_fastest(request, Trials(*fates))
    assert (found.recipe, found.overrides, found.name) == (request.recipe, (), "mine")
    fast = read_fast(found)
    assert (fast.as_asked, fast.settings) == (32_000.0, {})
    assert read_fast(request) is None


@pytest.mark.parametrize(
    ("fates", "error", "message"),
    [
        ((OFF_DEVICE,), DatasetError, "needs samples"),
        (("FAILED",), MeasurementError, "--fast: the unchanged recipe gave no speed"),
        ((32_000.0, "STOPPED"), InterruptedRunError, "its runs are group"),
    ],
)
def test_it_ends_where_the_recipe_itself_does_not_run(
    fates: Fates, error: type[Exception], message: str
) -> None:
    runs = Trials(*fates)
    with pytest.raises(error, match=message):
        find_fastest(build(), runs)
    assert len(runs.requests) == len(fates)
