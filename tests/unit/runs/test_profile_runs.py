"""Profiles as runs of the store.

What is summed up, tracked, kept and shown of them, and where they are left out.
"""

from typing import Any

import pytest

from builders import build_recipe, build_request
from journals import build_sized_result, write_journal
from kinds import Cli, Fields
from profile_runs import KILLED, build_profile_request, build_profile_run, write_profile_journal
from tfbench.errors import RecipeError, UnknownNameError
from tfbench.metrics import METRICS, PROFILE_METRICS
from tfbench.profiles.readings import Profile, ProfileRequest
from tfbench.runs.requests import profile_request
from tfbench.runs.summary import summarize_run
from tfbench.store.store import Store
from tfbench.sweeps.compared import compare_stored
from tfbench.tracking import fields

TRAINED = build_sized_result(0)


def test_a_profile_has_times_of_phases_and_none_of_a_training() -> None:
    metrics = summarize_run(build_profile_run()).metrics
    found = {
        name.partition("/")[2]: value for name, value in metrics.items() if name in PROFILE_METRICS
    }
    assert found == pytest.approx(
        {
            "input_seconds": 0.0003,
            "dispatch_seconds": 0.0002,
            "forward_seconds": 0.001,
            "backward_seconds": 0.003,
            "update_seconds": 0.001,
            "keras_loop_seconds": 0.0004,
            "full_step_seconds": 0.006,
            "bottleneck_seconds": 0.0018,
        }
    )
    assert metrics.keys() <= METRICS.keys() | PROFILE_METRICS.keys()
    assert not metrics.keys() & {"samples_per_second", "steady_steps", "loss", "first_step_seconds"}
    assert metrics["num_parameters"] == 1000
    assert None not in metrics.values()
    ended = build_profile_run(profile=Profile(), exit=KILLED)  # before its first round
    assert not summarize_run(ended).metrics.keys() & PROFILE_METRICS.keys()
    assert "Profile (step), no training.\n" in fields.describe(ended, summarize_run(ended))


def test_profiles_are_no_runs_to_compare(store: Store) -> None:
    write_journal(store, TRAINED)
    write_profile_journal(store, build_profile_run())
    for _ in range(2):  # from the journals, then from the briefs
        comparison = compare_stored(store)
        assert [run.run_id for run in comparison.runs] == [TRAINED.request.run_id]
        assert len(comparison.rows) == 1


def test_the_last_run_that_trained_is_found_behind_a_profile(store: Store) -> None:
    profile = build_profile_run(build_profile_request(created=TRAINED.request.created + 1))
    write_profile_journal(store, profile)
    with pytest.raises(UnknownNameError, match="Name a run that trained"):
        store.find("@last", trained=True)
    write_journal(store, TRAINED)
    assert store.find("@last") == profile.request.run_id
    assert store.find("@last", trained=True) == TRAINED.request.run_id
    assert store.find(TRAINED.request.run_id[:31], trained=True) == TRAINED.request.run_id


@pytest.mark.advice("Name a run that trained")
@pytest.mark.usefixtures("in_tmp_path")
@pytest.mark.parametrize(
    "arguments",
    [
        ("compare", "aaa"),
        ("run", "--resume", "aaa"),
    ],
)
def test_a_profile_that_is_named_as_a_training_is_called_what_it_is(
    arguments: tuple[str, ...], store: Store, tfbench: Cli
) -> None:
    write_journal(store, TRAINED)
    write_profile_journal(store, build_profile_run())
    done = tfbench(*arguments, "--store", str(store.root))
    assert done.exit_code == 2
    assert "is a profile of a step, made by `tfbench profile`" in done.stderr
    trained = [TRAINED.request.run_id if word == "aaa" else word for word in arguments]
    assert "is a profile" not in tfbench(*trained, "--store", str(store.root)).stderr


@pytest.mark.parametrize(
    ("training", "kind", "reason"),
    [
        ({"data_on_device": True}, "step", "training.data_on_device: must be false for a profile"),
        (
            {"backend": "jax"},
            "trace",
            "--trace: tfbench reads no trace of JAX. Leave --trace out, or",
        ),
        (
            {"backend": "torch", "compiler": "inductor"},
            "trace",
            "--trace: PyTorch's trace does not show what",
        ),
    ],
)
def test_a_profile_that_would_tell_nothing_is_rejected(
    training: Fields, kind: Any, reason: str
) -> None:
    request = build_request(recipe=build_recipe(training=training))
    with pytest.raises(RecipeError, match=f"^{reason}"):
        profile_request(request, ProfileRequest(kind=kind))
