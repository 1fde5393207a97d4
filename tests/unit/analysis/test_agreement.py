"""No command contradicts another about the same runs."""

import dataclasses
import json
import math
import random
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from builders import build_recipe, build_request, build_result, build_span, place_request
from journals import write_journal
from tfbench.analysis.run.summary import summarize_run
from tfbench.cli import cli
from tfbench.errors import ComparisonError
from tfbench.records.run import RunRequest
from tfbench.runs.baseline import Baseline, check, make_baseline
from tfbench.runs.run import Run
from tfbench.store.store import Store


def judge_two_groups(store: Store, seed: int) -> tuple[str, str]:
    """Returns what `check` and `compare` say of runs now beside runs then, at speeds drawn around what is planted."""
    rng = random.Random(seed)
    spread, effect = rng.choice([0.005, 0.02, 0.05]), rng.choice([1.0, 1.0, 0.95, 1.05, 0.8, 1.25])
    num_then, num_now = (rng.choice([1, 1, 2, 3, 5]) for _ in range(2))
    recipe = build_recipe(measurement={"seconds": 5.0})
    tags = ({"tfbench.sweep": "x", "tfbench.setup": setup} for setup in ("then", "now"))
    then, now = (build_request(recipe=recipe, tags=own) for own in tags)

    def execute(request: RunRequest, *rest: Any) -> Run:
        factor = effect if request.tags["tfbench.setup"] == "now" else 1.0
        seconds = 20 * recipe.training.global_batch_size / (1000.0 * factor * math.exp(rng.gauss(0, spread)))
        spans = [build_span(first_step=20 * n + 2, last_step=20 * n + 21, seconds=seconds) for n in range(3)]
        first = build_span(first_step=1, last_step=1)
        result = build_result(request=request, placement=place_request(request), spans=(first, *spans))
        write_journal(store, result)
        return Run(
            result=result, summary=summarize_run(result), tracked=None, journal=Path("run.jsonl"), was_interrupted=False
        )

    sample, _ = make_baseline(then, num_then, execute)
    try:
        said = check(now, Baseline(source="then", sample=sample), num_now, execute)[0].judgement
    except ComparisonError:
        said = "not judged"
        execute(dataclasses.replace(now, run_id="b" * 32))
    arguments = ["compare", "--all", "--baseline", "then", "--store", str(store.root), "--format", "json"]
    (row,) = json.loads(CliRunner().invoke(cli, arguments, catch_exceptions=False).stdout)["rows"]
    compared = {entry["setup"]: entry["speedup"] for entry in row["entries"]}["now"]["judgement"]
    return {"regression": "slower"}.get(said, said), compared


def test_commands_agree_about_the_same_runs(in_tmp_path: Path) -> None:
    found = [judge_two_groups(Store(in_tmp_path / str(seed)), seed) for seed in range(10)]
    assert all(of_check == of_compare for of_check, of_compare in found), found
    assert len(set(found)) >= 3  # all that there is to say was said
