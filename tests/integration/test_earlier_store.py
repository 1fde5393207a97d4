"""What an earlier version measured is read as it was then: `tests/data/store_0.1.0` says what that version said.

It holds a run with snapshots, a profile, a sweep, a calibration, a baseline and an export; `said/` is what that version
printed of them, byte by byte, and what it sent to MLflow.
"""

import csv
import dataclasses
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from runs import tracked_runs
from tfbench.analysis.comparison.regression import find_unequal, make_sample
from tfbench.metrics import LEARNING_METRICS, TRACKED_METRICS
from tfbench.records.journal import read_run
from tfbench.records.sweep import Variation, list_settings, resolve_recipe
from tfbench.runs.baseline import read_baseline
from tfbench.store.noise_floors import find_noise_floor, list_noise_floors
from tfbench.store.store import Store
from tfbench.store.sweep_log import read_sweep
from tfbench.tracking.mlflow_view import AXES

DATA = Path(__file__).parents[1] / "data" / "store_0.1.0"
SAID = DATA / "said"
SWEEP, KEPT, FIRST, SECOND = "8d2510d2f36b", "9e06273d0665", "0900cf64f8de", "14ab84d5f90e"

# Keys that recipes have got since, at the value that those of that version were measured with.
# What is in MLflow under another name since; what is under none is no longer sent.
METRICS_NOW = {
    "samples_per_second": "by_epoch/samples_per_second",
    "elapsed_seconds": "by_epoch/elapsed_seconds",
    **{f"summary/{name}": AXES.get(name, name) for name in (*TRACKED_METRICS, *AXES)},
    **{name: name for name in LEARNING_METRICS},
}
# Settings that are newer, variables of frameworks, versions of JAX and PyTorch with their CUDA, the watts of an
# estimate, digests of code, and what came of the cache of data.
NUM_NEWER = 14
# Keys of JSON documents that were not there then.
NEWER_KEYS = ("too_noisy", "machine", "machines", "samples_per_joule", "energy_joules_per_epoch", "energy_parts")
# What has another name, and other values, since: (name, value) then and now, as recipes and as settings have it.
RENAMED = {
    ("training.jit_compile", "false"): ("training.compiler", "null"),
    ("effective.jit_compile", "false"): ("effective.compiler", "graph"),
}
RENAMED_TEXTS = {
    "jit_compile             false          false": "compiler                graph          graph",
    '"jit_compile=False"': '"compiler=graph"',
}

# How sure a figure is was judged by another rule then.
REJUDGED_KEYS = ("low", "high", "method", "noise_limit", "p_value", "family_p_value")
REJUDGED_COLUMNS = (6, 7, 10, 11)
# What was said then, and in which words it is now.
OTHER_WORDS = {
    "Not like with like:": "Not comparable:",
    "  better\n": "     aim\n",
    "mirrored cpu:0,cpu:1 and one_device cpu:0 show no measurable difference for all 2 settings.": (
        "mirrored cpu:0,cpu:1 and one_device cpu:0: too noisy to tell for all 2 settings: these runs leave open 0.32 "
        "to 1.45 times the speed. More rounds (--repeats) or longer runs tell more."
    ),
}

Cli = Callable[..., Any]


def in_words_of_now(said: str) -> str:
    """Returns what was said then as it is said now."""
    for then, now in (OTHER_WORDS | RENAMED_TEXTS).items():
        said = said.replace(then, now)
    return said


def without_intervals(document: str, name: str) -> str:
    """Returns a comparison without what another rule of judging makes of the same speeds."""
    if name.endswith(".csv"):
        rows = list(csv.reader(document.splitlines()))
        kept = [[cell for place, cell in enumerate(row) if place not in REJUDGED_COLUMNS] for row in rows]
        return "\n".join(map(",".join, kept))
    document = re.sub(r"leave open [\d.]+ to [\d.]+ times", "leave open", document)
    return re.sub(rf'\n *"({"|".join(REJUDGED_KEYS)})": .*', "", document)


