"""What a measurement begins with, made up."""

from pathlib import Path
from typing import Any

from builders import build_recipe, build_request
from tfbench.records.journal import Journal
from tfbench.worker.breakdown import Breakdown
from tfbench.worker.prepared import Prepared


def build_prepared(folder: Path, recipe: Any = None, **fields: Any) -> Prepared:
    """Builds it, with a journal `run.jsonl` in a folder; what a test does not give is not there."""
    folder.mkdir(exist_ok=True)
    nothing = dict.fromkeys(("splits", "model", "resolved", "summary"))
    defaults: dict[str, Any] = {
        "request": build_request(recipe=recipe or build_recipe()),
        "journal": Journal(folder / "run.jsonl"),
        "breakdown": Breakdown(0),
        "shares_machine": False,
        "memory_before_model": 0,
        "gpu_addresses": (),
    }
    return Prepared(**nothing | defaults | fields)
