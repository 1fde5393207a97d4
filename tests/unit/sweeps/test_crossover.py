"""`tfbench crossover`: its runs, what is kept of them, what is said, and what is refused."""

import dataclasses
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from builders import build_environment, build_recipe
from searches import ARMS, COSTS, KEY, PlantedRuns, Watcher, build_search, forget, pair, run_search
from sweeps import build_plan
from tfbench.analysis.comparison.brief import make_brief
from tfbench.analysis.comparison.crossover import Crossover, ValueRange
from tfbench.analysis.comparison.judging import judge_family
from tfbench.analysis.comparison.step_model import StepModel
from tfbench.errors import DeviceError, InterruptedRunError, MeasurementError, RecipeError
from tfbench.machine import devices
from tfbench.recipe.tables import to_tables
from tfbench.records.run import RunRequest
from tfbench.report.sweep.crossover import crossover_lines, crossover_sentences, model_lines, point_line, search_lines
from tfbench.runs import session
from tfbench.runs.limits import RunLimits, RunOutcome
from tfbench.store import briefs
from tfbench.sweeps import making
from tfbench.sweeps.crossover import SearchResult, search
from tfbench.sweeps.plan import parse_arm
from tfbench.sweeps.search_plan import SearchPlan, at_value, count_replicas, parse_range

Cli = Callable[..., Any]


def said(result: SearchResult) -> str:
    return " ".join(crossover_sentences(result.found, KEY, ARMS))


def test_both_arms_take_turns_at_every_value_and_are_tagged() -> None:
    runs = PlantedRuns()
    result, watcher = run_search(runs)
    assert watcher.begun[:5] == [
        (2, ARMS[0], 1),
        (2, ARMS[1], 1),
        (2, ARMS[1], 2),
        (2, ARMS[0], 2),
        (watcher.ended[1], ARMS[0], 1),
    ]
    assert len(runs.requests) == 4 * len(watcher.ended) == len(result.results)
    first = runs.requests[0]
    assert first.tags == {
        "tfbench.sweep": "abc",
        "tfbench.point": "2",
        "tfbench.arm": ARMS[0],
        "tfbench.round": "1",
    }
    assert first.recipe.training.global_batch_size == 2
    assert len({request.run_id for request in runs.requests}) == len(runs.requests)


def test_the_planted_crossing_is_found_and_predicted() -> None:
    result, _ = run_search(PlantedRuns())
    (crossing,) = result.found.crossings
    assert crossing.value == pytest.approx(2000 / 3, rel=0.05)
    assert result.models is not None
    (predicted,) = result.models.crossings or ()
    assert predicted.value == pytest.approx(2000 / 3, rel=0.05)
    assert predicted.low <= 2000 / 3 * 1.01 and predicted.high >= 2000 / 3 * 0.99
    first, second = result.models.arms
    assert (first.fixed, first.per_work) == pytest.approx((1e-3, 1e-5), rel=0.05)
    assert (second.fixed, second.per_work) == pytest.approx((5e-3, 4e-6), rel=0.05)
    assert result.unequal == ()


def test_a_run_that_fails_bounds_the_range_and_says_why() -> None:
    runs = PlantedRuns(lambda batch, strategy: "FAILED" if batch > 900 and strategy == "mirrored" else None)
    result, _ = run_search(runs)
    assert result.found.largest_fit is not None and 850 < result.found.largest_fit <= 900
    above = min(result.found.failures)
    assert said(result).endswith(
        f"The largest global_batch_size that could be measured is {result.found.largest_fit}; {above} could not: "
        "mirrored cpu:0,cpu:1: FAILED: out of memory."
    )
    assert len(result.found.crossings) == 1


@pytest.mark.parametrize(
    ("fate", "reason"),
    [
        ("no steps", "default cpu:0: FAILED: no steady steps were measured"),
        ("FAILED", "default cpu:0: FAILED: out of memory"),
    ],
)
def test_nothing_that_can_be_measured_is_an_error(fate: Any, reason: str) -> None:
    with pytest.raises(MeasurementError, match=f"the smallest value, 2, cannot be measured: {reason}"):
        run_search(PlantedRuns(lambda batch, strategy: fate))


