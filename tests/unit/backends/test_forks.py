"""What a prepared process has before it forks.

The framework, and nothing that a fork would lose or two would share.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from builders import build_recipe, build_request
from gpu_machine import NAME, probe
from tfbench.datasets.sources import synthetic
from tfbench.measure import data, forks
from tfbench.store.journal import request_fields


def test_no_device_is_in_use_before_a_fork_and_all_that_takes_long_to_import_is_there() -> None:
    found = probe("prepare_to_fork")
    assert (found["said"], found["is_started"], found["gpu_files"]) == ("ready", False, [])
    assert {"keras", NAME, f"tfbench.backends.{NAME}.backend", "tfbench.measure.benchmark"} <= {
        *found["modules"]
    }


def test_synthetic_samples_are_made_once_for_all_that_it_forks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def generate(spec: Any, *, seed: int) -> Any:
        made.append(seed)
        return object()

    made: list[int] = []
    data.make_synthetic.cache_clear()
    monkeypatch.setattr(synthetic, "generate_splits", generate)
    path = tmp_path / "request.json"
    path.write_text("no request", encoding="utf-8")
    forks._make_data_ahead(path)  # which the measuring process will say
    recipe = build_recipe()
    path.write_text(json.dumps(request_fields(build_request(recipe=recipe))), encoding="utf-8")
    forks._make_data_ahead(path)
    data.load_data(recipe.dataset, None, seed=recipe.training.seed)
    assert made == [recipe.training.seed]
    data.load_data(recipe.dataset, None, seed=recipe.training.seed + 1)
    assert len(made) == 2
    data.make_synthetic.cache_clear()