@pytest.fixture
def store(in_tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the store in the current folder."""
    monkeypatch.setenv("COLUMNS", "80")
    shutil.copytree(DATA / "store", "mlruns")
    return in_tmp_path / "mlruns"


@pytest.mark.parametrize(
    ("said", "arguments"),
    [
        ("compare_sweep.json", ("compare", "--sweep", SWEEP, "--format", "json")),
        ("compare_all.csv", ("compare", "--all", "--format", "csv")),
        ("diff.txt", ("diff", FIRST, SECOND)),
        ("show_effective.txt", ("show", "--effective", KEPT)),
        ("calibrations.json", ("calibrate", "--list", "--format", "json")),
    ],
)
@pytest.mark.parametrize("has_briefs", [True, False], ids=["with its briefs", "from its journals alone"])
def test_says_what_it_said(tfbench: Cli, store: Path, said: str, arguments: tuple[str, ...], has_briefs: bool) -> None:
    if not has_briefs:
        for brief in store.glob("journals/*.brief.json"):
            brief.unlink()
    done = tfbench(*arguments)
    assert (done.exit_code, done.stderr) == (0, "")
    text = in_words_of_now((SAID / said).read_text(encoding="utf-8"))
    text = re.sub(r"\b(\d+) values w", lambda found: f"{int(found[1]) + NUM_NEWER} values w", text)
    now = re.sub(rf'\n *"({"|".join(NEWER_KEYS)})": .*', "", done.stdout)
    if said == "compare_all.csv":  # has a column more, the last one
        now = re.sub(",(machine|vm)$", "", now, flags=re.MULTILINE)
    if said == "diff.txt":  # its cautions had another order
        text, now = ("\n".join(sorted(one.splitlines())) for one in (text, now))
    if said.startswith("compare_"):
        text, now = (without_intervals(one, said) for one in (text, now))
    assert now == text


def test_the_table_of_a_sweep_says_what_it_said_in_another_layout(tfbench: Cli, store: Path) -> None:
    """That version's tables did not know the width of the terminal, and wrote "+-2.1%"; its legend had other words."""
    table, _, told = tfbench("compare", "--sweep", SWEEP).stdout.partition("\n\nVerdict\n")
    verdict, _, cautions = told.partition("\n\nCautions\n")
    assert cautions.startswith("- in 8 of 8 runs: other processes kept 1.5 of 2 processor cores busy")
    said_table, _, said_verdict = (SAID / "compare_sweep.txt").read_text(encoding="utf-8").partition("\n\nVerdict\n")
    texts = (" ".join(verdict.split()), in_words_of_now(" ".join(said_verdict.split())))
    now, then = (without_intervals(text, "text") for text in texts)
    assert now == then != ""
    figures = re.findall(r"[\d.,]+ (?=\+-|\(not bounded)|[\d.]+ \[", said_table)
    assert len(figures) == 6
    assert [figure for figure in figures if figure not in table] == []


def test_an_exported_run_is_the_journal(tfbench: Cli, store: Path) -> None:
    assert tfbench("export", KEPT, "--output", "-").stdout == (DATA / "kept.jsonl").read_text(encoding="utf-8")


def test_an_exported_run_is_imported(tfbench: Cli, in_tmp_path: Path) -> None:
    done = tfbench("import", str(DATA / "kept.jsonl"))
    assert (done.exit_code, done.stdout) == (0, f"{KEPT}  imported   FINISHED\n"), done.stderr
    assert tfbench("export", KEPT, "--output", "-").stdout == (DATA / "kept.jsonl").read_text(encoding="utf-8")


def test_what_is_sent_to_mlflow_is_what_was_sent(tfbench: Cli, store: Path) -> None:
    done = tfbench("recover")
    assert (done.exit_code, done.stdout) == (0, (SAID / "recover.txt").read_text(encoding="utf-8"))
    sent = {
        run.data.tags["tfbench.run_id"]: {
            "status": run.info.status,
            "metrics": run.data.metrics,
            "params": run.data.params,
            "tags": {k: v for k, v in run.data.tags.items() if k == "mlflow.runName" or not k.startswith("mlflow.")},
        }
        for run in tracked_runs(store)
    }
    said = json.loads((SAID / "mlflow.json").read_text(encoding="utf-8"))
    for run in (*sent.values(), *said.values()):  # cautions had another order, and runs of a sweep other names
        if "tfbench.sweep" in run["tags"]:
            del run["tags"]["mlflow.runName"]
        run["tags"]["tfbench.cautions"] = "\n".join(sorted(run["tags"].get("tfbench.cautions", "").splitlines()))
    for run_id, run in said.items():
        run["metrics"] = {METRICS_NOW[name]: value for name, value in run["metrics"].items() if name in METRICS_NOW}
        params = dict(RENAMED.get(pair, pair) for pair in run["params"].items()) | {"training.backend": "tensorflow"}
        run["params"] = {name: value for name, value in params.items() if name in sent[run_id]["params"]}
        result = sent[run_id]["tags"].pop("tfbench.result", "")
        assert result.endswith(" samples/s") or result.startswith(run["status"]) or "tfbench.profile" in run["tags"]
    assert sent == said


def test_a_sweep_that_is_done_is_not_made_again(tfbench: Cli, store: Path) -> None:
    done = tfbench("sweep", "--resume", SWEEP, "--format", "json")
    assert done.exit_code == 0, done.stderr
    assert {path.stem for path in store.glob("journals/*.jsonl")} == {
        path.stem for path in (DATA / "store").glob("journals/*.jsonl")
    }


def test_a_baseline_is_read(store: Path) -> None:
    baseline = read_baseline(Store(store), str(DATA / "baseline.json"))
    assert len(baseline.sample.samples_per_second) == 3


def test_a_baseline_and_a_calibration_of_it_are_of_runs_like_those_of_today(store: Path) -> None:
    """The run is one of that version, which this one reads; what it was measured with is then told in today's words."""
    baseline = read_baseline(Store(store), str(DATA / "baseline.json")).sample
    (floor,) = list_noise_floors(Store(store))
    result = read_run(store / "journals" / f"{SECOND}.jsonl")
    assert result.settings is not None
    now = make_sample([(result, 1.0)], group="now")
    assert baseline.equals["compiler"] == now.equals["compiler"] == result.settings.compiler == "graph"
    assert baseline.noise_key == floor.key
    assert floor.key.settings == now.noise_key.settings
    assert [one.name for one in find_unequal(baseline, now)] == []
    xla = dataclasses.replace(result, settings=dataclasses.replace(result.settings, compiler="xla"))
    assert [one.name for one in find_unequal(baseline, make_sample([(xla, 1.0)], group="now"))] == ["compiler"]
    assert find_noise_floor(Store(store), xla) is None


@pytest.mark.parametrize(("jit_compile", "compiler"), [(True, "xla"), (False, "graph")])
def test_a_run_whose_step_was_compiled_by_xla_or_not_is_read(store: Path, jit_compile: bool, compiler: str) -> None:
    path = store / "journals" / f"{SECOND}.jsonl"
    text = path.read_text(encoding="utf-8").replace('"jit_compile":false', f'"jit_compile":{str(jit_compile).lower()}')
    path.write_text(text.replace('"training.global_batch_size"]', '"training.jit_compile"]'), encoding="utf-8")
    result = read_run(path)
    assert result.settings is not None
    assert (result.settings.compiler, result.request.recipe.training.compiler_used) == (compiler, compiler)
    assert result.request.overrides == ("training.compiler",)


def test_a_sweep_over_jit_compile_is_one_over_the_compiler(store: Path) -> None:
    path = store / "sweeps" / f"{SWEEP}.jsonl"
    plan, *others = path.read_text(encoding="utf-8").splitlines()
    record = json.loads(plan)
    record["plan"]["variations"] = [{"key": "training.jit_compile", "values": [False, True]}]
    path.write_text("\n".join([json.dumps(record), *others]) + "\n", encoding="utf-8")
    plan_now, _ = read_sweep(Store(store), SWEEP)
    assert plan_now.variations == (Variation(key="training.compiler", values=("graph", "xla")),)
    assert "jit_compile" not in plan_now.tables["training"]
    recipes = [resolve_recipe(plan_now, setting, plan_now.arms[0]) for setting in list_settings(plan_now)]
    assert [recipe.training.compiler for recipe in recipes] == ["graph", "xla"]