def test_a_first_run_that_is_refused_is_the_error_and_a_later_one_is_a_result() -> None:
    with pytest.raises(DeviceError, match="no such device"):
        run_search(PlantedRuns(lambda batch, strategy: DeviceError("no such device")))
    refused = PlantedRuns(lambda batch, strategy: DeviceError("no GPU") if strategy == "mirrored" else None)
    with pytest.raises(MeasurementError, match=r"the smallest value, 2, cannot be measured: .*: REFUSED: no GPU"):
        run_search(refused)
    later = PlantedRuns(lambda batch, strategy: DeviceError("too small a device") if batch > 100 else None)
    result, _ = run_search(later)
    assert result.found.largest_fit is not None and 90 <= result.found.largest_fit <= 100
    assert "REFUSED: too small a device" in said(result)


@pytest.mark.parametrize("fate", ["STOPPED", "SIGNAL", "HEARD", InterruptedRunError("SIGINT")])
def test_a_request_to_stop_keeps_what_was_measured(fate: Any) -> None:
    result, watcher = run_search(PlantedRuns(lambda batch, strategy: fate if batch > 50 else None))
    assert result.found.was_stopped
    assert watcher.ended == list(result.found.points) == [2, 14]
    assert said(result).endswith("Interrupted: this is what was measured by then, and the search is not finished.")
    assert len(result.results) == 8 + (fate in ("SIGNAL", "HEARD"))  # a run that finished all the same


def test_a_request_to_stop_at_the_first_value_keeps_its_run() -> None:
    result, watcher = run_search(PlantedRuns(lambda batch, strategy: "HEARD"))
    assert (result.found.points, watcher.ended, result.models) == ({}, [], None)
    assert said(result) == "Interrupted: this is what was measured by then, and the search is not finished."
    assert [one.outcome for one in result.results.values()] == ["FINISHED"]


def test_an_interruption_before_anything_was_measured_leaves_nothing() -> None:
    with pytest.raises(InterruptedRunError, match="interrupted before anything was measured; nothing was stored"):
        run_search(PlantedRuns(lambda batch, strategy: "STOPPED"))


def test_arms_that_are_not_alike_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = PlantedRuns()

    def elsewhere(request: RunRequest, *rest: Any) -> RunOutcome:
        outcome = runs(request, *rest)
        if request.recipe.distribution.strategy == "default":
            return outcome
        result = dataclasses.replace(outcome.result, environment=build_environment(hostname="other"))
        return dataclasses.replace(outcome, result=result)

    result = search(build_search(), elsewhere, Watcher(), forget)
    assert [(one.name, one.a, one.b) for one in result.unequal] == [("hostname", "bench", "other")]


def test_limits_reach_the_runs() -> None:
    runs = PlantedRuns()
    run_search(runs, run_timeout_seconds=9.0, memory_limit_bytes=2**30)
    assert set(runs.limits) == {RunLimits(timeout_seconds=9.0, memory_bytes=2**30)}


def test_every_item_of_a_list_is_set() -> None:
    recipe = build_recipe(model={"hidden_units": [4, 8]})
    plan = SearchPlan(
        sweep=build_plan(variations=(), tables=to_tables(recipe)),
        key="model.hidden_units",
        values=ValueRange(low=16, high=64),
    )
    assert at_value(plan, (16, 32)).variations[0].values == ([16, 16], [32, 32])
    threads = SearchPlan(sweep=plan.sweep, key="threads", values=ValueRange(low=1, high=4))
    assert at_value(threads, (1, 2)).variations[0].values == (1, 2)


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("model.name", r"--vary model\.name: must be a number, or a list of numbers, in the recipe\. It is: 'mlp'\."),
        ("training.deterministic", r"must be a number, or a list of numbers, in the recipe\. It is: False\."),
        ("distribution.strategy", r"must be a number"),
        ("recipe.title", r"must be a number"),
        ("output.num_predictions", r"--vary output\.num_predictions: must be a key of model, dataset, training"),
    ],
)
def test_only_numbers_can_be_searched(key: str, message: str) -> None:
    plan = SearchPlan(sweep=build_plan(variations=()), key=key, values=ValueRange(low=1, high=4))
    with pytest.raises(RecipeError, match=message):
        at_value(plan, (1,))


def test_a_range_is_read() -> None:
    assert parse_range(f"{KEY}=1..4096", 2) == (KEY, ValueRange(low=1, high=4096, step=2))
    assert parse_range(" threads = 1 .. 8 ", 1) == ("threads", ValueRange(low=1, high=8))
    for text in (KEY, f"{KEY}=1,2", f"{KEY}=1..", f"{KEY}=-1..5", f"{KEY}=1.5..2", "=1..2"):
        with pytest.raises(
            RecipeError, match=r"must be KEY=LOW\.\.HIGH, for example training\.global_batch_size=1\.\."
        ):
            parse_range(text, 1)
    with pytest.raises(RecipeError, match=r"--vary threads=1\.\.7: a range needs two or more multiples of 4"):
        parse_range("threads=1..7", 4)


