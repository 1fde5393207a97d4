"""How a profile is shown; tests/support/profiles.py says what was recorded."""

import dataclasses
import json
from collections.abc import Callable
from typing import Any

import pytest

from builders import build_placement, build_recipe, build_request
from profiles import (
    CONV,
    MS,
    PARTS,
    build_call,
    build_partly_traced,
    build_profile,
    build_profiled,
    build_round,
    build_round_without_update,
)
from tfbench.analysis.profile.step_profile import StepProfile
from tfbench.analysis.profile.summary import summarize_profile
from tfbench.records.profile import EpochCheck, Profile, ProfiledOperation, ProfileRequest, ProfileRound, TracedCall
from tfbench.records.run import RunResult, Summary
from tfbench.report.figures import to_png
from tfbench.report.profile.lines import operation_lines, profile_lines, published_times
from tfbench.report.profile.plot import MAX_LAYERS, plot_profile
from tfbench.report.profile.profile_json import profile_to_json
from tfbench.report.profile.profiles import bottleneck_lines, list_cautions
from tfbench.report.profile.sentences import describe_bottleneck, profile_cautions
from tfbench.report.profile.tables import limit_lines

Golden = Callable[[str, str], None]
PUBLISHED = {
    "hardware": "GPU of a cloud, model not named",
    "devices": "1 gpu",
    "source": "an article",
    "figures": {"epoch_seconds": 100.0, "backward_seconds": 10.3e-3},
    "layer_seconds": {"backward/pool": 9.72e-3, "backward/middle": 224e-6},
    "not_comparable": "its scatter writes n x n cells, and wrongly",
}
# Fields of a round in which Keras's own step takes 3.8 ms more than forward, backward and update.
LOOP = {"keras": 9.3, "full": 9.4}
CALLS = {"dispatch": 20.0, "forward": 21.0, "backward": 24.0, "update": 25.0}
DISPATCH = CALLS | {"keras": 25.4, "take": 20.1, "full": 26.0}


def build_published(*references: dict[str, Any], **fields: Any) -> RunResult:
    recipe = build_recipe(dataset={"data": "real"}, training={"global_batch_size": 8}, reference=list(references))
    return build_profiled(request=build_request(recipe=recipe, profile=ProfileRequest()), **fields)


def summarize(result: RunResult) -> StepProfile:
    profile = summarize_profile(result)
    assert profile is not None
    return profile


def show(result: RunResult, width: int = 80) -> str:
    return "\n".join(profile_lines(result, summarize(result), width))


def flat(text: str) -> str:
    """Returns a text without the line breaks of its width."""
    return " ".join(text.split())


def build_deep(num_layers: int) -> RunResult:
    """Builds a network in which the layer of number n takes n times as long as that of number 1."""
    layers = tuple(dataclasses.replace(CONV, index=n, name=f"block{n}_conv") for n in range(1, num_layers + 1))
    total = sum(layer.index for layer in layers)
    calls = {}
    for name, sections in {"forward": 1, "backward": 2, "update": 2}.items():
        parts = {key: value for key, value in build_call(name).parts.items() if key[-1] not in "01"}
        for direction, milliseconds in (("forward", 0.7), ("backward", 2.3))[:sections]:
            parts |= {f"{direction}/{n.index}": 2 * MS * milliseconds * n.index / total for n in layers}
        calls[name] = TracedCall(seconds=build_call(name).seconds, parts=parts)
    one = ProfileRound(seconds=build_round().seconds, traced=calls)
    return build_profiled(build_profile(layers=layers, rounds=(one,)))


@pytest.mark.parametrize("width", [80, 120])
def test_a_profile_is_shown_as_in_the_golden_file(golden: Golden, width: int) -> None:
    result = build_published(PUBLISHED)
    lines = [*bottleneck_lines(result, width), "", *profile_lines(result, summarize(result), width)]
    golden(f"profile_{width}.txt", "\n".join(lines) + "\n")
    assert max(map(len, lines)) <= width


def test_long_names_and_many_layers_fit_into_80_columns() -> None:
    result = build_deep(40)
    lines = profile_lines(result, summarize(result), 80)
    assert max(map(len, lines)) <= 80
    assert [line.split()[0] for line in lines if "_conv (" in line] == [f"block{n}_conv" for n in range(16, 41)]
    # 1 + ... + 15 of 1 + ... + 40: 120 of 820, of 0.7 and 2.3 ms.
    assert next(line.split()[:4] for line in lines if "others" in line) == ["15", "others", "0.102", "0.337"]
    assert "What limits the 16 longest of 80" in lines


