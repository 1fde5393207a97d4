"""Sweeps and briefs of runs for tests."""

from typing import Any

from builders import build_recipe
from tfbench.recipe_file import to_tables
from tfbench.run_brief import FORMAT_VERSION, RunBrief
from tfbench.sweep_plan import Arm, SweepPlan, Variation

BATCHES = Variation(key="training.global_batch_size", values=(32, 64))
TWO_ARMS = (Arm(strategy="default", devices=("cpu:0",)), Arm(strategy="mirrored", devices=("cpu:0", "cpu:1")))


def build_plan(**fields: Any) -> SweepPlan:
    """Builds the plan of two batch sizes under two arms in two rounds."""
    return SweepPlan(
        **{
            "sweep_id": "abc",
            "created": 1_700_000_000.0,
            "recipe_name": "test",
            "tables": to_tables(build_recipe()),
            "overrides": (),
            "variations": (BATCHES,),
            "arms": TWO_ARMS,
            "num_rounds": 2,
        }
        | fields
    )


def build_brief(
    speed: float | None = 100.0,
    *,
    arm: Arm = TWO_ARMS[0],
    batch: int = 32,
    round_number: int | None = None,
    parameters: int = 1000,
    **fields: Any,
) -> RunBrief:
    """Builds the brief of a run of some speed, in samples per second; with a round it is of a sweep."""
    tags = {}
    if round_number is not None:
        tags = {"tfbench.sweep": "abc", "tfbench.arm": arm.label, "tfbench.round": str(round_number)}
    return RunBrief(
        **{
            "format_version": FORMAT_VERSION,
            "journal_bytes": 1,
            "run_id": f"{arm.strategy}-{parameters}-{batch}-{round_number}",
            "name": "test",
            "recipe": "test",
            "title": "Test",
            "created": 1_700_000_000.0,
            "status": "FINISHED",
            "reason": "",
            "tags": tags,
            "overrides": [],
            "strategy": arm.strategy,
            "devices": list(arm.devices),
            "hardware": ["Example CPU 3000"] * len(arm.devices),
            "is_synthetic": False,
            "metrics": {
                "samples_per_second": speed,
                "num_parameters": parameters,
                "global_batch_size": batch,
                "num_replicas": len(arm.devices),
                "per_replica_batch_size": batch // len(arm.devices),
                "step_time_median_seconds": batch / speed if speed else None,
            },
            "cautions": [],
            "settings": {"training.global_batch_size": batch, "model.hidden_units": [parameters]},
            "equals": {
                "model.hidden_units": [parameters],
                "global_batch_size": batch,
                "settings": {"jit_compile": False},
                "environment": {"hostname": "bench"},
                "device_kinds": ["cpu"],
            },
            "noise_key": {"arm": arm.label},
            "references": [],
        }
        | fields
    )
