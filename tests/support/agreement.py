"""Stores whose speeds are planted, and what each command says of the same runs."""

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from builders import build_recipe, build_request, build_result, build_span, place_request
from journals import write_journal
from tfbench.analysis.run.summary import summarize_run
from tfbench.cli import cli
from tfbench.errors import ComparisonError
from tfbench.records.run import RunExit, RunRequest, RunResult
from tfbench.runs.baseline import Baseline, check, make_baseline
from tfbench.runs.limits import RunOutcome
from tfbench.store.store import Store

WORDS = {"regression": "slower"}  # of a check


class PlantedStore:
    """A store of runs whose speeds are drawn around what is planted.

    Args:
        root: Its folder.
        seed: Of the speeds, how many runs there are, and how far they scatter.
    """

    def __init__(self, root: Path, seed: int) -> None:
        self.store = Store(root)
        self.random = random.Random(seed)
        self.spread = self.random.choice([0.005, 0.02, 0.05])
        self.effect = self.random.choice([1.0, 1.0, 0.95, 1.05, 0.8, 1.25])

    def draw(self, factor: float = 1.0) -> float:
        """Returns the speed of a run, in samples per second."""
        return 1000.0 * factor * float(2.718281828 ** self.random.gauss(0, self.spread))

    def execute(self, factor: Callable[[RunRequest], float]) -> Callable[..., RunOutcome]:
        """Returns what makes runs of planted speeds, and writes their journals."""

        def make(request: RunRequest, *rest: Any) -> RunOutcome:
            result = build_planted(request, self.draw(factor(request)))
            write_journal(self.store, result)
            summary = summarize_run(result)
            return RunOutcome(result=result, summary=summary, tracked=None, was_interrupted=False)

        return make


def build_planted(request: RunRequest, speed: float) -> RunResult:
    """Builds a run that finished, of some speed."""
    batch = request.recipe.training.global_batch_size
    spans = [build_span(first_step=1, last_step=1, seconds=1.0)]
    spans += [build_span(first_step=20 * n + 2, last_step=20 * n + 21, seconds=20 * batch / speed) for n in range(3)]
    exit_ = RunExit(status="FINISHED")
    return build_result(request=request, placement=place_request(request), spans=tuple(spans), exit=exit_)


def ask(store: Store, *arguments: str) -> dict[str, Any]:
    """Returns the JSON document of a command."""
    done = CliRunner().invoke(cli, [*arguments, "--store", str(store.root), "--format", "json"], catch_exceptions=False)
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def judge_two_groups(planted: PlantedStore) -> dict[str, str]:
    """Returns what `check` and `compare` say of runs now beside runs then."""
    nums = [planted.random.choice([1, 1, 2, 3, 5]) for _ in range(2)]
    recipe = build_recipe(measurement={"warmup_steps": 1, "seconds": 5.0})
    requests = {
        name: build_request(recipe=recipe, tags={"tfbench.sweep": "x", "tfbench.arm": name}) for name in ("then", "now")
    }
    execute = planted.execute(lambda request: planted.effect if request.tags["tfbench.arm"] == "now" else 1.0)
    sample, _ = make_baseline(requests["then"], nums[0], execute)
    try:
        done, _ = check(requests["now"], Baseline(source="then", sample=sample), nums[1], execute)
        said = {"check": WORDS.get(done.judgement, done.judgement)}
    except ComparisonError:
        said = {"check": "not judged"}
        execute(build_request(run_id="b" * 32, recipe=recipe, tags=requests["now"].tags))
    (row,) = ask(planted.store, "compare", "--all", "--baseline", "then")["rows"]
    speedups = {entry["arm"]: entry["speedup"] for entry in row["entries"]}
    said["compare"] = speedups["now"]["judgement"]
    return said
