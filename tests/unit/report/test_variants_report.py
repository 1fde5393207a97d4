"""Which variants of a step pay: verdicts, losses and layers against figures worked out by hand, and their report."""

import dataclasses
import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from builders import build_recipe, build_request, build_result
from tfbench.analysis.profile.variant_losses import LossEffect
from tfbench.analysis.profile.variants import VariantComparison, VariantOutcome, compare_variants
from tfbench.recipe import files
from tfbench.recipe.sections import Recipe
from tfbench.records.profile import Profile, ProfiledLayer, ProfileRequest, TracedCall, VariantRound, VariantSetup
from tfbench.records.run import RunResult
from tfbench.records.variants import BASE, CONTROL, parse_variants
from tfbench.report.profile.variants import variant_lines, variants_to_json

Golden = Callable[[str, str], None]
XLA, TEN = "compiler=xla", "steps_per_execution=10"
POOLS = [f"model.pooling_backward={name}" for name in ("index_scatter", "printed_scatter")]
# The logarithms of two builds' ratios are 0.01 below and above their mean: their standard deviation is 0.0141421. Over
# the root of 2 that is 0.01, and Student's t of one degree of freedom 12.7062: it is told apart beyond exp(0.127062).
UNLIKE = (math.exp(0.01), math.exp(-0.01))
LIMIT = math.exp(0.127062)  # 1.1355


def build_profile(
    variants: Sequence[str],
    rounds: Sequence[Mapping[str, float]],
    *,
    setups: Sequence[VariantSetup] = (),
    traced: Mapping[str, TracedCall] | None = None,
    recipe: Recipe | None = None,
    rounds_a_build: int = 1,
) -> RunResult:
    """Builds a profile of so many rounds, each of a build of its own unless several are to be."""
    recipe = recipe or build_recipe()
    request = ProfileRequest(kind="variants", variants=parse_variants(variants, recipe))
    taken = tuple(
        VariantRound(build=1 + index // rounds_a_build, seconds=dict(seconds), traced=dict(traced or {}))
        for index, seconds in enumerate(rounds)
    )
    profile = Profile(variant_rounds=taken, setups=tuple(setups))
    return dataclasses.replace(build_result(request=build_request(recipe=recipe, profile=request)), profile=profile)


def compared(result: RunResult) -> VariantComparison:
    found = compare_variants(result)
    assert found is not None
    return found


def judged(seconds: Sequence[float], *others: Sequence[float]) -> tuple[VariantOutcome, ...]:
    """Judges variants that take so long in each build, while the step without changes takes 2 ms."""
    names = (XLA, TEN)[: 1 + len(others)]
    rounds = [{BASE: 2e-3} | dict(zip(names, own, strict=True)) for own in zip(seconds, *others, strict=True)]
    return compared(build_profile(names, rounds)).outcomes


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
    ("factor", "verdict"),
    [
        (1 / (LIMIT + 0.001), "pays"),
        (1 / (LIMIT - 0.001), "no measurable difference"),
        (LIMIT - 0.001, "no measurable difference"),
        (LIMIT + 0.001, "costs"),
    ],
)
def test_a_difference_counts_beyond_what_builds_differ_by(factor: float, verdict: str) -> None:
    (outcome,) = judged([2e-3 * factor * unlike for unlike in UNLIKE])
    assert outcome.verdict == verdict
    assert outcome.ratio and outcome.ratio.ratio == pytest.approx(1 / factor)
    assert outcome.ratio.excludes_one == (verdict != "no measurable difference")
    assert outcome.seconds == pytest.approx(2e-3 * factor)


def test_rounds_of_one_build_say_nothing_of_the_next() -> None:
    # Each build is steady over its hundred rounds; one lies 3 % above the unchanged step, the other 1 % below.
    rounds = [{BASE: 2e-3, XLA: 2e-3 * factor} for factor in (1.03, 0.99) for _ in range(100)]
    (outcome,) = compared(build_profile([XLA], rounds, rounds_a_build=100)).outcomes
    assert outcome.ratio is not None
    assert (outcome.ratio.num, outcome.verdict) == (2, "no measurable difference")
    assert outcome.ratio.method == "Student-t on the logarithms of the builds' ratios"


def test_verdicts_are_of_all_variants_together() -> None:
    found = 2e-3 / (LIMIT + 0.001)  # told apart alone, with p just below 0.05
    own = [found * unlike for unlike in UNLIKE]
    alone, _ = judged(own, [2e-3 * unlike for unlike in UNLIKE])
    assert alone.verdict == "no measurable difference"
    assert alone.ratio and alone.ratio.excludes_one
    assert alone.p_value and alone.p_value == pytest.approx(0.05, abs=1e-3)
    assert alone.adjusted_p_value == pytest.approx(2 * alone.p_value)
    rounds = [{BASE: 2e-3, XLA: seconds, TEN: 2e-3 * unlike} for seconds, unlike in zip(own, UNLIKE, strict=True)]
    assert (
        f"Of 2 variants some seem to differ by chance: the interval of {XLA} leaves out 1, but not by enough for one "
        "of so many." in shown(build_profile([XLA, TEN], rounds))
    )


