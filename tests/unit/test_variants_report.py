"""Which variants of a step pay: verdicts, losses and layers against figures worked out by hand, and their report."""

import dataclasses
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from builders import build_recipe, build_request, build_result
from tfbench import recipe_file
from tfbench.measure.variants import LossEffect, VariantComparison, VariantOutcome, compare_variants
from tfbench.profile_records import Profile, ProfiledLayer, ProfileRequest, TracedCall, VariantRound, VariantSetup
from tfbench.profile_variants import BASE, CONTROL, parse_variants
from tfbench.recipe import Recipe
from tfbench.report.variants import variant_lines, variants_to_json
from tfbench.results import RunResult

GOLDEN = Path(__file__).parents[1] / "golden" / "variants_120.txt"
XLA, TEN = "jit_compile=on", "steps_per_execution=10"
POOLS = [f"model.pooling_backward={name}" for name in ("index_scatter", "printed_scatter")]
# The logarithms of the two rounds' ratios are 0.01 and -0.01: their mean 0, their standard deviation 0.0141421. Over
# the root of 2 that is 0.01, and Student's t of one degree of freedom 12.7062: an interval of exp(-/+ 0.127062).
NOISY = (2e-3 * math.exp(0.01), 2e-3 * math.exp(-0.01))
LIMIT = math.exp(0.127062)  # 1.1355


def build_profile(
    variants: Sequence[str],
    rounds: Sequence[Mapping[str, float]],
    *,
    setups: Sequence[VariantSetup] = (),
    traced: Mapping[str, TracedCall] | None = None,
    recipe: Recipe | None = None,
) -> RunResult:
    recipe = recipe or build_recipe()
    request = ProfileRequest(kind="variants", variants=parse_variants(variants, recipe))
    taken = tuple(VariantRound(seconds=dict(seconds), traced=dict(traced or {})) for seconds in rounds)
    profile = Profile(variant_rounds=taken, setups=tuple(setups))
    return dataclasses.replace(build_result(request=build_request(recipe=recipe, profile=request)), profile=profile)


def compared(result: RunResult) -> VariantComparison:
    found = compare_variants(result)
    assert found is not None
    return found


def judged(seconds: Sequence[float], control: Sequence[float] = NOISY) -> VariantOutcome:
    rounds = [{BASE: 2e-3, CONTROL: again, XLA: one} for one, again in zip(seconds, control, strict=True)]
    (outcome,) = compared(build_profile([XLA], rounds)).outcomes
    return outcome


def layer(index: int, name: str, kind: str = "Dense") -> ProfiledLayer:
    return ProfiledLayer(
        index=index,
        name=name,
        kind=kind,
        num_parameters=0,
        flops_per_sample=None,
        forward_bytes=None,
        backward_bytes=None,
    )


def with_losses(*losses: Sequence[float | None], **fields: Any) -> tuple[VariantComparison, VariantOutcome]:
    names = (BASE, CONTROL, XLA)
    setups = [VariantSetup(name=name, losses=tuple(own)) for name, own in zip(names, losses, strict=True)]
    setups[2] = dataclasses.replace(setups[2], **fields)
    found = compared(build_profile([XLA], [dict.fromkeys(names, 1e-3)] * 2, setups=setups))
    return found, found.outcomes[0]


def shown(result: RunResult) -> str:
    return "\n".join(variant_lines(result, 200))


@pytest.mark.parametrize(
    ("seconds", "verdict"),
    [
        (2e-3 / 1.2, "pays"),
        (2e-3 * 1.2, "costs"),
        (2e-3 / 1.1, "no measurable difference"),  # the same in both rounds, but less than the same step shows
        (2e-3 * 1.1, "no measurable difference"),
        (2e-3 / (LIMIT + 0.001), "pays"),
        (2e-3 / (LIMIT - 0.001), "no measurable difference"),
    ],
)
def test_a_difference_counts_beyond_what_the_same_step_shows(seconds: float, verdict: str) -> None:
    outcome = judged([seconds, seconds])
    assert outcome.verdict == verdict
    assert outcome.ratio and outcome.ratio.ratio == pytest.approx(2e-3 / seconds)
    assert outcome.seconds == seconds


