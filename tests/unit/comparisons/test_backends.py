"""Runs of several backends side by side."""

from typing import Any

import pytest

from sweeps import BATCH, build_brief
from tfbench.comparisons.comparison import Comparison, compare
from tfbench.comparisons.fastest import rank_setups
from tfbench.comparisons.scaling import find_scaling
from tfbench.comparisons.verdict import find_caveats, find_verdict
from tfbench.store.brief import RunBrief, name_setups
from tfbench.sweeps.arguments import parse_setup
from tfbench.sweeps.planning import replica_setups

LABELS = {
    "tensorflow": "default cpu:0",
    **{name: f"default cpu:0 backend={name}" for name in ("jax", "torch")},
}
SETTINGS = {
    "tensorflow": {"compiler": "graph", "precision": "float32", "tensorflow": "2.21.0"},
    "jax": {
        "compiler": "xla",
        "precision": "float32",
        "backend": "jax",
        "jax": "0.10.2",
        "start": "forked",
    },
    "torch": {
        "compiler": "eager",
        "precision": "float32",
        "backend": "torch",
        "torch": "2.13.0",
        "start": "own",
    },
}


def build(
    backend: str, speed: float, round_number: int | None, batch: int = 32, **settings: Any
) -> RunBrief:
    return build_brief(
        speed,
        setup=parse_setup(LABELS[backend]),
        batch=batch,
        round_number=round_number,
        run_id=f"{backend}{batch}{round_number}",
        settings={
            BATCH: batch,
            "training.backend": backend,
            "training.compiler": SETTINGS[backend]["compiler"],
            **SETTINGS[backend],
            **settings,
        },
    )


def sweep_of(speeds: dict[int, dict[str, float]], baseline: str | None = None) -> Comparison:
    """Compares a sweep of three rounds.

    Batch size to the speeds of the backends, which scatter by one percent.
    """
    briefs = []
    for batch, of_backends in speeds.items():
        for place, (name, speed) in enumerate(of_backends.items()):
            for number in (1, 2, 3):
                scatter = 1 + 0.01 * ((number + place) % 3 - 1)
                briefs.append(build(name, speed * scatter, number, batch))
    return compare(briefs, keys=[BATCH], baseline=baseline)


def test_backends_are_setups_that_are_compared_for_what_they_are() -> None:
    runs = [
        build(name, speed, number)
        for number in (1, 2, 3)
        for name, speed in (("tensorflow", 100), ("jax", 160))
    ]
    found = compare(runs)
    assert (found.setups, found.keys) == ((LABELS["tensorflow"], LABELS["jax"]), ())
    assert find_verdict(found) == ("JAX is faster than TensorFlow: 1.60x [1.60, 1.60].",)
    (caveat,) = find_caveats(found)
    assert "(TensorFlow: graph; JAX: xla)" in caveat
    assert not list(find_caveats(compare([one for one in runs if one.backend == "jax"])))
    alone = compare(
        [build("tensorflow", 100.0, None), build("jax", 160.0, None)]
    )  # of no sweep that would name them
    assert alone.setups == found.setups


def test_the_verdict_names_the_fastest_backend_by_batch_size_and_what_is_not_decided() -> None:
    found = sweep_of(
        {
            8: {"tensorflow": 100.0, "jax": 80.0, "torch": 125.0},
            64: {"tensorflow": 400.0, "jax": 800.0, "torch": 500.0},
            512: {"tensorflow": 1000.0, "jax": 1500.0, "torch": 500.0},
            4096: {"tensorflow": 3000.0, "jax": 3000.0, "torch": 1000.0},
        }
    )
    assert find_verdict(found)[:4] == (
        "Use PyTorch at batch 8, JAX at batch 64 to 512 and TensorFlow or JAX at batch 4,096.",
        "JAX is faster than TensorFlow at batch 64, 512: 2.00x and 1.50x.",
        "JAX is slower than TensorFlow at batch 8: 0.80x [0.77, 0.83].",
        "JAX and TensorFlow are equally fast within 5 % at batch 4096: 1.00x [0.97, 1.03].",
    )


@pytest.mark.parametrize("baseline", LABELS.values())
def test_the_fastest_of_three_setups_is_the_same_whichever_is_the_baseline(baseline: str) -> None:
    speeds = {"tensorflow": 100.0, "jax": 160.0, "torch": 120.0}
    told = find_verdict(sweep_of({32: speeds, 64: speeds}, baseline))[0]
    assert told == "Use JAX everywhere."
    # JAX is ahead of TensorFlow, PyTorch of neither: its rounds scatter.
    factors = {"tensorflow": (1.0, 1.01, 0.99), "jax": (1.5, 1.52, 1.49), "torch": (1.2, 1.9, 1.5)}
    briefs = [
        build(name, 100 * factor, number)
        for name, own in factors.items()
        for number, factor in enumerate(own)
    ]
    (standing,) = rank_setups(compare(briefs, baseline=baseline, compared=("backend",)))
    assert set(standing.fastest) == {LABELS["jax"], LABELS["torch"]}


def test_no_setup_is_called_the_fastest_of_equals_or_where_one_is_missing() -> None:
    equal = {"tensorflow": 100.0, "jax": 100.0, "torch": 100.0}
    two_ahead = {"tensorflow": 50.0, "jax": 100.0, "torch": 100.0}
    for speeds in (equal, two_ahead):
        assert not any(
            text.startswith("Use ") for text in find_verdict(sweep_of({32: speeds, 64: speeds}))
        )
    two = {"tensorflow": 100.0, "jax": 200.0}
    missing = sweep_of({32: two | {"torch": 50.0}, 64: two})
    assert (
        find_verdict(missing)[0]
        == "Use JAX at batch 32. Not all are measured, or comparable, at batch 64."
    )


def test_setups_that_differ_in_more_than_their_backend_keep_their_names() -> None:
    several = ["default cpu:0", "default gpu:0 backend=jax"]
    assert name_setups(several) == {name: name for name in several}
    labels = ["default cpu:0", "default cpu:0 backend=tensorflow"]
    assert name_setups(labels, {labels[0]: "jax"}) == {
        labels[0]: "JAX",
        labels[1]: "TensorFlow",
    }  # a recipe names it


def test_runs_of_several_sweeps_stand_under_one_name_that_says_their_backend() -> None:
    unnamed = build("jax", 160.0, 1)  # of a recipe that names its backend, and a sweep that did not
    unnamed.tags["tfbench.setup"] = "default cpu:0"
    named = build("tensorflow", 100.0, 2)
    named.tags["tfbench.setup"] = "default cpu:0 backend=tensorflow"
    found = compare([build("tensorflow", 100.0, 1), named, unnamed])
    assert found.setups == (LABELS["tensorflow"], LABELS["jax"])


def test_replicas_beside_another_backend_are_no_scaling_and_no_cause() -> None:
    (two,) = replica_setups("cpu", [2])
    runs = [build("jax", 160.0, number) for number in (1, 2, 3)]
    runs += [
        build_brief(80.0, setup=two, round_number=number, settings=SETTINGS["tensorflow"])
        for number in (1, 2, 3)
    ]
    found = compare(runs, keys=[])
    assert find_scaling(found) is None
    told = find_verdict(found)[0]
    assert told.startswith("mirrored cpu:0,cpu:1 is slower than default cpu:0 backend=jax")