def test_speeds_are_compared_within_a_build() -> None:
    # The machine is twice as slow in the second build, and the variant 1.25 times as fast in both.
    rounds = [{BASE: 1.0, XLA: 0.8}, {BASE: 1.0}, {BASE: 2.0, XLA: 1.6}, {BASE: 2.0, XLA: 1.6}]
    found = compared(build_profile([XLA], rounds, rounds_a_build=2))
    (outcome,) = found.outcomes
    assert outcome.ratio is not None
    assert (outcome.ratio.ratio, outcome.ratio.num) == (pytest.approx(1.25), 2)
    assert found.base_seconds == pytest.approx(2**0.5)
    assert (outcome.seconds, outcome.verdict) == (pytest.approx(0.8 * 2**0.5), "pays")
    assert (found.num_builds, found.num_rounds) == (2, 4)


def test_how_much_builds_of_the_same_step_differ_is_shown() -> None:
    # The logarithms are 0.01 and -0.01.
    result = build_profile([XLA], [{BASE: 2e-3 * unlike, XLA: 1e-3} for unlike in UNLIKE])
    assert compared(result).build_spread == pytest.approx(0.0141421, abs=1e-6)
    assert "From build to build, the unchanged step's time varied by 1.4 % (standard deviation)" in shown(result)


def test_nothing_is_judged_from_one_build_as_older_profiles_have() -> None:
    seconds = {BASE: 2.0, CONTROL: 2.0, XLA: 1.0}
    one = build_profile([XLA], [seconds])
    many = build_profile([XLA], [seconds] * 9, rounds_a_build=9)
    for result in (one, many):
        assert compared(result).outcomes[0].verdict == "not judged"
        assert f"Not judged, for lack of builds: {XLA}." in shown(result)
        assert "The step was built once: how much two builds of the same step differ is not known" in shown(result)
    assert "each of its variant alone, over the rounds of one build." in shown(many)
    assert CONTROL not in shown(many)
    (outcome,) = compared(many).outcomes
    assert outcome.ratio and outcome.ratio.num == 9


def test_a_variant_that_fails_in_a_later_build_has_failed() -> None:
    setups = [
        VariantSetup(name=BASE, build=1),
        VariantSetup(name=XLA, build=1),
        VariantSetup(name=XLA, build=2, refusal="out of memory"),
    ]
    result = build_profile([XLA], [{BASE: 2.0, XLA: 1.0}, {BASE: 2.0}], setups=setups)
    (outcome,) = compared(result).outcomes
    assert (outcome.verdict, outcome.refusal, outcome.adjusted_p_value) == ("failed", "out of memory", None)


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
    setups = [VariantSetup(name=one, losses=(2.0,)) for one in (BASE, XLA)]
    setups.append(VariantSetup(name=BASE, build=2, losses=(2.1,)))
    rounds = [dict.fromkeys((BASE, XLA), 1.0)] * 2
    text = shown(build_profile([XLA], rounds, setups=setups))
    assert "The unchanged step, built again, does not repeat its own loss (5.0 % higher): smaller changes are" in text
    older = [*setups[:2], VariantSetup(name=CONTROL, losses=(2.1,))]
    assert "does not repeat its own loss" in shown(build_profile([XLA], rounds, setups=older))
    setups[2] = dataclasses.replace(setups[2], losses=(2.0,))
    assert "does not repeat" not in shown(build_profile([XLA], rounds, setups=setups))


def pooled(*, width: int = 200) -> RunResult:
    """The traced step as it stands takes 4 ms, 2 ms without the trace, so that each of its parts counts half."""
    recipe = files.load_recipe(files.find_recipe("mnist_scratch_cnn"))
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
    ("before", "after", "counts"),
    [
        (1e-4, 1.5e-4, True),  # half more, and 2.5 % of a step of 2 ms
        (1e-4, 1.3e-4, False),  # 1.5 % of the step
        (1e-3, 1.1e-3, False),  # a tenth more
        (1e-4, 0.0, True),
        (0.0, 1e-4, True),
    ],
)
def test_which_changes_of_a_layer_count(before: float, after: float, counts: bool) -> None:
    traced = {
        name: TracedCall(seconds=1.0, parts={"backward/0": seconds}) for name, seconds in ((BASE, before), (TEN, after))
    }
    setups = [VariantSetup(name=name, layers=(layer(0, "a"),)) for name in (BASE, TEN)]
    rounds = [dict.fromkeys((BASE, TEN), 2e-3)] * 2
    (outcome,) = compared(build_profile([TEN], rounds, setups=setups, traced=traced)).outcomes
    assert bool(outcome.layers) == counts


def traced_builds(*builds: Mapping[str, Mapping[str, float]], num_layers: int = 1) -> RunResult:
    """Builds a profile of one round a build, with the seconds of parts by variant and build."""
    setups = [
        VariantSetup(name=name, layers=tuple(layer(index, f"layer{index}") for index in range(num_layers)))
        for name in (BASE, TEN)
    ]
    result = build_profile([TEN], [], setups=setups)
    assert result.profile is not None
    rounds = tuple(
        VariantRound(
            build=number,
            seconds=dict.fromkeys((BASE, TEN), 1.0),
            traced={name: TracedCall(seconds=1.0, parts=dict(parts)) for name, parts in build.items()},
        )
        for number, build in enumerate(builds, start=1)
    )
    return dataclasses.replace(result, profile=dataclasses.replace(result.profile, variant_rounds=rounds))