def test_a_name_without_room_keeps_its_end() -> None:
    layer = dataclasses.replace(CONV, name="a_very_long_scope_of_a_network/block_1/conv")
    text = show(build_profiled(build_profile(layers=(layer,))))
    assert "...scope_of_a_network/block_1" not in text
    assert "work/block_1/conv" in text


def test_a_copy_that_was_measured_is_a_phase() -> None:
    text = show(build_profiled(build_profile(rounds=(build_round(copy=0.25),))))
    assert "  copy           0.250            0.250    4.2 %  measured" in text
    assert "keras - update - input - copy" in text
    on_gpu = build_placement(devices=("gpu:0",), hardware=("Example GPU",), global_batch_size=8)
    ahead = "  copy         none in the step, batches are brought to the device ahead of it\n"
    assert ahead in show(build_profiled(placement=on_gpu))
    assert "  copy         not measured\n" in show(build_profiled(placement=None))


def test_a_step_that_was_compiled_as_keras_runs_it_alone_has_one_phase_behind_the_gradients() -> None:
    result = build_profiled(build_profile(rounds=(build_round_without_update(),)))
    text = show(result)
    assert "  update+loop    1.400            1.400   23.3 %  keras - backward - input  ##\n" in text
    assert "backward that and the gradients. keras: Keras's own step" in flat(text)
    assert "  difference                       +0.0 %    +0.0 %\n" in text
    assert "optimizer  " not in text
    assert [line for line in text.splitlines() if line != line.rstrip()] == []
    labels, bars = read_bars(result)
    assert (labels[-1], bars["other phases"][-1]) == ("update+loop", 1.4)
    copied = show(build_profiled(build_profile(rounds=(build_round_without_update(copy=0.25),))))
    assert "  update+loop    1.150            1.150   19.2 %  keras - backward - input - copy  ##\n" in copied


def test_what_rounds_to_nothing_has_no_sign() -> None:
    text = show(build_profiled(build_profile(rounds=(build_round(take=0.199),))))
    assert "  input         -0.001                     0.0 %  take - dispatch\n" in text  # nor is anything fastest


def test_rounds_that_are_left_out_are_counted() -> None:
    rounds = (*(build_round() for _ in range(4)), build_round(2.0))
    assert show(build_profiled(build_profile(rounds=rounds))).startswith(
        "A step of 8 samples, by phase: means of 4 rounds, 1 slower left out\n"
    )


def test_what_the_update_costs_the_passes_has_a_row_and_an_explanation_where_there_is_any() -> None:
    one = build_round()
    update = build_call("update", **{"backward/1": 2.0})  # 0.2 ms more
    text = show(
        build_profiled(build_profile(rounds=(dataclasses.replace(one, traced=one.traced | {"update": update}),)))
    )
    assert "  passes slowed                                         0.200   3.3 %  +\n" in text
    # It is busy for 0.2 ms more, so that the host has nothing to do with the phase's 1 ms.
    assert "  host overhead                     0.200     0.400     0.000  10.0 %" in text
    assert "Passes slowed: how much longer operations of the forward and backward pass take when" in flat(text)
    assert "asses slowed" not in show(build_profiled())


def test_of_a_phase_that_is_less_than_a_tenth_of_the_step_no_difference_is_shown() -> None:
    text = show(build_profiled(build_profile(rounds=(build_round(forward=0.6),))))
    assert "  phase by the clock                0.400     3.600     1.000\n" in text
    (row,) = (line for line in text.splitlines() if line.startswith("  difference "))
    assert row.split()[1] == "short"


def test_the_update_has_no_difference_since_what_it_does_to_others_is_the_rest_of_it() -> None:
    text = show(build_profiled())
    (row,) = (line for line in text.splitlines() if line.startswith("  difference "))
    assert row.split() == ["difference", "+0.0", "%", "+0.0", "%"]


