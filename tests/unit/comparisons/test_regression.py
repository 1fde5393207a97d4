"""Whether a recipe has become slower: judgements, and what must be equal for them."""

import math
from pathlib import Path
from typing import Any

import pytest

from builders import (
    build_environment,
    build_placement,
    build_recipe,
    build_request,
    build_result,
    build_settings,
    build_sizes,
)
from kinds import Fields, Golden
from tfbench.comparisons.baseline import SpeedSample, make_sample
from tfbench.comparisons.baseline_text import (
    baseline_sections,
    check_document,
    check_sections,
    judgement_sentence,
)
from tfbench.comparisons.regression import RegressionCheck, judge_regression
from tfbench.errors import ComparisonError
from tfbench.machine.facts import Gpu
from tfbench.show.table import Section, text

BASE = (100.0, 101.0, 99.0, 100.5, 99.5)


def build_sample(*speeds: float, group: str = "then", **fields: Any) -> SpeedSample:
    """Builds a sample of runs that were alike, of the speeds given."""
    recipe = build_recipe(measurement={"seconds": 5.0})
    result = build_result(**{"request": build_request(recipe=recipe)} | fields)
    return make_sample([(result, speed) for speed in speeds or BASE], group=group)


def check(factor: float, *limits: float) -> RegressionCheck:
    now = build_sample(*(factor * speed for speed in BASE), group="now")
    return judge_regression(build_sample(), now, *limits)


def changes_to(**fields: Any) -> RegressionCheck:
    return judge_regression(build_sample(), build_sample(**fields))


def shown(sections: list[Section]) -> str:
    return "\n".join(text(sections, 300))


def test_a_regression_is_measurably_beyond_the_limit() -> None:
    sentence = "FAILED: regression, 0.95x [0.94, 0.96] of the baseline's speed"
    assert judgement_sentence(check(0.95, 0.0)) == sentence
    # Both spread by 0.79 %: half of the interval is 1.16 % of the ratio, so that from 1 - 0.95 /
    # 1.0116 on it fails.
    smallest = check(1.0).smallest_detectable
    assert smallest == pytest.approx(1 - 0.95 / 1.0116, abs=1e-4)
    for slower, judgement in (
        (smallest + 1e-3, "regression"),
        (smallest - 1e-3, "slower"),
        (0.02, "slower"),
        (0.005, "no measurable difference"),
    ):
        found = check(1 - slower)
        assert (found.judgement, found.is_blind) == (judgement, False)


def test_a_check_that_would_have_passed_a_large_slow_down_is_blind() -> None:
    # 3, 6 and 10 % of spread: it fails from 9, 13 and 18 % slower on. The second's interval excludes
    # that training is 10 % slower.
    for spread, is_blind, is_undecided in (
        (0.03, False, False),
        (0.06, True, False),
        (0.1, True, True),
    ):
        speeds = [100 * math.exp(spread * one) for one in (-1.2649, -0.6325, 0.0, 0.6325, 1.2649)]
        done = judge_regression(build_sample(*speeds), build_sample(*speeds, group="now"))
        document = check_document({"baseline.json": done}, 0)
        assert (document["judgement"], document["fail_above"]) == ("no measurable difference", 0.05)
        assert (document["is_blind"], document["is_undecided"]) == (is_blind, is_undecided)
        assert document["sentence"].startswith("UNDECIDED: could not tell, ") == is_undecided
        assert document["outcome"] == ("UNDECIDED" if is_undecided else "PASSED")
        assert not any(name.startswith("_") for name in document)


@pytest.mark.parametrize(
    ("required", "sentence"), [(0.03, "PASSED: no "), (0.01, "FAILED: could not tell, ")]
)
def test_the_user_may_name_the_slow_down_that_a_check_has_to_see(
    required: float, sentence: str
) -> None:
    # It sees 1.2 %, without a limit.
    done = check(1.0, 0.0, required)
    assert judgement_sentence(done).startswith(sentence)
    assert judgement_sentence(done, 1).startswith("FAILED: 1 run failed. The others: ")
    limits = f"(limit 0 %, required {100 * required:g} %)"
    assert limits in shown(check_sections({"base.json": done}, 0))


