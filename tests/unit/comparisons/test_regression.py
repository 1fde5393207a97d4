import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

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
from tfbench.comparisons.regression import (
    RegressionCheck,
    SpeedSample,
    judge_regression,
    make_sample,
)
from tfbench.comparisons.regression_text import (
    baseline_sections,
    check_document,
    check_sections,
    judgement_sentence,
)
from tfbench.errors import ComparisonError
from tfbench.machine.facts import Gpu
from tfbench.runs.record import ModelSummary
from tfbench.show.table import text

BASE = (100.0, 101.0, 99.0, 100.5, 99.5)


def build_sample(*speeds: float, group: str = "then", **fields: Any) -> SpeedSample:
    """Builds a sample of runs that were alike, of the speeds given."""
    runs = []
    for number, speed in enumerate(speeds):
        request = build_request(
            run_id=f"{group}{number}", recipe=build_recipe(measurement={"seconds": 5.0})
        )
        runs.append((build_result(**{"request": request} | fields), speed))
    return make_sample(runs, group=group)


def scaled(factor: float) -> SpeedSample:
    return build_sample(*(factor * speed for speed in BASE), group="now")


def check(factor: float, fail_above: float = 0.0) -> RegressionCheck:
    return judge_regression(build_sample(*BASE), scaled(factor), fail_above)


def test_a_slow_down_beyond_chance_is_a_regression() -> None:
    done = check(0.95)
    expected = stats.ttest_ind(
        np.log(scaled(0.95).samples_per_second), np.log(BASE), equal_var=False
    )
    assert (done.judgement, done.speedup.ratio) == ("regression", pytest.approx(0.95))
    assert (done.speedup.low, done.speedup.high) == pytest.approx(
        tuple(np.exp(expected.confidence_interval(0.95)))
    )
    assert (
        judgement_sentence(done) == "FAILED: regression, 0.95x [0.94, 0.96] of the baseline's speed"
    )


def test_a_regression_is_measurably_beyond_the_limit() -> None:
    # Both spread by 0.79 %: half of the interval is 1.16 % of the ratio, so that from 1 - 0.95 /
    # 1.0116 on it fails.
    smallest = check(1.0, fail_above=0.05).smallest_detectable
    assert smallest == pytest.approx(1 - 0.95 / 1.0116, abs=1e-4)
    found = [
        check(1 - slower, fail_above=0.05)
        for slower in (smallest + 1e-3, smallest - 1e-3, 0.02, 0.005)
    ]
    assert [one.judgement for one in found] == [
        "regression",
        "slower",
        "slower",
        "no measurable difference",
    ]
    assert not any(one.is_blind for one in found)


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
        assert (done.judgement, done.is_blind) == ("no measurable difference", is_blind)
        sentence = judgement_sentence(done)
        assert sentence.startswith("UNDECIDED: could not tell, ") == is_undecided
        document = check_document(done, "baseline.json", 0)
        assert (document["is_blind"], document["smallest_detectable"]) == (
            is_blind,
            done.smallest_detectable,
        )
        assert document["fail_above"] == 0.05


@pytest.mark.parametrize(
    ("required", "sentence"), [(0.03, "PASSED: no "), (0.01, "FAILED: could not tell, ")]
)
def test_the_user_may_name_the_slow_down_that_a_check_has_to_see(
    required: float, sentence: str
) -> None:
    # It sees 1.2 %, without a limit.
    done = judge_regression(build_sample(*BASE), scaled(1.0), 0.0, required)
    assert judgement_sentence(done).startswith(sentence)
    assert judgement_sentence(done, 1).startswith("FAILED: 1 run failed. The others: ")
    shown = "\n".join(text(check_sections(done, "base.json", 0), 300))
    assert f"(limit 0 %, required {100 * required:g} %)" in shown


def test_a_check_that_could_not_tell_still_says_what_it_found_for_certain() -> None:
    done = judge_regression(build_sample(*BASE), scaled(0.5), 0.05, 0.001)
    assert (done.is_blind, done.is_undecided) == (True, False)
    assert judgement_sentence(done).startswith("FAILED: regression, 0.50x")
    faster = judge_regression(build_sample(*BASE), scaled(2.0), 0.05, 0.001)
    assert judgement_sentence(faster).startswith("PASSED: faster, 2.00x")