def test_cautions_of_the_machine_and_of_the_profile_are_one_list() -> None:
    result = build_profiled(build_profile(rounds=(build_round(full=10.0),)))
    assert list_cautions(result, Summary(metrics={}, cautions=("the machine was busy",))) == [
        "the machine was busy",
        "the phases' sum is 41 % less than the full step.",
        "Measure for longer (--seconds 60) on a quiet machine, to see whether that stays.",
    ]
    trained = build_profiled(request=build_request())
    assert list_cautions(trained, Summary(metrics={}, cautions=("busy",))) == ["busy"]
    assert bottleneck_lines(trained, 80) == []


def test_why_layers_are_not_timed_apart_is_said() -> None:
    profile = build_profile(layers=(), layers_problem="XLA makes one program.", rounds=(build_round(traced=False),))
    text = show(build_profiled(profile))
    assert "Layers are not timed apart\n  XLA makes one program.\n" in text
    assert "What limits" not in text
    sentence = "Bottleneck: the backward pass: 3 ms of a step's 6 ms, 50 %. XLA makes one program."
    assert flat("\n".join(bottleneck_lines(build_profiled(profile), 80))) == sentence
    untraced = build_profiled(build_profile(rounds=(build_round(traced=False),), layers=()))
    assert "  no call with a trace was recorded." in show(untraced)


def test_an_epoch_of_which_only_some_steps_were_measured_says_so() -> None:
    result = build_profiled(build_profile(epoch=EpochCheck(num_steps=500, seconds=3.1, steps_per_epoch=7500)))
    text = flat(show(result))
    assert "extrapolated 7,500 steps x 5.9 ms = 44.3 s" in text
    assert "measured 46.5 s (500 steps of training in 3.1 s, x 15, without validation); extrapolated is -4.8 %" in text
    without = flat(show(build_profiled(build_profile(epoch=None), steps_per_epoch=None)))
    assert "extrapolated no: the steps of an epoch are not known measured no: the run ended before" in without


def test_peaks_that_were_not_measured_are_said_and_bounds_left_open() -> None:
    result = build_profiled(build_profile(bandwidth=None), peak_checks=())
    text = show(result)
    assert "  peaks         matrix product: not measured; memory: not measured" in text
    assert next(line for line in text.splitlines() if "backward conv" in line).endswith("32          5  ?")


def test_published_times_stand_beside_ours_with_the_reason_why_they_are_not_comparable() -> None:
    lines = show(build_published(PUBLISHED)).splitlines()
    start = lines.index("Published for the recipe")
    assert lines[start + 1 : start + 8] == [
        "  GPU of a cloud, model not named, 1 gpu",
        "                      theirs ms     ours ms",
        "    backward               10.3           3",
        "    backward/pool          9.72         1.8",
        "    backward/middle       0.224           -",
        "    not comparable: its scatter writes n x n cells, and wrongly",
        "    Source: an article",
    ]


def test_published_figures_without_times_of_phases_are_left_out_and_hardware_is_told_of() -> None:
    other = {key: value for key, value in PUBLISHED.items() if key not in ("layer_seconds", "not_comparable")}
    assert "no ratio of these times compares devices alone" in flat(show(build_published(other)))
    result = build_published(other | {"figures": {"epoch_seconds": 100.0}})
    assert "Published" not in show(result)
    assert published_times(result.request.recipe.reference[0]) == {}


@pytest.mark.parametrize(
    ("longer", "sentence"),
    [
        ({"take": 9.0}, "Bottleneck: taking a batch that is ready from the input pipeline: 8.8 ms of a step's 6 ms, "),
        (
            {"full": 10.0, "pipeline": 9.0},
            "Bottleneck: what a step takes beyond its phases, such as waiting for its input pipeline: 4.1 ms of ",
        ),
        (
            LOOP,
            "Bottleneck: what Keras's own step does beyond forward, backward and update, such as metrics: 3.8 ms of ",
        ),
        (LOOP | {"copy": 3.8}, "Bottleneck: the copy of a batch to the device: 3.8 ms of a step's 9.4 ms, 40 %."),
        (
            DISPATCH,
            "Bottleneck: dispatch, what a call of the step costs before it does anything: 20 ms of ",
        ),
    ],
)
def test_the_bottleneck_of_a_phase_says_what_it_is(longer: dict[str, float], sentence: str) -> None:
    result = build_profiled(build_profile(rounds=(build_round(traced=False, **longer),)))
    assert describe_bottleneck(result, summarize(result)).startswith(sentence)