def test_a_check_that_could_not_tell_still_says_what_it_found_for_certain() -> None:
    for factor, sentence in ((0.5, "FAILED: regression, 0.50x"), (2.0, "PASSED: faster, 2.00x")):
        done = check(factor, 0.05, 0.001)
        assert (done.is_blind, done.is_undecided) == (True, False)
        assert judgement_sentence(done).startswith(sentence)


def test_a_baseline_says_of_how_many_sessions_it_is_and_how_many_it_needs() -> None:
    assert "Too noisy" not in shown(baseline_sections(build_sample(), Path("base.json"), []))
    noisy = shown(baseline_sections(build_sample(100.0, 50.0, 75.0), Path("base.json"), []))
    assert "Too noisy: the baseline is known to ± " in noisy
    assert "Sessions    1. Where days differ by 3 %, unchanged code fails" in noisy
    assert "baselines of 3 days (--baseline for each)" in noisy
    assert "detect less. Save it again while nothing else runs" in noisy
    warned = shown(baseline_sections(build_sample(100.0, 50.0, 75.0), Path("b.json"), ["Load."]))
    assert "detect less. First follow the warnings below. Save it" in warned


def test_versions_drivers_and_the_length_of_runs_may_change_and_are_named() -> None:
    before, after = ((Gpu(name="A GPU", driver=driver),) for driver in ("550.1", "560.2"))
    versions = {"tensorflow": "2.21.0", "git_commit": "def", "tfbench": "0.2.0"}
    base = build_sample(environment=build_environment(gpus=before))
    now = build_sample(
        environment=build_environment(gpus=after, **versions),
        request=build_request(recipe=build_recipe(measurement={"seconds": 2.0})),
    )
    done = judge_regression(base, now)
    assert done.unequal == ()
    assert {(one.name, str(one.a), str(one.b)) for one in done.changed} == {
        ("tfbench", "0.1.0", "0.2.0"),
        ("tensorflow", "2.20.0", "2.21.0"),
        ("git_commit", "None", "def"),
        ("driver", "['550.1']", "['560.2']"),
        ("measurement.seconds", "5.0", "2.0"),
    }
    last_line = shown(check_sections({"b.json": done}, 0))
    assert last_line.endswith("; measurement.seconds 5.0 -> 2.0")


@pytest.mark.parametrize(
    ("fields", "names"),
    [
        ({"environment": build_environment(hostname="other")}, ["hostname"]),
        (
            {"placement": build_placement(devices=("gpu:0",), hardware=("A GPU",))},
            ["devices", "hardware"],
        ),
        (
            {"request": build_request(recipe=build_recipe(model={"hidden_units": [5]}))},
            ["model.hidden_units"],
        ),
        ({"settings": build_settings(backend="jax")}, ["backend"]),
    ],
)
def test_what_must_be_equal_is_named(fields: Fields, names: list[str]) -> None:
    assert sorted(one.name for one in changes_to(**fields).unequal) == names


def test_other_code_may_be_checked_but_no_other_size_and_repeats_are_of_one_code() -> None:
    first = build_sizes(digest="a", files={"nets.py": "a"})
    second = build_sizes(digest="b", files={"nets.py": "b"})
    done = judge_regression(build_sample(model=first), build_sample(model=second))
    assert done.unequal == ()
    assert [(one.name, one.a, one.b) for one in done.changed] == [
        ("model_digest", "a", "b"),
        ("model_files.nets.py", "a", "b"),
    ]
    larger = build_sample(model=build_sizes(num_parameters=2000))
    unequal = judge_regression(build_sample(model=first), larger).unequal
    assert [one.name for one in unequal] == ["num_parameters"]
    runs = [(build_result(model=model), 100.0) for model in (first, second)]
    with pytest.raises(ComparisonError, match=r"differ in the network and your code \(nets.py\)"):
        make_sample(runs, group="g")


def test_a_check_is_shown_as_in_the_golden_file(golden: Golden) -> None:
    gpus = (Gpu(name="A GPU", driver="550.1"),)
    done = changes_to(group="now", environment=build_environment(hostname="other", gpus=gpus))
    sections = check_sections({"baseline.json": done}, 2, ["2 of 5 runs: the machine swapped."])
    golden("check_80.txt", "\n".join(text(sections, 80)) + "\n")