@pytest.mark.parametrize(
    ("arm", "num_gpus", "replicas"),
    [
        ("default", None, 1),
        ("one_device gpu:3", None, 1),
        ("mirrored cpu:0,cpu:1", None, 2),
        ("mirrored gpu:0,gpu:1,gpu:2", None, 3),
        ("mirrored gpu", None, None),
        ("mirrored", None, None),
        ("mirrored gpu", 4, 4),
        ("mirrored", 0, 1),  # without GPUs, on the processor
        ("mirrored gpu backend=jax", None, None),
        ("hybrid cpu:0,cpu:1 backend=jax", None, 2),
        ("model cpu:0,cpu:1 backend=jax", None, 1),  # its batch is not cut
    ],
)
def test_replicas_are_counted(arm: str, num_gpus: int | None, replicas: int | None) -> None:
    assert count_replicas(parse_arm(arm), num_gpus) == replicas


def test_findings_are_told_in_sentences() -> None:
    result, _ = run_search(PlantedRuns())
    (crossing,) = result.found.crossings
    (sentence,) = crossover_sentences(result.found, KEY, ARMS)
    assert sentence == (
        f"mirrored cpu:0,cpu:1 overtakes default cpu:0 at global_batch_size {crossing.value:.0f}: it is measurably "
        f"slower at {crossing.low}, and measurably faster at {crossing.high}."
    )
    assert crossover_lines(result.found, KEY, ARMS, 300) == ["Crossover", f"- {sentence}"]
    backwards = search(build_search(arms=build_search().sweep.arms[::-1]), PlantedRuns(), Watcher(), forget)
    assert "default cpu:0 falls behind mirrored cpu:0,cpu:1 at global_batch_size 6" in " ".join(
        crossover_sentences(backwards.found, KEY, ARMS[::-1])
    )


@pytest.mark.parametrize(
    ("costs", "sentence"),
    [
        ((2e-3, 2e-5), "is slower than default cpu:0 everywhere, at 0.499 to 0.501 times its speed."),
        ((0.5e-3, 0.5e-5), "is faster than default cpu:0 everywhere, at 2 times its speed."),
        ((1e-3, 1e-5), "and default cpu:0 show no measurable difference at any of 5 values."),
        ((5e-3, 1e-5), "is slower from 2 to 608, not measurably different at 4,096."),
    ],
)
def test_no_crossing_is_told_as_what_it_is(
    monkeypatch: pytest.MonkeyPatch, costs: tuple[float, float], sentence: str
) -> None:
    monkeypatch.setitem(COSTS, "mirrored", costs)
    runs = PlantedRuns()

    def execute(request: RunRequest, *rest: Any) -> RunOutcome:
        outcome = runs(request, *rest)
        is_off = costs == (5e-3, 1e-5) and request.recipe.training.global_batch_size == 4096
        if is_off and request.tags["tfbench.round"] == "1":
            outcome.summary.metrics["samples_per_second"] = 4096 / 0.05
        return outcome

    result = search(build_search(), execute, Watcher(), forget)
    assert said(result).startswith("None from global_batch_size 2 to 4,096: mirrored cpu:0,cpu:1 ")
    assert said(result).endswith(sentence)


def test_a_change_that_is_not_measurable_is_told_as_that() -> None:
    same, off = [100.0] * 3, (0.97, 1.0, 1.03)
    slower, equal, ahead = (pair(same, [speed * factor for factor in off]) for speed in (50.0, 100.0, 106.0))
    values = [2**power for power in range(10)]
    found = Crossover(
        values=ValueRange(low=1, high=512),
        points=dict(zip(values, judge_family([slower] * 2 + [equal] * 6 + [ahead] * 2), strict=True)),
        failures={},
        crossings=(),
        was_stopped=False,
    )
    assert [found.points[value].is_suggested for value in (256, 512)] == [True, True]
    assert crossover_sentences(found, KEY, ("a", "b")) == [
        "None from global_batch_size 1 to 512: b is slower from 1 to 2, not measurably different from 4 to 512. At "
        "256, 512 its own interval suggests the contrary, which among 10 values may be chance: more rounds (--repeats) "
        "may tell."
    ]