@pytest.mark.parametrize(
    ("full", "sentence"),
    [
        (7.5, "Bottleneck: the backward pass of pool"),
        (10.0, "Bottleneck: not clear, the phases do not add up (59 % of a step); measure for longer (--seconds 60)."),
        (3.3, "Bottleneck: not clear, the phases do not add up (179 % of a step); measure for longer (--seconds 60)."),
    ],
)
def test_phases_that_do_not_add_up_have_no_bottleneck(full: float, sentence: str) -> None:
    result = build_profiled(build_profile(rounds=(build_round(full=full),)))
    assert describe_bottleneck(result, summarize(result)).startswith(sentence)


def test_a_bar_is_no_longer_than_it_may_be_where_a_part_is_negative() -> None:
    calls = {name: build_call(name, **dict.fromkeys(PARTS[name], 0.01)) for name in ("forward", "backward")}
    calls["update"] = build_call("update", **dict.fromkeys(PARTS["update"], 0.5))
    one = ProfileRound(seconds=build_round().seconds, traced=calls)  # host overhead of 0.97 + 2.97 - 2.94 ms
    lines = show(build_profiled(build_profile(rounds=(one,))), 80).splitlines()
    assert any(line.startswith("  host overhead") and " -" in line for line in lines)
    assert max(map(len, lines)) <= 80


def test_larger_batches_pay_only_where_what_is_paid_was_measured_for_each_step() -> None:
    for readings, is_of_each_step in ((LOOP, False), (DISPATCH, True)):
        profile = build_profile(rounds=(build_round(traced=False, **readings),))
        for backend in ("tensorflow", "jax", "torch"):
            recipe = build_recipe(training={"backend": backend})
            result = build_profiled(profile, request=build_request(recipe=recipe, profile=ProfileRequest()))
            sentence = describe_bottleneck(result, summarize(result))
            assert ("larger batches pay" in sentence) == is_of_each_step
            assert ("cause was not measured" in sentence) != is_of_each_step
            assert ("`--fast`" in sentence) == (backend != "torch")
    result = build_profiled(build_profile(rounds=(build_round(traced=False, full=10.0, pipeline=9.0),)))
    assert "Look at the input pipeline" in describe_bottleneck(result, summarize(result))


@pytest.mark.parametrize(
    ("part", "sentence"),
    [
        ({"update": 2.6}, "Bottleneck: the optimizer: 2.6 ms of a step's 6 ms, 43 %. It takes as long for any"),
        ({"backward/loss": 2.2}, "Bottleneck: the backward pass of the loss: 2.2 ms of a step's 6 ms, 37 %."),
        ({"forward/1": 1.9}, "Bottleneck: the forward pass of pool (SwitchableMaxPooling2D): 1.9 ms of a step's 6 ms"),
    ],
)
def test_the_bottleneck_of_a_part_is_named(part: dict[str, float], sentence: str) -> None:
    one = build_round()
    calls = {
        name: build_call(name, **{key: value for key, value in part.items() if key in PARTS[name]}) for name in PARTS
    }
    result = build_profiled(build_profile(rounds=(dataclasses.replace(one, traced=calls),)))
    assert describe_bottleneck(result, summarize(result)).startswith(sentence)


def test_the_bottleneck_of_the_host_is_named() -> None:
    one = build_round(update=8.2, keras=8.9, full=9.0)
    update = dataclasses.replace(build_call("update"), seconds=2 * MS * 8.2)
    result = build_profiled(build_profile(rounds=(dataclasses.replace(one, traced=one.traced | {"update": update}),)))
    sentence = describe_bottleneck(result, summarize(result))
    assert sentence.startswith(
        "Bottleneck: the host overhead of the phase update, moments in which nothing is at work: 3.2 ms of a step's 9 "
    )


def test_where_no_part_stands_out_the_layers_of_a_kind_are_summed() -> None:
    deep = build_deep(40)
    assert deep.profile
    one = deep.profile.rounds[0]
    update = one.traced["update"]
    # The optimizer takes 0.5 of 6 ms, which is more than any other part, and 40 layers 3 ms.
    update = dataclasses.replace(update, parts=update.parts | {"update": 2 * MS * 0.5})
    one = dataclasses.replace(one, traced=one.traced | {"update": update})
    result = build_profiled(dataclasses.replace(deep.profile, rounds=(one,)))
    assert describe_bottleneck(result, summarize(result)) == (
        "Bottleneck: no single part; the longest, the optimizer, takes 500 us of a step's 6 ms, 8.3 %. The Conv2D "
        "layers together take 3 ms, 50 %."
    )