def test_a_difference_counts_beyond_its_own_chance() -> None:
    # 3 and 1.02 times as fast: logarithms 1.0986 and 0.0198 apart by more than two rounds can tell from noise.
    assert judged([2e-3 / 3, 2e-3 / 1.02], control=(2e-3, 2e-3)).verdict == "no measurable difference"


def test_speeds_are_compared_by_round() -> None:
    # The machine is twice as slow in the second round, and the variant 1.25 times as fast in both.
    rounds = [{BASE: 1.0, CONTROL: 1.0, XLA: 0.8}, {BASE: 2.0, CONTROL: 2.0, XLA: 1.6}, {BASE: 2.0, CONTROL: 2.0}]
    found = compared(build_profile([XLA], rounds))
    (outcome,) = found.outcomes
    assert outcome.ratio is not None
    assert (outcome.ratio.ratio, outcome.ratio.num) == (pytest.approx(1.25), 2)
    assert (found.base_seconds, outcome.seconds, outcome.verdict) == (2.0, pytest.approx(1.2), "pays")
    assert (found.num_rounds, found.noise_limit) == (3, 0.0)


def test_the_noise_limit_is_the_farther_end_of_the_same_steps_interval() -> None:
    found = compared(build_profile([XLA], [{BASE: 2e-3, CONTROL: again, XLA: 1e-3} for again in NOISY]))
    assert found.noise_limit == pytest.approx(0.1355, abs=1e-4)
    assert "Noise floor: 14 %. The unchanged step, built again, was 1.000 times as fast (0.881 to 1.135)" in shown(
        build_profile([XLA], [{BASE: 2e-3, CONTROL: again, XLA: 1e-3} for again in NOISY])
    )


def test_nothing_is_judged_from_one_round_or_without_the_same_step_again() -> None:
    one = build_profile([XLA], [{BASE: 2.0, CONTROL: 2.0, XLA: 1.0}])
    alone = build_profile([XLA], [{BASE: 2.0, XLA: 1.0}] * 3)
    for result in (one, alone):
        assert compared(result).outcomes[0].verdict == "not judged"
        assert f"Not judged, for lack of rounds: {XLA}." in shown(result)
        assert "Noise floor: not known" in shown(result)


def test_a_variant_that_cannot_be_built_says_why() -> None:
    setups = [VariantSetup(name=XLA, refusal="no XLA for this device.")]
    result = build_profile([XLA, TEN], [{BASE: 2.0, CONTROL: 2.0, TEN: 1.0}] * 2, setups=setups)
    failed, good = compared(result).outcomes
    assert (failed.verdict, failed.refusal, failed.seconds, good.verdict) == (
        "failed",
        "no XLA for this device.",
        None,
        "pays",
    )
    assert f"Failed: {XLA}: no XLA for this device." in shown(result).splitlines()


def test_the_loss_is_the_mean_of_the_last_quarter_of_the_steps_that_both_made() -> None:
    base = (9.0, 9.0, 9.0, 9.0, 9.0, 9.0, 3.0, 1.0)  # of the last two: 2
    other = (9.0, 9.0, 9.0, 9.0, 9.0, 9.0, 2.5, 2.5, 100.0)  # 2.5, a quarter more
    found, outcome = with_losses(base, base, other)
    assert outcome.loss is not None and found.control_loss is not None
    assert (outcome.loss.num_steps, outcome.loss.base, outcome.loss.loss) == (8, 2.0, 2.5)
    assert outcome.loss.relative_change == 0.25
    assert (found.control_loss.relative_change, found.control_loss.is_same) == (0.0, True)