@pytest.mark.parametrize(
    ("steady", "sentence"),
    [
        (
            None,
            "Not found, too noisy to tell, from global_batch_size 64 to 76: these runs leave open that b has 0.57 to "
            "1.74 times the speed of a. More rounds (--repeats) or longer runs (--seconds) tell more.",
        ),
        (50.0, "Not found from global_batch_size 64 to 76: b is slower at 64, too noisy to tell at 76."),
    ],
)
def test_what_is_too_noisy_is_not_told_as_no_crossing(steady: float | None, sentence: str) -> None:
    same, wide = [100.0] * 3, [80.0, 100.0, 125.0]  # t of 2 degrees of freedom is 4.303, over the root of three
    pairs = [pair(same, [steady, steady * 1.001, steady] if steady else wide), pair(same, wide)]
    points = {value: judge_family([one])[0] for value, one in zip((64, 76), pairs, strict=True)}
    found = Crossover(values=ValueRange(low=64, high=76), points=points, failures={}, crossings=(), was_stopped=False)
    assert crossover_sentences(found, KEY, ("a", "b")) == [sentence]


def test_a_value_that_fails_between_others_is_named() -> None:
    result, _ = run_search(PlantedRuns(lambda batch, strategy: "FAILED" if 620 < batch < 700 else None))
    (value,) = result.found.failures
    assert f"global_batch_size {value} could not be measured: default cpu:0: FAILED: out of memory." in said(result)


def test_the_cost_of_gradients_is_not_told_as_that_of_their_exchange_alone() -> None:
    model = StepModel(
        fixed=1e-3,
        per_work=1e-9,
        per_byte=2e-9,
        unit="operation",
        exchanges_untold=False,
        num_values=3,
        largest_error=0.01,
    )
    (line,) = model_lines((model, model), (), KEY, ARMS, 300)[1:2]
    assert "+ 2.1 ms a MiB of gradients, for their exchange and what grows with them (within 1.0 %" in line


def test_the_cost_models_are_told_with_their_errors_and_prediction() -> None:
    result, _ = run_search(PlantedRuns())
    assert result.models is not None
    lines = model_lines(result.models.arms, result.models.crossings, KEY, ARMS, 300)
    assert lines[0] == "Cost of a step, fitted to the runs"
    assert lines[1].startswith("  default cpu:0         1 ms + 10 us a sample (within 0.")
    assert lines[2].startswith("  mirrored cpu:0,cpu:1  5 ms + 4 us a sample (within 0.")
    assert re.match(
        r"  By it, both arms are equally fast at global_batch_size 66\d \(95 %: 6[56]\d to 6[67]\d\)\.", lines[3]
    )
    assert lines[4] == (
        "  What the replicas exchange cannot be told apart from the rest by these runs, and is in its cost."
    )
    (unbounded,) = model_lines(result.models.arms, None, KEY, ARMS, 300)[3:4]
    assert unbounded == "  By it, it is not bounded where, or whether, both arms are equally fast."
    (nowhere,) = model_lines(result.models.arms, (), KEY, ARMS, 300)[3:4]
    assert nowhere == "  By it, both arms are equally fast nowhere in the range that was measured."


def test_the_plan_and_each_point_are_a_line() -> None:
    plan = build_search()
    assert search_lines(plan.sweep, KEY, plan.values, 120) == [
        "Crossover abc of test: from where on is mirrored cpu:0,cpu:1 faster than default cpu:0?",
        "  search    training.global_batch_size = 2..4096, multiples of 2: 2,048 values",
        "  runs      about 11 values x 2 arms x 2 rounds = 44 runs",
        "  time      about 6 min, a first guess",
    ]
    (found,) = judge_family([pair([100.0, 100.0, 100.0], [122.0, 123.0, 125.0])])
    assert point_line(KEY, 64, ARMS, found) == (
        "global_batch_size=64: mirrored cpu:0,cpu:1 has 1.23 times the speed of default cpu:0"
    )
    assert point_line(KEY, 64, ARMS, "default cpu:0: FAILED: x") == (
        "global_batch_size=64: too much: default cpu:0: FAILED: x"
    )


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch, in_tmp_path: Path) -> Callable[..., PlantedRuns]:
    """Lets `tfbench crossover` make planted runs, whose briefs are read as if they were in the store."""
    monkeypatch.setenv("COLUMNS", "120")

    def use(fates: Callable[[int, str], Any] = lambda batch, strategy: None) -> PlantedRuns:
        runs, kept = PlantedRuns(fates), {}

        def execute(request: RunRequest, state: Any, store: Any, tracker: Any, console: Any, *rest: Any) -> RunOutcome:
            outcome = runs(request, *rest)
            kept[request.run_id] = make_brief(outcome.result, outcome.summary, journal_bytes=0)
            return outcome

        monkeypatch.setattr(session, "execute_run", execute)
        monkeypatch.setattr(briefs, "_read_brief", lambda path: kept[path.stem])
        return runs

    return use