def test_where_layers_of_a_kind_outweigh_the_bottleneck_they_are_summed_beside_it() -> None:
    deep = build_deep(40)
    assert deep.profile
    one = dataclasses.replace(deep.profile.rounds[0], seconds=build_round(keras=6.5, full=6.6).seconds)
    result = build_profiled(dataclasses.replace(deep.profile, rounds=(one,)))
    sentence = describe_bottleneck(result, summarize(result))
    assert sentence.startswith(
        "Bottleneck: what Keras's own step does beyond forward, backward and update, such as metrics: "
    )
    assert ": 1 ms of a step's 6.6 ms, 15 %. Its cause was not measured" in sentence
    assert sentence.endswith(" The Conv2D layers together take 3 ms, 45 %.")


def traced_in_part(rest: str) -> RunResult:
    return build_profiled(build_profile(rounds=(build_partly_traced(rest),)))


@pytest.mark.parametrize(
    ("rest", "said"),
    [
        ("at work", "; for 2.4 ms something else was at work."),
        ("idle", "; for 2.7 ms nothing was at work, if the trace is whole: host overhead."),
        ("not told", ", and does not tell whether anything was at work in the rest: layers may take longer."),
    ],
)
def test_a_trace_that_holds_a_tenth_of_the_time_is_named_though_its_sums_close(rest: str, said: str) -> None:
    profile = summarize(traced_in_part(rest))
    assert all(abs(check.relative_difference) < 1e-9 for check in profile.checks)
    cautions = profile_cautions(profile)
    assert [text.partition(":")[0] for text in cautions] == ["forward", "backward", "update"]
    assert sum("may take longer than is shown" in text for text in cautions) == (rest == "at work")
    head = "backward: the trace names operations for 10 % of the phase's 3 ms by the clock"
    assert cautions[1].startswith(head + said)
    assert "  operations of it                   10 %      10 %      10 %\n" in show(traced_in_part(rest))


def test_work_that_is_not_named_has_a_row_of_its_own_where_there_is_any() -> None:
    text = show(traced_in_part("at work"))
    assert "  not named                         0.800     2.400     0.800  66.7 %" in text
    assert "  host overhead                     0.100     0.300     0.100   8.3 %" in text
    assert "Not named: something was at work that the trace names no operation of." in flat(text)
    assert "not named" not in show(build_profiled()).lower()
    at_most = "Of forward and backward the trace names too little: GFLOP/s and shares are what they are at most."
    assert (at_most in flat(text), at_most in flat(show(build_profiled()))) == (True, False)
    older = flat(show(traced_in_part("not told")))
    assert "Host overhead: moments in which no operation runs, or one that the trace left out." in older
    result = traced_in_part("at work")
    start = "Bottleneck: work of the phase backward that the trace does not name: 2.4 ms of a step's 6 ms, 40 %. "
    assert describe_bottleneck(result, summarize(result)).startswith(start)


def test_the_uncertainty_of_phases_is_shown_and_in_json() -> None:
    result = build_profiled()
    assert "  forward        1.000   0.248    0.900   16.7 %  forward - dispatch" in show(result)
    document = profile_to_json(result, summarize(result))["step"]
    forward = next(phase for phase in document["phases"] if phase["name"] == "forward")
    assert (forward["low"], forward["high"]) == (pytest.approx(0.752e-3, abs=1e-6), pytest.approx(1.248e-3, abs=1e-6))
    assert document["full_half_width"] == pytest.approx(1.490e-3, abs=1e-6)
    assert document["checks"][0]["named_share"] == pytest.approx(0.8)


def test_a_sum_above_the_full_step_says_what_waiting_for_a_gpu_adds() -> None:
    for on_device in (True, False):
        one = build_partly_traced("idle", on_device=on_device)
        one = dataclasses.replace(one, seconds=build_round(full=4.0).seconds)
        (text,) = (
            text
            for text in profile_cautions(summarize(build_profiled(build_profile(rounds=(one,)))))
            if text.startswith("the phases' sum")
        )
        assert ("Calls of phases wait for the GPU each, and steps of fit do not" in text) == on_device