@pytest.mark.parametrize(
    ("base", "loss", "fields", "words"),
    [
        (2.0, 2.0 + 1e-6, {}, "the same"),
        (2.0, 2.0 + 4e-6, {}, "0.0002 % higher"),
        (2.0, 1.5, {}, "25 % lower"),
        (2.0, 2.03, {}, "1.5 % higher"),
        (2.0, None, {}, "not finite"),
        (None, None, {}, "not finite either"),
        (None, 2.0, {}, "finite, unlike the recipe's"),
        (0.0, 2.0, {}, "from 0"),
        (0.0, 0.0, {}, "the same"),
        (2.0, 1.0, {"has_same_weights": False}, "not comparable"),
    ],
)
def test_the_loss_in_words(base: float | None, loss: float | None, fields: dict[str, Any], words: str) -> None:
    names = (BASE, CONTROL, XLA)
    setups = [VariantSetup(name=name, losses=(own,)) for name, own in zip(names, (base, base, loss), strict=True)]
    setups[2] = dataclasses.replace(setups[2], **fields)
    result = build_profile([XLA], [dict.fromkeys(names, 1e-3)] * 2, setups=setups)
    (row,) = (line for line in variant_lines(result, 200) if line.startswith(f"  {XLA}"))
    assert row.endswith(f"  {words}")
    assert (f"The loss of {XLA} is not comparable: begins with other weights." in shown(result)) == bool(fields)


def executed(size: int, losses: Sequence[float | None]) -> list[LossEffect | None]:
    """Compares losses of executions of so many steps with those of twelve single steps, which fall from 12 to 1."""
    name = f"steps_per_execution={size}"
    single = tuple(float(loss) for loss in range(12, 0, -1))
    setups = [VariantSetup(name=one, losses=single) for one in (BASE, CONTROL, XLA)]
    setups.append(VariantSetup(name=name, losses=tuple(losses)))
    found = compared(build_profile([XLA, name], [], setups=setups))
    return [outcome.loss for outcome in found.outcomes]


def test_losses_of_executions_are_held_against_those_of_as_many_steps() -> None:
    # Of the twelve steps the last quarter is three, which no execution ends with; the last two are. They lost 2 and 1.
    single, double = executed(2, (11.5, 9.5, 7.5, 5.5, 3.5, 1.5))
    assert single is not None and double is not None
    assert (double.num_steps, double.num_last, double.base, double.loss) == (12, 2, 1.5, 1.5)
    assert single.is_same and double.is_same
    # Two executions of five end with step ten: steps six to ten lost 7, 6, 5, 4 and 3.
    _, five = executed(5, (10.0, 5.0))
    assert five is not None
    assert (five.num_steps, five.num_last, five.base, five.is_same) == (10, 5, 5.0, True)


def test_executions_longer_than_all_steps_leave_the_others_their_losses() -> None:
    single, long = executed(100, (1.0,))
    assert single is not None and long is not None
    assert (single.num_steps, single.num_last, single.base, single.is_same) == (12, 3, 2.0, True)
    assert (long.loss, long.not_comparable) == (None, "its loss is known of executions of other steps")


def test_the_loss_of_another_head_is_another_loss() -> None:
    name = "head=double_softmax"
    setups = [VariantSetup(name=one, losses=(2.0,)) for one in (BASE, CONTROL, name)]
    result = build_profile([name], [dict.fromkeys((BASE, CONTROL, name), 1.0)] * 2, setups=setups)
    loss = compared(result).outcomes[0].loss
    assert loss is not None and loss.relative_change is None
    assert f"The loss of {name} is not comparable: its head makes another loss." in shown(result)


