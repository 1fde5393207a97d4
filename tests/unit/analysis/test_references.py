"""Published figures beside measured ones: what makes them comparable, how they compare, and what is said of it."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from builders import build_recipe, build_request, build_result
from journals import write_journal
from sweeps import TWO_SETUPS, build_brief, build_plan, write_sweep
from tfbench.analysis.comparison.comparison import Comparison, compare
from tfbench.analysis.comparison.references import match_references
from tfbench.analysis.run.summary import summarize_run
from tfbench.recipe.files import load_recipe, shipped_folder
from tfbench.recipe.tables import to_tables
from tfbench.report.comparison.comparison import comparison_document
from tfbench.report.comparison.references import (
    DISCLAIMER,
    describe_match,
    describe_pair,
    reference_section,
)
from tfbench.report.run.sections import run_sections
from tfbench.report.table import markdown, text
from tfbench.store.store import Store
from tfbench.store.sweep_log import read_sweep
from tfbench.sweeps.comparison import compare_stored, compare_sweep

BATCH = "training.global_batch_size"
DEFAULT, MIRRORED = (setup.label for setup in TWO_SETUPS)
OWN = {BATCH: 32, "model.hidden_units": [1000]}
# 20 epochs of 60,000 samples in 131.866 s, as of an i7-6850K: 6.5933 s an epoch.
CHAINER = {"hardware": "Old CPU", "devices": "cpu", "figures": {"epochs": 20, "elapsed_seconds": 131.866}}


def brief(speed: float = 100.0, **fields: Any) -> Any:
    """Builds the brief of a run on 60,000 real samples, of a recipe with one reference."""
    made = build_brief(speed, **{"references": [CHAINER]} | fields)
    made.settings["dataset.train_samples"] = 60_000
    return made


def compared(*briefs: Any, own: dict[str, Any] | None = OWN, **options: Any) -> Comparison:
    return dataclasses.replace(compare(briefs, **options), own_settings=own)


def short(comparison: Comparison) -> list[str]:
    """Returns what a screen says of the references."""
    section = reference_section(match_references(comparison), is_full=False)
    return list(section.sentences) if section else []


def said(*briefs: Any, own: dict[str, Any] | None = OWN) -> str:
    """Returns what is said of the only reference."""
    (match,) = match_references(compared(*briefs, own=own))
    return describe_match(match)


def test_a_run_is_compared_by_the_epoch_that_its_speed_makes_however_many_it_trained() -> None:
    # 60,000 samples at 5,357 a second are 11.2 s; 6.5933 / 11.2 = 0.5887. The time of one epoch holds the compilation.
    for times in ({}, {"epoch_seconds": 26.0, "validation_seconds": 3.0}):
        run = brief(60_000 / 11.2)
        run.metrics.update(times)
        (match,) = match_references(compared(run, keys=[BATCH]))
        (pair,) = match.pairs
        assert (pair.ours, pair.theirs, pair.ratio) == pytest.approx((11.2, 6.5933, 0.5887), rel=1e-4)
    assert describe_pair(match.reference, pair) == (
        f"{DEFAULT}, global_batch_size=32 on Example CPU 3000: 0.59x Old CPU, cpu (11.2 vs 6.59 s per epoch)"
    )
    assert describe_match(match) == "comparable in s per epoch, but for hardware and software"


def test_a_run_alone_and_in_a_comparison_is_held_against_the_same_figures(tmp_path: Path) -> None:
    store = Store(tmp_path)
    own = load_recipe(shipped_folder() / "mnist_mlp.toml", {BATCH: 100, "model.hidden_units": [1000, 1000]})
    other = load_recipe(shipped_folder() / "mnist_mlp.toml", {BATCH: 128})
    keys = (BATCH, "model.hidden_units")  # set on the command line: one run to what they are anyway
    for recipe, says in ((own, "x Intel i7-6850K"), (other, "not comparable: other batch size: 128")):
        request = build_request(recipe=recipe, overrides=keys, run_id=f"{recipe.training.global_batch_size:032}")
        result = build_result(request=request)
        write_journal(store, result)
        assert says in " ".join(text(run_sections(result, summarize_run(result)), 200))
        pairs = match_references(compare_stored(store, [request.run_id]))[0].pairs
        assert bool(pairs) == (recipe is own)


def test_samples_a_second_are_compared_as_they_are() -> None:
    reference = {"hardware": "Old GPU", "devices": "1 gpu", "figures": {"samples_per_second": 366.0}}
    (match,) = match_references(compared(brief(1464.0, references=[reference])))
    (pair,) = match.pairs
    assert (pair.name, pair.ratio) == ("samples_per_second", 4.0)
    assert describe_pair(match.reference, pair).endswith(": 4.00x Old GPU, 1 gpu (1,464 vs 366 samples/s)")
    assert describe_match(match) == "comparable in samples/s, but for hardware and software"


def test_every_setup_at_the_recipes_own_setting_is_compared_and_no_other() -> None:
    briefs = [brief(setup=setup, batch=batch) for setup in TWO_SETUPS for batch in (32, 64)]
    (match,) = match_references(compared(*briefs, keys=[BATCH]))
    assert [(pair.setup, pair.setting) for pair in match.pairs] == [(DEFAULT, {BATCH: 32}), (MIRRORED, {BATCH: 32})]


@pytest.mark.parametrize(
    ("fields", "reasons"),
    [
        ({"batch": 128}, "other batch size: 128"),
        ({"batch": 128, "parameters": 10}, "other batch size: 128; other network: hidden_units=[10]"),
        ({"is_synthetic": True, "batch": 64}, "other batch size: 64; synthetic data here"),
        ({"settings": OWN | {"dataset.crop": 24}, "overrides": ["dataset.crop"]}, "other data: crop=24"),
        (
            {"settings": OWN | {"training.optimizer.name": "sgd"}, "overrides": ["training.optimizer.name"]},
            "other training: optimizer.name=sgd",
        ),
    ],
)
def test_what_is_not_the_recipes_own_is_not_comparable_and_says_why(fields: dict[str, Any], reasons: str) -> None:
    assert said(brief(**fields)) == f"not comparable: {reasons}"


def test_the_runs_that_come_nearest_say_why() -> None:
    briefs = [brief(batch=batch, parameters=size) for size in (10, 1000) for batch in (64, 128)]
    assert said(*briefs) == "not comparable: other batch size: 64, 128"
    many = [brief(batch=batch) for batch in (64, 128, 256, 512, 1024, 2048)]
    assert said(*many) == "not comparable: other batch size: 64, 128, 256, 512 and 2 more"


@pytest.mark.parametrize(
    "key", ["training.seed", "training.epochs", "training.compiler", "training.intra_op_threads", "dataset.data"]
)
def test_what_makes_no_other_workload_does_not_matter(key: str) -> None:
    assert said(brief(settings=OWN | {key: 7}, overrides=[key]), own=OWN | {key: 1}).startswith("comparable")


def test_where_the_recipes_own_values_are_not_known_what_the_command_line_set_counts_as_other() -> None:
    assert said(brief(overrides=[BATCH]), own=None) == "not comparable: other batch size: 32"
    assert said(brief(overrides=[]), own=None).startswith("comparable")
    assert said(brief(overrides=[BATCH])).startswith("comparable")  # it was set to what it is


def test_a_reference_without_a_speed_or_that_says_why_is_not_comparable() -> None:
    why = "its network computes something else"
    for fields, reason in (
        ({"figures": {"val_accuracy": 0.98}}, "no speed was published"),
        ({"figures": {"elapsed_seconds": 1200.0}}, "its time is of an unknown number of epochs"),
        ({"not_comparable": why}, why),
    ):
        references = [CHAINER | fields]
        assert said(brief(references=references)) == f"not comparable: {reason}"
        assert said(brief(references=references, batch=64)) == f"not comparable: other batch size: 64; {reason}"


def test_without_a_speed_or_a_number_of_samples_nothing_is_comparable() -> None:
    assert said(build_brief(references=[CHAINER])) == "not comparable: no speed here"
    assert said(brief(None, status="FAILED")) == "not comparable: no run of it here has a speed"


def test_a_reference_is_held_against_runs_of_its_own_recipe_alone() -> None:
    other = {"hardware": "Other", "devices": "cpu", "figures": {"epochs": 1, "elapsed_seconds": 5.0}}
    briefs = [brief(), brief(recipe="other", references=[other], run_id="other", setup=TWO_SETUPS[1])]
    matches = match_references(compared(*briefs, own=None))
    assert [[pair.setup for pair in match.pairs] for match in matches] == [[DEFAULT], [MIRRORED]]


def test_references_stand_beside_in_every_format() -> None:
    unverified = {"hardware": "Old | GPU", "devices": "1 gpu", "verified": False, "figures": {"val_accuracy": 0.9802}}
    found = compared(brief(60_000 / 11.2, references=[CHAINER, unverified]), keys=[BATCH])
    pair, reason = "0.59x Old CPU, cpu (11.2 vs 6.59 s per epoch)", "not comparable: no speed was published"
    assert short(found) == [
        f"- {DEFAULT}, global_batch_size=32 on Example CPU 3000: {pair}",
        DISCLAIMER,
        f"1 published result, {reason}",
    ]
    section = reference_section(match_references(found))
    assert section is not None
    shown = "\n".join(markdown([section]))
    assert "| 20 | 131.866 |  | Old CPU, cpu: comparable in s per epoch, but for hardware and software |" in shown
    assert pair in shown and DISCLAIMER in shown
    one, other = json.loads(json.dumps(comparison_document(found, ())))["reference"]
    assert (one["figures"], one["comparable"], one["reasons"]) == (CHAINER["figures"], True, [])
    assert one["compared"][0]["ratio"] == pytest.approx(6.5933 / 11.2, rel=1e-4)
    assert (other["comparable"], other["compared"]) == (False, [])


def test_references_that_cannot_be_compared_are_a_line() -> None:
    others = [CHAINER | {"hardware": name} for name in ("A", "B", "C")]
    assert short(compared(brief(batch=64, references=others))) == [
        "3 published results, not comparable: other batch size: 64"
    ]
    others[0] |= {"not_comparable": "its network computes something else"}
    assert short(compared(brief(batch=64, references=others))) == [
        "3 published results, not comparable; the report lists the reasons"
    ]


def test_without_references_nothing_is_said_of_them() -> None:
    found = compared(brief(references=[]))
    assert (reference_section(match_references(found)), comparison_document(found, ())["reference"]) == (None, [])


def write_real_sweep(store: Store, **fields: Any) -> None:
    write_sweep(store, build_plan(num_rounds=1, **fields), lambda cell: 1000.0)


def test_a_sweeps_plan_tells_the_recipes_own_values_but_for_what_the_command_line_set(tmp_path: Path) -> None:
    store = Store(tmp_path)
    recipe = build_recipe(training={"global_batch_size": 64}, reference=[CHAINER | {"source": "a paper"}])
    write_real_sweep(store, tables=to_tables(recipe), overrides=("model.hidden_units",))
    own = compare_sweep(store, *read_sweep(store, "abc")).own_settings
    assert own is not None and "model.hidden_units" not in own
    assert (own[BATCH], own["training.seed"]) == (64, 0)
    assert compare_stored(store).own_settings is None  # the recipe "test" is none that is shipped


def test_a_shipped_recipe_tells_its_own_values_whatever_was_set(tmp_path: Path) -> None:
    store = Store(tmp_path)
    recipe = load_recipe(shipped_folder() / "mnist_mlp.toml", {BATCH: 512, "training.epochs": 1})
    write_real_sweep(store, tables=to_tables(recipe), recipe_name="mnist_mlp", overrides=(BATCH, "training.epochs"))
    for found in (compare_sweep(store, *read_sweep(store, "abc")), compare_stored(store)):
        assert found.own_settings is not None
        assert (found.own_settings[BATCH], found.own_settings["training.epochs"]) == (100, 20)
        cpu, *_ = (describe_match(match) for match in match_references(found))
        assert cpu == "not comparable: other batch size: 32, 64; synthetic data here"