def test_what_a_step_fetches_from_a_gpu_is_listed_where_it_does() -> None:
    operation = ProfiledOperation(name="a/MatMul", kind="MatMul", occurrences=1, seconds=1e-3, own_seconds=1e-3)
    wait = ProfiledOperation(name="MemcpyD2H", kind="", occurrences=2.0, seconds=2e-5, own_seconds=2e-5)
    for waits, shown in (((wait,), True), ((), False), (None, False)):
        profile = Profile(operations=(operation,), num_traced_steps=2, traced_step_seconds=2e-3, host_waits=waits)
        text = flat("\n".join(operation_lines(profile, 80)))
        assert ("Copies to the host and waits for the GPU, in a step: MemcpyD2H 2 (20 us)." in text) == shown


def test_times_of_a_gpu_are_said_to_be_its_own() -> None:
    one = build_round()
    traced = {name: dataclasses.replace(call, on_device=True) for name, call in one.traced.items()}
    text = flat(show(build_profiled(build_profile(rounds=(dataclasses.replace(one, traced=traced),)))))
    assert "as the GPU took for them; what runs beside" in text
    assert "scaled to calls without; what runs beside" in flat(show(build_profiled()))


@pytest.mark.parametrize(
    ("fields", "end"),
    [
        # 0.9 MB in 1.8 ms; at 10 GB/s 0.09 ms.
        (
            {},
            "It reaches 5.0 % of this machine's nearer peak: neither arithmetic nor memory limits it, and what does "
            "was not measured.",
        ),
        (
            {"backward_bytes": 5_400_000},
            "It is bound by memory, and reaches 30 % of what this machine's memory can move.",
        ),
        # Of 32 million operations two products: 64 MFLOP, 0.64 ms at 100 GFLOP/s.
        (
            {"gradient_flops_per_sample": 8_000_000},
            "It is bound by arithmetic, and reaches 36 % of what this machine computes in a matrix product.",
        ),
        (
            {"backward_bytes": 36_000_000},
            "It is bound by memory, and faster than this machine's memory was seen to be, which is no peak for it: "
            "part of its bytes stays in the processor's caches, or the peak was measured too low.",
        ),
        (
            {"gradient_flops_per_sample": 67_500_000},
            "It is bound by arithmetic, and faster than this machine's matrix product, which is no peak for it: there "
            "are shorter ways to compute it, or the peak was measured too low.",
        ),
        ({"gradient_flops_per_sample": None}, "1.8 ms of a step's 6 ms, 30 %."),
    ],
)
def test_the_sentence_says_what_limits_a_layer(fields: dict[str, Any], end: str) -> None:
    base = build_profile()
    layers = (base.layers[0], dataclasses.replace(base.layers[1], **fields))
    result = build_profiled(build_profile(layers=layers))
    assert describe_bottleneck(result, summarize(result)).endswith(end)


def test_no_share_of_a_peak_is_more_than_all_of_it() -> None:
    base = build_profile()
    fast = dataclasses.replace(
        base.layers[1], flops_per_sample=33_750_000, gradient_flops_per_sample=67_500_000
    )  # 3 times what the peak allows
    result = build_profiled(build_profile(layers=(base.layers[0], fast)))
    lines = limit_lines(summarize(result), 80)
    assert [line for line in lines if line.endswith("  arithmetic over 100 %")]
    assert "Over 100 %: that is no true peak here" in flat("\n".join(lines))
    assert "100 %" not in flat("\n".join(limit_lines(summarize(build_profiled(base)), 80)))
    step = profile_to_json(result, summarize(result))["step"]
    (pool,) = (layer for layer in step["layers"] if layer["name"] == "pool")
    assert (pool["backward"]["roof_share"], pool["backward"]["exceeds_peak"]) == (None, True)
    shares = [layer[direction]["roof_share"] for layer in step["layers"] for direction in ("forward", "backward")]
    assert all(share is None or 0 <= share <= 1 for share in shares)
    assert max(map(len, lines)) <= 80