def test_a_slow_down_that_the_interval_excludes_need_not_be_seen() -> None:
    noisy = tuple(factor * speed for factor in (0.9, 1.1) for speed in (100.0, 105.0, 95.0))
    base = build_sample(*noisy)
    for factor, is_undecided in ((1.0, True), (1.15, False)):
        now = build_sample(*(factor * speed for speed in noisy), group="now")
        done = judge_regression(base, now, 0.05, 0.12)
        assert (done.is_blind, done.judgement) == (True, "no measurable difference")
        low = done.speedup.low
        assert low is not None and (low < 0.88) == is_undecided == done.is_undecided


def test_a_baseline_says_of_how_many_sessions_it_is_and_how_many_it_needs() -> None:
    shown = "\n".join(text(baseline_sections(build_sample(*BASE), Path("base.json"), []), 300))
    assert "Too noisy" not in shown
    sections = baseline_sections(build_sample(100.0, 50.0, 75.0), Path("base.json"), [])
    assert "Too noisy: the baseline is known to ± " in "\n".join(text(sections, 300))
    assert "Sessions    1. Where days differ by 3 %, unchanged code fails" in shown
    assert "Save baselines on 3 days" in shown


def test_versions_drivers_and_the_length_of_runs_may_change_and_are_named() -> None:
    gpus = [(Gpu(name="A GPU", driver=driver),) for driver in ("550.1", "560.2")]
    versions = {"tensorflow": "2.21.0", "git_commit": "def", "tfbench": "0.2.0"}
    base = build_sample(*BASE, environment=build_environment(gpus=gpus[0]))
    request = build_request(recipe=build_recipe(measurement={"seconds": 2.0}))
    environment = build_environment(gpus=gpus[1], **versions)
    now = build_sample(*BASE, group="now", environment=environment, request=request)
    done = judge_regression(base, now)
    assert done.unequal == ()
    assert {(one.name, str(one.a), str(one.b)) for one in done.changed} == {
        ("tfbench", "0.1.0", "0.2.0"),
        ("tensorflow", "2.20.0", "2.21.0"),
        ("git_commit", "None", "def"),
        ("driver", "['550.1']", "['560.2']"),
        ("measurement.seconds", "5.0", "2.0"),
    }
    assert text(check_sections(done, "b.json", 0), 300)[-1].endswith(
        "; measurement.seconds 5.0 -> 2.0"
    )


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
    ],
)
def test_what_must_be_equal_is_named(fields: Fields, names: list[str]) -> None:
    unequal = judge_regression(
        build_sample(*BASE), build_sample(100.0, 101.0, group="now", **fields)
    ).unequal
    assert sorted(one.name for one in unequal) == names


def test_a_baseline_of_another_backend_is_rejected_whatever_version_it_is_of() -> None:
    jax = build_recipe(training={"backend": "jax"})
    then = build_sample(*BASE, environment=build_environment(tfbench="0.0.9"))
    settings = build_settings(backend="jax", compiler="xla")
    runs = [
        (build_result(request=build_request(recipe=jax), settings=settings), speed)
        for speed in BASE
    ]
    now = make_sample(runs, group="now")
    for first, second, sides in (
        (then, now, ("tensorflow", "jax")),
        (now, then, ("jax", "tensorflow")),
    ):
        assert [
            (one.a, one.b)
            for one in judge_regression(first, second).unequal
            if one.name == "backend"
        ] == [sides]


def test_other_code_may_be_checked_but_no_other_size_and_repeats_are_of_one_code() -> None:
    def built(digest: str, parameters: int = 1000) -> ModelSummary:
        files = {"nets.py": digest}
        return build_sizes(num_parameters=parameters, digest=digest, files=files)

    then, now, larger = (
        build_sample(*BASE, model=model) for model in (built("a"), built("b"), built("b", 2000))
    )
    assert judge_regression(then, now).unequal == ()
    assert [(one.name, one.a, one.b) for one in judge_regression(then, now).changed] == [
        ("model_digest", "a", "b"),
        ("model_files.nets.py", "a", "b"),
    ]
    assert [one.name for one in judge_regression(then, larger).unequal] == ["num_parameters"]
    runs = [(build_result(model=built(digest)), 100.0) for digest in "ab"]
    with pytest.raises(ComparisonError, match=r"differ in the network and your code \(nets.py\)"):
        make_sample(runs, group="g")


def test_a_check_is_shown_as_in_the_golden_file(golden: Golden) -> None:
    other = build_environment(hostname="other", gpus=(Gpu(name="A GPU", driver="550.1"),))
    done = judge_regression(
        build_sample(*BASE), build_sample(*BASE, group="now", environment=other)
    )
    sections = check_sections(done, "baseline.json", 2, ["2 of 5 runs: the machine swapped."])
    golden("check_80.txt", "\n".join(text(sections, 80)) + "\n")