def test_a_step_that_does_not_repeat_its_own_loss_is_mentioned() -> None:
    setups = [VariantSetup(name=one, losses=(loss,)) for one, loss in ((BASE, 2.0), (CONTROL, 2.1), (XLA, 2.0))]
    rounds = [dict.fromkeys((BASE, CONTROL, XLA), 1.0)] * 2
    assert "The unchanged step does not repeat its own loss" in shown(build_profile([XLA], rounds, setups=setups))
    setups[1] = dataclasses.replace(setups[1], losses=(2.0,))
    assert "does not repeat" not in shown(build_profile([XLA], rounds, setups=setups))


def pooled(*, width: int = 200) -> RunResult:
    """The traced step as it stands takes 4 ms, 2 ms without the trace, so that each of its parts counts half."""
    recipe = recipe_file.load_recipe(recipe_file.find_recipe("mnist_scratch_cnn"))
    layers = (layer(0, "conv", "Conv2D"), layer(1, "pool", "SwitchableMaxPooling2D"))
    own = {"forward/0": 4e-4, "backward/0": 2e-4, "forward/1": 1e-4, "backward/1": 3.4e-4}
    index = {"forward/0": 4.4e-4, "backward/0": 2e-4, "forward/1": 1e-4, "backward/1": 6.8e-4}
    printed = {"forward/0": 2e-4, "backward/0": 1e-4, "forward/1": 5e-5, "backward/1": 3e-4}
    traced = {
        BASE: TracedCall(seconds=4e-3, parts=own),
        POOLS[0]: TracedCall(seconds=4.4e-3, parts=index),
        POOLS[1]: TracedCall(seconds=9e-3, parts=printed),  # not timed without the trace: taken as it is
    }
    steps = {f"{BASE}/step": 2e-3, f"{POOLS[0]}/step": 2.2e-3}
    rounds = [{BASE: 2e-3, CONTROL: 2e-3, POOLS[0]: 2.2e-3, POOLS[1]: 2.1e-3} | steps] * 3
    setups = [VariantSetup(name=name, layers=layers) for name in (BASE, *POOLS)]
    return build_profile(POOLS, rounds, setups=setups, traced=traced, recipe=recipe)


def test_layers_are_held_against_each_other_without_what_the_trace_adds() -> None:
    found = compared(pooled())
    index, printed = found.outcomes
    assert found.layer_seconds[BASE]["backward", "pool"] == pytest.approx(1.7e-4)
    # The forward pass of "conv" took a tenth more, which is less than a fifth; "pool" 0.17 ms before, 0.34 ms after.
    (change,) = index.layers
    assert (change.layer, change.direction) == ("pool", "backward")
    assert (change.base_seconds, change.seconds) == (pytest.approx(1.7e-4), pytest.approx(3.4e-4))
    assert change.ratio == pytest.approx(0.5)
    assert [(one.layer, one.seconds) for one in printed.layers] == [("pool", 3e-4)]


@pytest.mark.parametrize(
    ("before", "after", "control", "counts"),
    [
        (1e-4, 1.5e-4, None, True),  # half more, and 2.5 % of a step of 2 ms
        (1e-4, 1.3e-4, None, False),  # 1.5 % of the step
        (1e-3, 1.1e-3, None, False),  # a tenth more
        (1e-4, 1.5e-4, 1.6e-4, False),  # the same step again differs by more
        (1e-4, 1.5e-4, 1.2e-4, True),
        (1e-4, 0.0, None, True),
        (0.0, 1e-4, None, True),
    ],
)
def test_which_changes_of_a_layer_count(before: float, after: float, control: float | None, counts: bool) -> None:
    times = {BASE: before, TEN: after} | ({} if control is None else {CONTROL: control})
    traced = {name: TracedCall(seconds=1.0, parts={"backward/0": seconds}) for name, seconds in times.items()}
    setups = [VariantSetup(name=name, layers=(layer(0, "a"),)) for name in times]
    rounds = [dict.fromkeys((BASE, CONTROL, TEN), 2e-3)] * 2
    (outcome,) = compared(build_profile([TEN], rounds, setups=setups, traced=traced)).outcomes
    assert bool(outcome.layers) == counts