def test_sums_that_are_more_than_a_tenth_off_are_a_caution_with_what_to_do() -> None:
    assert profile_cautions(summarize(build_profiled())) == []
    one = build_round(full=5.0)
    # 0.8 ms more than in the first function: 0.4 in the mean of the two, and as much less in which nothing runs.
    longer = {name: build_call(name, **{"forward/0": 1.2}) for name in ("backward", "update")}
    one = dataclasses.replace(one, traced=one.traced | longer)
    assert profile_cautions(summarize(build_profiled(build_profile(rounds=(one,))))) == [
        "the phases' sum is 18 % more than the full step.",
        "forward: the sum of its parts is 1.4 ms (+40 %), the phase by the clock 1 ms.",
        "backward: the sum of its parts is 2.2 ms (-27 %), the phase by the clock 3 ms.",
        "Measure for longer (--seconds 60) on a quiet machine, to see whether that stays.",
    ]


def test_a_full_step_that_is_longer_than_its_phases_says_what_the_rest_is() -> None:
    cautions = profile_cautions(
        summarize(build_profiled(build_profile(rounds=(build_round(full=10.0, pipeline=9.0),))))
    )
    assert cautions[0] == (
        "the phases' sum is 41 % less than the full step. The input pipeline alone takes 9 ms for a batch."
    )
    text = show(build_profiled(build_profile(rounds=(build_round(full=10.0, pipeline=9.0),))))
    assert "  sum - full    -4.100                   -41.0 %" in text


def test_a_difference_that_the_pipeline_is_too_fast_for_is_not_put_down_to_it() -> None:
    cautions = profile_cautions(summarize(build_profiled(build_profile(rounds=(build_round(full=10.0),)))))
    assert cautions[0] == "the phases' sum is 41 % less than the full step."


@pytest.mark.parametrize(
    ("seconds", "caution"),
    [
        (
            59.0,
            "the extrapolated epoch is 25 % less than the measured one. The input pipeline may keep up only as long as "
            "its prefetched batches last.",
        ),
        (35.4, "the extrapolated epoch is 25 % more than the measured one."),
    ],
)
def test_an_epoch_that_took_longer_or_shorter_than_extrapolated_is_a_caution(seconds: float, caution: str) -> None:
    epoch = EpochCheck(num_steps=7500, seconds=seconds, steps_per_epoch=7500)  # extrapolated: 44.25 s
    assert profile_cautions(summarize(build_profiled(build_profile(epoch=epoch))))[0] == caution


def test_a_step_of_keras_that_is_shorter_than_the_profiled_one_is_a_caution() -> None:
    cautions = profile_cautions(summarize(build_profiled(build_profile(rounds=(build_round(keras=5.0, full=5.0),)))))
    assert cautions[0] == "Keras's own step is 500 us shorter than the one that is timed phase by phase."


def build_operations(*names_and_kinds: tuple[str, str]) -> Profile:
    """Builds a trace of 20 steps of 5 ms, 3 ms of which are its operations'."""
    own = (2.5, 0.2, 0.12, 0.08)
    operations = (
        ProfiledOperation(name=name, kind=kind, occurrences=1.5, seconds=2 * MS * ms, own_seconds=MS * ms)
        for (name, kind), ms in zip(names_and_kinds, own, strict=True)
    )
    return Profile(operations=tuple(operations)[::-1], num_traced_steps=20, traced_step_seconds=5 * MS)


def test_operations_are_listed_by_their_own_time_and_named_from_their_layer_on() -> None:
    function = "StatefulPartitionedCall/gradient_tape/cnn_1"
    profile = build_operations(
        (f"{function}/conv/convolution/Conv2DBackpropFilter", "Conv2DBackpropFilter"),
        (f"StatefulPartitionedCall/cnn_1/{'scope/' * 5}dense/MatMul_1", "MatMul"),
        ("b", "Mul"),
        ("c", "Mul"),
    )
    assert operation_lines(profile, 80, limit=2) == [
        "Operations of 20 traced steps, by their own time",
        "  operation                      kind                  a step     own ms   share",
        "  grad conv/convolution          Conv2DBackpropFilter     1.5      2.500  50.0 %",
        "  scope/scope/scope/scope/sc...  MatMul                   1.5      0.200   4.0 %",
        "  2 others                                                         0.200   4.0 %",
        "  no operation runs                                                2.100  42.0 %",
        "A step took 5 ms with the trace on, more than without. Own: operations that ran",
        "side by side share that time alike.",
    ]
    assert operation_lines(profile, 100, limit=3)[1:5] == [
        "  operation                            kind                  a step         ms     own ms   share",
        "  grad conv/convolution                Conv2DBackpropFilter     1.5      5.000      2.500  50.0 %",
        "  scope/scope/scope/scope/scope/dense  MatMul                   1.5      0.400      0.200   4.0 %",
        "  b                                    Mul                      1.5      0.240      0.120   2.4 %",
    ]


