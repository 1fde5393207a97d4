"""Runs of several back ends side by side."""

from typing import Any

from floors import no_floor
from sweeps import build_brief
from tfbench.analysis.comparison.brief import RunBrief
from tfbench.analysis.comparison.comparison import compare
from tfbench.analysis.comparison.verdict import find_verdict
from tfbench.sweeps.plan import parse_arm

BATCH = "training.global_batch_size"
SETTINGS: dict[str, dict[str, Any]] = {
    "tensorflow": {"settings": {"compiler": "graph", "precision": "float32"}, "environment": {"tensorflow": "2.21.0"}},
    "jax": {
        "settings": {"compiler": "xla", "precision": "float32", "backend": "jax"},
        "environment": {"tensorflow": None, "jax": "0.10.2"},
    },
}


def build(backend: str, speed: float, round_number: int | None, **equals: Any) -> RunBrief:
    values = "" if backend == "tensorflow" else f" backend={backend}"
    return build_brief(
        speed,
        arm=parse_arm(f"default cpu:0{values}"),
        round_number=round_number,
        run_id=f"{backend}{round_number}",
        settings={
            BATCH: 32,
            "training.backend": backend,
            "training.compiler": SETTINGS[backend]["settings"]["compiler"],
        },
        equals={"global_batch_size": 32, **SETTINGS[backend], **equals},
    )


def test_back_ends_are_arms_that_are_compared_for_what_they_are() -> None:
    runs = [
        build(name, speed, number) for number in (1, 2, 3) for name, speed in (("tensorflow", 100.0), ("jax", 160.0))
    ]
    found = compare(runs, no_floor)
    assert found.arms == ("default cpu:0", "default cpu:0 backend=jax")
    assert found.keys == ()
    speedup = found.rows[0].entries[found.arms[1]].speedup
    assert speedup
    assert (round(speedup.ratio, 6), speedup.judgement) == (1.6, "faster")
    verdict = "\n".join(find_verdict(found))
    assert "(TensorFlow's by TensorFlow's graph, JAX's by XLA)" in verdict
    assert "equal on all back ends" in verdict


def test_runs_that_no_sweep_named_have_their_back_end_in_the_arm() -> None:
    found = compare([build("tensorflow", 100.0, None), build("jax", 160.0, None)], no_floor)
    assert found.arms == ("default cpu:0", "default cpu:0 backend=jax")


def test_runs_of_one_back_end_must_be_equal_whatever_stands_beside_them() -> None:
    other = {"settings": {"compiler": "xla", "precision": "float32"}, "environment": {"tensorflow": "2.20.0"}}
    runs = [build("tensorflow", 100.0, None), build("jax", 160.0, None)]
    unlike = build_brief(90.0, arm=parse_arm("one_device cpu:0"), equals={"global_batch_size": 32, **other})
    found = compare([*runs, unlike], no_floor, keys=[])
    assert [one.name for one in found.rows[0].entries["one_device cpu:0"].unequal] == ["compiler", "tensorflow"]
    assert found.rows[0].entries["default cpu:0 backend=jax"].unequal == ()


def test_what_back_ends_need_not_differ_in_must_be_equal() -> None:
    other = build("jax", 160.0, 1, global_batch_size=64)
    entry = compare([build("tensorflow", 100.0, 1), other], no_floor).rows[0].entries["default cpu:0 backend=jax"]
    assert [difference.name for difference in entry.unequal] == ["global_batch_size"]
    assert entry.speedup is None


def test_one_back_end_is_no_comparison_of_several() -> None:
    found = compare([build("jax", 100.0, number) for number in (1, 2)], no_floor)
    assert found.compared == ()
    assert "back ends" not in "\n".join(find_verdict(found))