def test_a_change_of_a_layer_counts_beyond_chance() -> None:
    # Twice and 1.01 times as slow: far more than a fifth at the median, but two rounds that differ so tell nothing.
    traces = [
        {name: TracedCall(seconds=1.0, parts={"backward/0": seconds}) for name, seconds in times.items()}
        for times in ({BASE: 0.1, TEN: 0.2}, {BASE: 0.1, TEN: 0.101})
    ]
    setups = [VariantSetup(name=name, layers=(layer(0, "a"),)) for name in (BASE, TEN)]
    result = build_profile([TEN], [], setups=setups)
    assert result.profile is not None
    taken = [VariantRound(seconds=dict.fromkeys((BASE, CONTROL, TEN), 1.0), traced=traced) for traced in traces]
    for rounds, counts in ((taken, False), (taken[:1] * 2, True), (taken[:1], False)):
        profile = dataclasses.replace(result.profile, variant_rounds=tuple(rounds))
        (outcome,) = compared(dataclasses.replace(result, profile=profile)).outcomes
        assert bool(outcome.layers) == counts


def test_a_layer_is_found_again_by_its_name_and_use_wherever_it_stands() -> None:
    traced = {
        BASE: TracedCall(seconds=1.0, parts={"forward/0": 0.1, "forward/1": 0.2}),
        TEN: TracedCall(seconds=1.0, parts={"forward/1": 0.1, "forward/2": 0.4}),
    }
    setups = [
        VariantSetup(name=BASE, layers=(layer(0, "cell"), layer(1, "cell"))),
        VariantSetup(name=TEN, layers=(layer(0, "new"), layer(1, "cell"), layer(2, "cell"))),
    ]
    rounds = [dict.fromkeys((BASE, CONTROL, TEN), 1.0)] * 2
    (outcome,) = compared(build_profile([TEN], rounds, setups=setups, traced=traced)).outcomes
    assert [(one.layer, one.base_seconds, one.seconds) for one in outcome.layers] == [("cell (2)", 0.2, 0.4)]


def test_shows_what_pays_and_what_to_do_next() -> None:
    names = (BASE, CONTROL, XLA, TEN, "mixed_precision")
    seconds = dict(zip(names, (2e-3, 2e-3, 2.5e-3, 1e-3, 2e-3), strict=True))
    losses = dict(zip(names, (0.5, 0.5, 0.5, 0.5, 0.505), strict=True))
    setups = [VariantSetup(name=name, losses=(loss,) * (4 if name == TEN else 40)) for name, loss in losses.items()]
    lines = variant_lines(build_profile(names[2:], [seconds] * 3, setups=setups), 120)
    assert lines == GOLDEN.read_text(encoding="utf-8").splitlines()


def test_a_narrow_terminal_gets_names_on_lines_of_their_own() -> None:
    lines = variant_lines(pooled(), 70)
    place = lines.index(f"  {POOLS[0]}")
    assert lines[place + 1].split()[:2] == ["2.2", "0.91"]
    assert lines[1].split()[0] == "ms"
    losses = [VariantSetup(name=name, losses=(2.5,)) for name in (BASE, CONTROL, XLA)]
    rounds = [dict.fromkeys((BASE, CONTROL, XLA), 1.0)] * 2
    assert variant_lines(build_profile([XLA], rounds, setups=losses), 70)[1:11] == [
        "    ms a step  times as fast",
        "  as it stands",
        "        1,000  1",
        "    loss after 1 step: 2.5",
        "  the same again",
        "        1,000  1.000 [1.000, 1.000]  noise",
        "    loss after 1 step: 2.5, the same",
        "  jit_compile=on",
        "        1,000  1.000 [1.000, 1.000]  no measurable difference",
        "    loss after 1 step: 2.5, the same",
    ]
    assert all(len(line) <= 70 for line in lines if "tfbench sweep" not in line)


