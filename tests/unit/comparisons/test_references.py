"""Published figures beside measured ones.

What makes them comparable, how they compare, and what is said of it.
"""

from typing import Any

import pytest

from builders import build_request, build_result
from journals import write_journal
from kinds import Fields, Golden
from sweeps import BATCH, DEFAULT, MIRRORED, TWO_SETUPS, build_brief, build_plan, write_sweep
from tfbench.comparisons.comparison import Comparison, compare
from tfbench.comparisons.comparison_text import comparison_document
from tfbench.comparisons.references import ReferenceMatch, match_references, reference_section
from tfbench.recipe.files import load_recipe, shipped_folder
from tfbench.recipe.tables import to_tables
from tfbench.runs.run_text import run_sections
from tfbench.runs.summary import summarize_run
from tfbench.show.table import markdown, text
from tfbench.store.store import Store
from tfbench.sweeps.compared import compare_stored

# 20 epochs of 60,000 samples in 131.866 s, as of an i7-6850K: 9,100 samples a second.
CHAINER = {
    "hardware": "Old CPU",
    "devices": "cpu",
    "figures": {"epochs": 20, "elapsed_seconds": 131.866},
}


def brief(speed: float = 100.0, **fields: Any) -> Any:
    """Builds the brief of a run on 60,000 real samples, of a recipe with one reference."""
    made = build_brief(speed, **{"references": [CHAINER]} | fields)
    made.settings["dataset.train_samples"] = 60_000
    return made


def matched(*briefs: Any) -> ReferenceMatch:
    (match,) = match_references(compare(briefs))
    return match


def short(comparison: Comparison) -> list[str]:
    """Returns what a screen says of the references."""
    section = reference_section(match_references(comparison), is_full=False)
    return list(section.sentences) if section else []


@pytest.mark.parametrize(
    ("figures", "theirs"),
    [
        (CHAINER["figures"], 9100.147),
        ({"epoch_seconds": 6.0, "epochs": 20, "elapsed_seconds": 200.0}, 10_000.0),
        ({"samples_per_second": 366.0}, 366.0),
        ({"val_accuracy": 0.98}, None),
        ({"elapsed_seconds": 1200.0}, None),  # of an unknown number of epochs
    ],
)
def test_a_published_speed_is_that_or_the_samples_of_an_epoch_by_its_time(
    figures: dict[str, float], theirs: float | None
) -> None:
    match = matched(brief(4550.0, references=[CHAINER | {"figures": figures}]))
    found = [(pair.ours, pair.theirs, pair.ratio) for pair in match.pairs]
    assert found == ([pytest.approx((4550.0, theirs, 4550 / theirs), rel=1e-5)] if theirs else [])
    assert match.reason == ("" if theirs else "no speed was published")


def test_runs_of_a_shipped_recipe_are_held_against_its_own_values_alone_and_in_a_comparison(
    store: Store,
) -> None:
    own = load_recipe(
        shipped_folder() / "mnist_mlp.toml", {BATCH: 100, "model.hidden_units": [1000, 1000]}
    )
    other = load_recipe(shipped_folder() / "mnist_mlp.toml", {BATCH: 128})
    keys = (BATCH, "model.hidden_units")  # set on the command line: one run to what they are anyway
    edited = load_recipe(
        shipped_folder() / "mnist_mlp.toml", {BATCH: 64, "training.optimizer.learning_rate": 0.5}
    )
    for recipe, says in (
        (own, "x of Intel i7-6850K"),
        (other, "not comparable: you used global_batch_size=128"),
        (edited, "not comparable: you used global_batch_size=64, optimizer.learning_rate=0.5"),
    ):
        request = build_request(
            recipe=recipe, overrides=keys, run_id=f"{recipe.training.global_batch_size:032}"
        )
        result = build_result(request=request)
        write_journal(store, result)
        assert says in " ".join(text(run_sections(result, summarize_run(result)), 200))
        pairs = match_references(compare_stored(store, [request.run_id]))[0].pairs
        assert bool(pairs) == (recipe is own)


def test_a_sweep_of_a_shipped_recipe_is_held_against_what_stands_in_its_file(
    store: Store,
) -> None:
    recipe = load_recipe(shipped_folder() / "mnist_mlp.toml", {BATCH: 512, "training.epochs": 1})
    plan = build_plan(
        num_rounds=1, tables=to_tables(recipe), recipe_name="mnist_mlp", overrides=(BATCH,)
    )
    write_sweep(store, plan, lambda planned: 1000.0)
    reason = match_references(compare_stored(store))[0].reason
    assert (
        reason == "you used global_batch_size=32, synthetic data"
    )  # fewest of all settings, and 100 is in none


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"overrides": [BATCH]}, "you used global_batch_size=32"),
        (
            {"overrides": [BATCH, "model.hidden_units"]},
            "you used global_batch_size=32, hidden_units=[1000]",
        ),
        ({"is_synthetic": True}, "you used synthetic data"),
        ({"settings": {"dataset.crop": 24}, "overrides": ["dataset.crop"]}, "you used crop=24"),
        ({"speed": None, "status": "FAILED"}, "no speed was measured"),
        (
            {"references": [CHAINER | {"not_comparable": "it computes something else"}]},
            "it computes something else",
        ),
        *(
            ({"settings": {key: 7}, "overrides": [key]}, "")  # makes no other workload
            for key in ("training.seed", "training.epochs", "training.compiler", "dataset.data")
        ),
    ],
)
def test_what_is_not_the_recipes_own_is_not_comparable_and_says_why(
    fields: Fields, reason: str
) -> None:
    match = matched(brief(**fields))
    assert (match.reason, bool(match.pairs)) == (reason, not reason)


def test_a_reference_is_held_against_runs_of_its_own_recipe_alone() -> None:
    other = {"hardware": "Other", "devices": "cpu", "figures": {"samples_per_second": 5.0}}
    briefs = [
        brief(),
        brief(recipe="other", references=[other], run_id="other", setup=TWO_SETUPS[1]),
    ]
    assert [
        [pair.setup for pair in match.pairs] for match in match_references(compare(briefs))
    ] == [
        [DEFAULT],
        [MIRRORED],
    ]


def test_references_are_shown_as_in_the_golden_file(golden: Golden) -> None:
    unverified = {
        "hardware": "Old | GPU",
        "devices": "1 gpu",
        "verified": False,
        "figures": {"val_accuracy": 0.9802},
    }
    found = compare([brief(5357.0, references=[CHAINER, unverified])], keys=[BATCH])
    assert len(short(found)) == 2  # the other has no speed
    section = reference_section(match_references(found))
    golden("references.md", "\n".join(markdown([section])) + "\n")
    one, other = comparison_document(found, ())["reference"]
    assert (one["figures"], one["comparable"], one["reason"]) == (CHAINER["figures"], True, "")
    assert (other["comparable"], other["compared"]) == (False, [])


def test_a_reason_is_said_of_several_references_only_where_it_is_that_of_all() -> None:
    others = [CHAINER | {"hardware": name, "not_comparable": "other network"} for name in "ABC"]
    assert short(compare([brief(references=others)])) == [
        "3 published results not comparable: other network."
    ]
    others[0]["not_comparable"] = "other data"
    said = ["3 published results not comparable: the report lists the reasons."]
    assert short(compare([brief(references=others)])) == said