ARGUMENTS = ("crossover", "mnist_mlp", "--data", "synthetic", "--vary", f"{KEY}=1..4096", "--between", *ARMS)


def test_crossover_tells_plan_points_table_and_findings(tfbench: Cli, fake: Callable[..., PlantedRuns]) -> None:
    runs = fake()
    done = tfbench(*ARGUMENTS)
    assert (done.exit_code, done.stderr) == (0, "")
    assert {request.recipe.measurement.seconds for request in runs.requests} == {2.0}
    assert {request.recipe.training.global_batch_size % 2 for request in runs.requests} == {0}
    text = done.stdout
    assert "multiples of 2: 2,048 values" in text
    assert "\nglobal_batch_size=2: mirrored cpu:0,cpu:1 has " in text
    assert "\nCrossover\n- mirrored cpu:0,cpu:1 overtakes default cpu:0 at global_batch_size 6" in text
    assert "\nVerdict\n" in text and "no statement about more hardware" in " ".join(text.split())
    assert "\nCost of a step, fitted to the runs\n" in text
    sweep_id = runs.requests[0].tags["tfbench.sweep"]
    assert text.splitlines()[-4:] == [
        f"To look at sweep {sweep_id}:",
        f"  this table again  tfbench compare --sweep {sweep_id}",
        f"  as one HTML file  tfbench report --sweep {sweep_id}",
        f"  in MLflow         tfbench ui --sweep {sweep_id}",
    ]
    again = tfbench("compare", "--sweep", "@last")
    assert again.exit_code == 0
    assert again.stdout.splitlines()[0] in text