def test_published_times_of_layers_stand_beside_ours_with_why_they_cannot_be_compared() -> None:
    text = shown(pooled())
    assert f"  {POOLS[0]}: pool backward 0.17 ms -> 0.34 ms (0.50 times as fast)" in text.splitlines()
    assert (
        "  pool backward: mask_multiply 0.17 ms, index_scatter 0.34 ms, printed_scatter 0.3 ms; "
        "published 9.72 ms -> 0.28 ms (34.7 times)" in text.splitlines()
    )
    assert (
        "  conv backward: mask_multiply 0.1 ms, index_scatter 0.1 ms, printed_scatter 0.1 ms; published 0.442 ms"
        in (text.splitlines())
    )
    assert "middle backward" not in text  # not timed here
    assert "Published: GPU of Google Colab, model not named; first version of the pooling -> GPU of Google Co" in text
    whole = " ".join(text.split())
    assert "Not comparable: its scatter as printed writes n x n cells, n = 15,680 windows of a batch of 8" in whole
    command = (
        "  tfbench sweep mnist_scratch_cnn --vary model.pooling_backward=mask_multiply,index_scatter,printed_scatter"
    )
    assert text.splitlines()[-1] == command


def test_layers_that_do_not_change_are_said_to() -> None:
    traced = {name: TracedCall(seconds=1.0, parts={"forward/0": 0.5}) for name in (BASE, TEN)}
    setups = [VariantSetup(name=name, layers=(layer(0, "a"),)) for name in (BASE, TEN)]
    rounds = [dict.fromkeys((BASE, CONTROL, TEN), 1.0)] * 2
    assert f"  {TEN}: none" in variant_lines(build_profile([TEN], rounds, setups=setups, traced=traced), 80)


def test_several_keys_keep_the_variants_names_beside_published_figures() -> None:
    reference = {"hardware": "x", "devices": "cpu", "source": "y", "figures": {}, "verified": False}
    recipe = build_recipe(reference=[reference | {"layer_seconds": {"forward/a": 1e-3}}])
    traced = {name: TracedCall(seconds=1.0, parts={"forward/0": 2e-3}) for name in (BASE, TEN)}
    setups = [VariantSetup(name=name, layers=(layer(0, "a"),)) for name in (BASE, TEN)]
    rounds = [dict.fromkeys((BASE, CONTROL, TEN, XLA), 1.0)] * 2
    lines = variant_lines(build_profile([TEN, XLA], rounds, setups=setups, traced=traced, recipe=recipe), 100)
    assert "  a forward: as it stands 2 ms, steps_per_execution=10 2 ms; published 1 ms" in lines
    assert "  Published: x (unverified)." in lines
    assert not any("Not comparable" in line for line in lines)


def test_as_json() -> None:
    document = json.loads(json.dumps(variants_to_json(pooled()), allow_nan=False))
    assert (document["num_rounds"], document["base"]["seconds"], document["noise_limit"]) == (3, 2e-3, 0.0)
    index, _ = document["variants"]
    assert index["verdict"] == "costs"
    assert index["speed_ratio"]["ratio"] == pytest.approx(1 / 1.1)
    assert index["layers"][0]["speed_ratio"] == pytest.approx(0.5)
    assert index["command"].startswith("tfbench sweep mnist_scratch_cnn --vary")
    assert document["layer_seconds"][BASE]["backward/pool"] == pytest.approx(1.7e-4)
    (pool,) = (one for one in document["published_layers"] if one["layer"] == "backward/pool")
    assert [one["seconds"] for one in pool["references"]] == [9.72e-3, 280e-6]
    assert len(document["not_comparable"]) == 1


def test_without_variants_nothing_is_shown() -> None:
    assert compare_variants(build_result()) is None
    assert (variant_lines(build_result(), 80), variants_to_json(build_result())) == ([], {})