def test_a_trace_without_operations_says_so() -> None:
    assert operation_lines(Profile(), 80) == ["The trace holds no operation."]


def test_the_json_document_has_statistics_and_every_reading() -> None:
    result = build_published(PUBLISHED)
    document = json.loads(json.dumps(profile_to_json(result, summarize(result)), allow_nan=False))
    assert document["status"] == "FINISHED"
    assert document["request"]["kind"] == "step"
    step = document["step"]
    assert [phase["name"] for phase in step["phases"]][:2] == ["input", "dispatch"]
    assert step["sum_seconds"] == pytest.approx(5.9e-3)
    assert step["relative_difference"] == pytest.approx(-1 / 60)
    assert step["layers"][0]["forward"]["flops_per_second"] == pytest.approx(40e9)
    assert [step["layers"][place]["backward"]["bound"] for place in (0, 1)] == ["memory", None]
    assert step["checks"][0]["sum_seconds"] == pytest.approx(1e-3)
    assert step["bottleneck"]["layer"] == "pool"
    assert step["bottleneck"]["sentence"].startswith("Bottleneck: the backward pass of pool")
    assert step["extrapolated_epoch_seconds"] == pytest.approx(44.25)
    assert len(document["readings"]["rounds"]) == 3
    assert document["readings"]["rounds"][0]["traced"]["update"]["parts"]["update"] == pytest.approx(1.4e-3)
    assert document["reference"][0]["layer_seconds"]["backward/pool"] == 9.72e-3
    assert document["cautions"] == []


def test_the_json_document_of_a_run_without_a_round_has_the_same_keys_and_what_went_wrong() -> None:
    failed = build_profiled(
        Profile(), exit=dataclasses.replace(build_profiled().exit, status="FAILED", reason="out of memory")
    )
    document = profile_to_json(failed, None)
    assert document.keys() == profile_to_json(build_profiled(), summarize(build_profiled())).keys()
    assert (document["step"], document["error"]) == (None, "out of memory")


def read_bars(result: RunResult) -> tuple[list[str], dict[str, list[float]]]:
    """Returns the labels of a plot from the top, and for each section the lengths of its bars in ms."""
    (axes,) = plot_profile(result, summarize(result)).axes
    bars = {str(bar.get_label()): [round(float(one.get_width()), 9) for one in bar] for bar in axes.containers}
    return [label.get_text() for label in axes.get_yticklabels()], bars


def test_the_plot_has_a_bar_for_each_layer_and_for_what_belongs_to_none() -> None:
    labels, bars = read_bars(build_profiled())
    assert labels == [
        "input",
        "dispatch",
        "conv (Conv2D)",
        "pool (SwitchableMaxPooling2D)",
        "loss",
        "optimizer",
        "other operations",
        "host overhead",
        "keras loop",
    ]
    assert bars == {
        "forward": [0, 0, 0.4, 0.3, 0.1, 0, 0, 0.2, 0],
        "backward": [0, 0, 0.5, 1.8, 0.3, 0, 0, 0.4, 0],
        "update": [0, 0, 0, 0, 0, 0.7, 0.1, 0.2, 0],
        "other phases": [0.3, 0.2, 0, 0, 0, 0, 0, 0, 0.4],
    }


def test_the_plot_sums_layers_beyond_the_longest() -> None:
    labels, bars = read_bars(build_deep(40))
    layers = [label for label in labels if "_conv" in label]
    assert len(layers) == MAX_LAYERS
    assert layers[0] == "block11_conv (Conv2D)"
    assert "10 others" in labels
    assert sum(bars["forward"]) == pytest.approx(1.0)  # the phase


def test_the_plot_shows_phases_where_no_layer_was_timed_and_tells_sections_apart_without_colours() -> None:
    result = build_profiled(build_profile(layers=(), rounds=(build_round(traced=False),)))
    assert read_bars(result)[0] == ["input", "dispatch", "forward", "backward", "update", "keras loop"]
    figure = plot_profile(result, summarize(result))
    hatches = [bar[0].get_hatch() for bar in figure.axes[0].containers]
    assert len(set(hatches)) == len(hatches) == 4
    assert to_png(figure).startswith(b"\x89PNG")