def test_crossover_between_back_ends_calls_them_by_name_and_compares_them(
    tfbench: Cli, fake: Callable[..., PlantedRuns], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(making, "is_installed", lambda backend: True)
    runs = fake()
    own = ("--arm", "default cpu:0", "--arm", "default cpu:0 backend=jax", "--repeats", "2")
    done = tfbench(*ARGUMENTS[:6], *own, "--format", "json")
    assert done.exit_code == 0, done.stderr
    document = json.loads(done.stdout)
    assert (document["between"], document["unequal"]) == ([own[1], own[3]], [])
    assert document["sentences"][0].startswith("JAX overtakes TensorFlow at global_batch_size 6")
    assert document["comparison"]["verdict"][0].startswith("Use TensorFlow up to batch ")
    assert "from where on is JAX faster than TensorFlow?" in " ".join(done.stderr.split())
    assert "Cost of a step, fitted to the runs\n  TensorFlow  1 ms + 10 us a sample" in done.stderr
    assert not any(word in done.stderr for word in ("GPU", "replica", "strategy"))
    assert {request.recipe.training.backend for request in runs.requests} == {"tensorflow", "jax"}
    assert "training.backend" in runs.requests[1].overrides  # which commands that are advised are made of


def test_a_back_end_that_is_not_installed_is_said_before_anything_runs(
    tfbench: Cli, fake: Callable[..., PlantedRuns], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(making, "is_installed", lambda backend: backend == "tensorflow")
    runs, arms = fake(), ("--arm", "default cpu:0", "--arm", "default cpu:0 backend=jax")
    for command in (ARGUMENTS[:6], ("sweep", "mnist_mlp", "--data", "synthetic", "--vary", f"{KEY}=32,64")):
        done = tfbench(*command, *arms)
        assert (done.exit_code, done.stderr) == (
            2,
            "Error: training.backend: JAX is not installed. pip install jax.\n",
        )
    assert runs.requests == []


def test_crossover_gives_json(tfbench: Cli, fake: Callable[..., PlantedRuns]) -> None:
    fake(lambda batch, strategy: "FAILED" if batch > 3000 else None)
    done = tfbench(*ARGUMENTS, "--format", "json", "--repeats", "2", "--seconds", "1")
    assert done.exit_code == 0
    document = json.loads(done.stdout)
    (crossing,) = document["crossings"]
    assert crossing["low"] < crossing["value"] < crossing["high"]
    assert (document["key"], document["range"]) == (KEY, {"low": 2, "high": 4096, "step": 2})
    assert (document["between"], document["complete"], document["unequal"]) == (list(ARMS), True, [])
    assert document["largest_fit"] < 3000 < document["failures"][0]["value"]
    assert [model["unit"] for model in document["cost_models"]] == ["sample", "sample"]
    (predicted,) = document["predicted_crossings"]
    assert predicted["value"] == pytest.approx(2000 / 3, rel=0.05)
    assert predicted["low"] < predicted["value"] < predicted["high"]
    assert len(document["points"]) + len(document["failures"]) == len(document["comparison"]["rows"])


def test_ctrl_c_shows_what_was_measured(tfbench: Cli, fake: Callable[..., PlantedRuns]) -> None:
    fake(lambda batch, strategy: "STOPPED" if batch > 50 else None)
    done = tfbench(*ARGUMENTS)
    assert done.exit_code == 130
    assert "Interrupted: this is what was measured by then, and the search is not finished." in done.stdout
    assert "Cost of a step" not in done.stdout  # too few values


def test_gpus_are_counted_for_the_step_of_the_batch_size(
    tfbench: Cli, fake: Callable[..., PlantedRuns], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(devices, "count_gpus", lambda *backend: 3)
    runs = fake()
    arguments = ("crossover", "mnist_mlp", "--data", "synthetic", "--vary", f"{KEY}=1..600", "--between")
    assert tfbench(*arguments, "mirrored cpu:0,cpu:1", "mirrored gpu", "--repeats", "2").exit_code == 0
    assert {request.recipe.training.global_batch_size % 6 for request in runs.requests} == {0}
    runs.requests.clear()
    assert tfbench(*arguments, "default cpu:0", "mirrored gpu", "--repeats", "2", "--step", "50").exit_code == 0
    assert {request.recipe.training.global_batch_size % 50 for request in runs.requests} == {0}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--vary", f"{KEY}=1..64"], "name the two arms to compare: --between ARM ARM, or --arm ARM twice."),
        (["--vary", f"{KEY}=1..64", "--between", *ARMS, "--arm", ARMS[0]], "name the two arms to compare"),
        (["--between", *ARMS], "Missing option '--vary'"),
        (["--vary", f"{KEY}=1,64", "--between", *ARMS], "must be KEY=LOW..HIGH"),
        (["--vary", f"{KEY}=1..2", "--between", *ARMS], "a range needs two or more multiples of 2"),
        (
            ["--vary", f"{KEY}=1..64", "--between", ARMS[0], f"{ARMS[0]} backend=tensorflow"],
            'both arms are "default cpu:0". Name two.',
        ),
        (
            ["--vary", f"{KEY}=1..64", "--between", ARMS[0], "a b c"],
            'must be STRATEGY DEVICES KEY=VALUE... @MACHINE, for example "mirrored',
        ),
        (["--vary", f"{KEY}=1..64", "--between", *ARMS, "--repeats", "1"], "--repeats: must be from 2 to 1000."),
        (
            ["--vary", f"{KEY}=1..64", "--between", *ARMS, "--step", "0"],
            "--step: must be from 1 to 1000000. Received: 0.",
        ),
        (["--vary", f"{KEY}=1..60002", "--between", *ARMS], "global_batch_size: must be at most 60000"),
        (["--vary", "model.hidden_unit=1..64", "--between", *ARMS], "Did you mean 'hidden_units'?"),
        (["--vary", "model.name=1..64", "--between", *ARMS], "must be a number, or a list of numbers, in the recipe"),
        (["--vary", f"{KEY}=1..64", "--between", ARMS[0], "sideways"], "strategy"),
        (["--vary", f"{KEY}=1..64", "--between", *ARMS, "--seconds", "0"], "measurement.seconds"),
    ],
)
def test_an_impossible_search_is_refused(tfbench: Cli, in_tmp_path: Path, arguments: list[str], message: str) -> None:
    done = tfbench("crossover", "mnist_mlp", *arguments)
    assert (done.exit_code, done.stdout) == (2, "")
    assert message in done.stderr and done.stderr.count("Error: ") == 1
    assert list(in_tmp_path.iterdir()) == []