def test_a_change_of_a_layer_counts_beyond_what_builds_differ_by() -> None:
    # Twice and 1.01 times as slow: far more than a fifth at the median, but two builds that differ so tell nothing.
    slower = {BASE: {"backward/0": 0.1}, TEN: {"backward/0": 0.2}}
    alike = {BASE: {"backward/0": 0.1}, TEN: {"backward/0": 0.101}}
    unseen = {BASE: {"backward/0": 0.1, "forward/0": 0.1}, TEN: {"forward/0": 0.1}}
    for builds, counts in (
        ((slower, alike), False),
        ((slower, slower), True),
        ((slower,), False),
        ((unseen, unseen), True),
        ((unseen, slower), False),  # seen in one build and not in the other
    ):
        (outcome,) = compared(traced_builds(*builds)).outcomes
        assert bool(outcome.layers) == counts


def test_layers_of_all_variants_are_one_family() -> None:
    # Ratios of 2 and 2.2 in two builds: logarithms 0.6931 and 0.7885, t = 0.7408 / 0.0477 = 15.5, p = 0.041.
    def build(factor: float, num_layers: int) -> dict[str, dict[str, float]]:
        steady = {f"backward/{index}": 0.1 for index in range(1, num_layers)}
        return {BASE: {"backward/0": 0.1} | steady, TEN: {"backward/0": 0.1 * factor} | steady}

    for num_layers, changed in ((1, ["layer0"]), (2, [])):
        builds = [build(factor, num_layers) for factor in (2.0, 2.2)]
        (outcome,) = compared(traced_builds(*builds, num_layers=num_layers)).outcomes
        assert [one.layer for one in outcome.layers] == changed


def test_of_one_build_no_layer_is_judged() -> None:
    text = shown(traced_builds({BASE: {"backward/0": 0.1}, TEN: {"backward/0": 0.2}}))
    assert "Which layers change is not judged, for lack of builds." in text
    assert "Layers whose time changes" not in text


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


def test_shows_what_pays_and_what_to_do_next(golden: Golden) -> None:
    names = (BASE, XLA, TEN, "mixed_precision")
    seconds = dict(zip(names, (2e-3, 2.5e-3, 1e-3, 2e-3), strict=True))
    losses = dict(zip(names, (0.5, 0.5, 0.5, 0.505), strict=True))
    setups = [VariantSetup(name=name, losses=(loss,) * (4 if name == TEN else 40)) for name, loss in losses.items()]
    lines = variant_lines(build_profile(names[1:], [seconds] * 3, setups=setups), 120)
    golden("variants_120.txt", "\n".join(lines) + "\n")


def test_a_narrow_terminal_gets_names_on_lines_of_their_own() -> None:
    lines = variant_lines(pooled(), 70)
    place = lines.index(f"  {POOLS[0]}")
    assert lines[place + 1].split()[:2] == ["2.2", "0.91"]
    assert lines[1].split()[0] == "ms"
    losses = [VariantSetup(name=name, losses=(2.5,)) for name in (BASE, XLA)]
    rounds = [dict.fromkeys((BASE, XLA), 1.0)] * 2
    assert variant_lines(build_profile([XLA], rounds, setups=losses), 70)[1:8] == [
        "    ms a step  times as fast",
        "  as it stands",
        "        1,000  1",
        "    loss after 1 step: 2.5",
        "  compiler=xla",
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
        "  tfbench sweep mnist_scratch_cnn --vary model.pooling_backward=mask_multiply,index_scatter,printed_scatter "
        "--arm default"
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
    assert (document["num_builds"], document["num_rounds"], document["num_compared"]) == (3, 3, 2)
    assert document["base"]["seconds"] == pytest.approx(2e-3)
    assert (document["base"]["build_seconds"], document["base"]["build_spread"]) == (pytest.approx([2e-3] * 3), 0.0)
    index, _ = document["variants"]
    assert index["verdict"] == "costs"
    assert index["speed_ratio"]["ratio"] == pytest.approx(1 / 1.1)
    assert (index["p_value"], index["adjusted_p_value"]) == (0.0, 0.0)
    assert index["layers"][0]["speed_ratio"] == pytest.approx(0.5)
    assert index["command"].startswith("tfbench sweep mnist_scratch_cnn --vary")
    assert document["layer_seconds"][BASE]["backward/pool"] == pytest.approx(1.7e-4)
    (pool,) = (one for one in document["published_layers"] if one["layer"] == "backward/pool")
    assert [one["seconds"] for one in pool["references"]] == [9.72e-3, 280e-6]
    assert len(document["not_comparable"]) == 1


def test_without_variants_nothing_is_shown() -> None:
    assert compare_variants(build_result()) is None
    assert (variant_lines(build_result(), 80), variants_to_json(build_result())) == ([], {})
