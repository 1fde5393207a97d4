"""How a profile is shown; tests/support/profiles.py says what was recorded."""

import dataclasses
import json
from typing import Any

import pytest

from builders import build_recipe, build_request, build_result
from kinds import Fields, Golden
from profiles import (
    CONV,
    MS,
    PARTS,
    PEAK,
    POOL,
    build_call,
    build_partly_traced,
    build_profile,
    build_profiled,
    build_round,
)
from tfbench.machine.facts import PeakCheck
from tfbench.profiles import profile_text
from tfbench.profiles.estimate import summarize_profile
from tfbench.profiles.profile_tables import NUM_LAYERS, operation_section
from tfbench.profiles.profile_text import (
    describe_bottleneck,
    next_command,
    profile_warnings,
    show_profile,
)
from tfbench.profiles.readings import (
    Profile,
    ProfiledOperation,
    ProfileRequest,
    ProfileRound,
)
from tfbench.runs.record import Summary
from tfbench.runs.run_document import run_document
from tfbench.show.table import text

QUIET = Summary(metrics={}, warnings=())


@pytest.mark.parametrize(
    ("checks", "reason"),
    [
        ((dataclasses.replace(PEAK, other_share=0.5),), "other processes disturbed"),
        ((), "not all peaks of the machine were measured"),
    ],
)
def test_a_column_of_limits_that_is_empty_says_why(
    checks: tuple[PeakCheck, ...], reason: str
) -> None:
    lines = text(show_profile(build_profiled(peak_checks=checks), is_whole=False), 80)
    shown = " ".join(" ".join(lines).split())
    assert f"limit: not known, since {reason}" in shown
    assert "limit: arithmetic or memory" not in shown


def build_deep(num_layers: int, optimizer: float = 0.7) -> Profile:
    """Builds a network in which the layer of number n takes n times as long as that of number 1."""
    numbers = range(1, num_layers + 1)
    layers = tuple(
        dataclasses.replace(CONV, index=number, name=f"block{number}_conv") for number in numbers
    )
    parts = {"forward/0": 0.0, "backward/0": 0.0, "update": optimizer}
    for number in numbers:
        share = number / sum(numbers)
        parts |= {f"forward/{number}": 0.7 * share, f"backward/{number}": 2.3 * share}
    return build_profile(layers=layers, rounds=(with_parts(parts),))


def profile_lines(*, is_whole: bool = False, **fields: Any) -> list[str]:
    result = build_profiled(build_profile(**fields))
    return text(show_profile(result, is_whole=is_whole), 80)


def document_of(profile: Profile) -> Fields:
    document = run_document(build_profiled(profile), QUIET, None)
    return json.loads(json.dumps(document, allow_nan=False))


def bottleneck_of(profile: Profile) -> tuple[str, str, list[str]]:
    """Returns the bottleneck's name, its sentence, and the words of the command to try."""
    result = build_profiled(profile)
    step = summarize_profile(result)
    return step.bottleneck.name, describe_bottleneck(step), next_command(result)


def with_parts(parts: dict[str, float]) -> ProfileRound:
    """Builds a round in whose traces some parts take so many ms."""
    calls = {}
    for number, name in enumerate(PARTS):  # each has the parts of those before it, and its own
        own = [part for part in parts if part.partition("/")[0] in [*PARTS][: number + 1]]
        calls[name] = build_call(name, **{part: parts[part] for part in own})
    return dataclasses.replace(build_round(), traced=calls)


@pytest.mark.parametrize("is_whole", [False, True])
def test_a_profile_is_shown_as_in_the_golden_file(golden: Golden, is_whole: bool) -> None:
    lines = profile_lines(is_whole=is_whole)
    golden(f"profile_{'whole_' if is_whole else ''}80.txt", "\n".join(lines) + "\n")
    assert max(map(len, lines)) <= 80


def test_the_number_of_rounds_includes_those_left_out() -> None:
    rounds = tuple(build_round(1 + number / 10) for number in range(5))
    lines = profile_lines(rounds=rounds)
    assert "(5 rounds, 1 slowest excluded)" in "\n".join(lines)


def test_a_deep_network_fits_a_screen_with_its_longest_layers_first() -> None:
    deep = build_deep(40)
    fields = {"layers": deep.layers, "rounds": deep.rounds}
    lines = profile_lines(**fields)
    assert len(lines) <= 30 and max(map(len, lines)) <= 80
    assert [line.split()[0] for line in lines if line.startswith("block")] == [
        f"block{number}_conv" for number in range(40, 40 - NUM_LAYERS, -1)
    ]
    # 1 + ... + 36 of 1 + ... + 40: 666 of 820, of 0.7 and 2.3 ms.
    assert next(line.split()[:5] for line in lines if "other layers" in line) == [
        *("36", "other", "layers", "0.569", "1.868")
    ]
    # Of a long name, the end tells most.
    layer = dataclasses.replace(CONV, name="a_very_long_scope_of_a_network/block_1/conv")
    lines = profile_lines(layers=(layer,))
    assert any(line.startswith("...") and "block_1/conv" in line for line in lines)
    whole = profile_lines(is_whole=True, **fields)
    assert sum(line.startswith("block") for line in whole) == 40


def test_why_layers_are_not_timed_apart_is_said() -> None:
    rounds = (build_round(traced=False),)
    lines = profile_lines(layers=(), layers_problem="XLA makes one program.", rounds=rounds)
    assert lines[0] == "Bottleneck: backward, 3 ms of 6 ms (50 %)."
    assert "Layers: XLA makes one program." in lines


def test_no_part_within_the_measurement_s_error_is_called_the_bottleneck(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    step = summarize_profile(build_profiled())
    *phases, loop = step.phases
    loop = dataclasses.replace(loop, seconds=4 * MS, low=-1 * MS, high=9 * MS)
    # The others take 5.5 ms.
    step = dataclasses.replace(step, phases=(*phases, loop), full_seconds=9.5 * MS, checks=())
    assert step.bottleneck.name == "keras loop"
    sentence = "Bottleneck: not clear. The longest part, keras loop, takes 4 ms ± 5 ms of "
    assert describe_bottleneck(step).startswith(sentence)
    monkeypatch.setattr(profile_text, "summarize_profile", lambda result: step)
    assert next_command(build_profiled()) == ["profile", "test", "--seconds", "60"]


_FAST = ["run", "test", "--fast"]
_TRACE = ["profile", "test", "--trace"]
_XLA = ["sweep", "test", "--setup", "default", "--setup", "default compiler=xla"]


@pytest.mark.parametrize(
    ("one", "name", "size", "command"),
    [
        (build_round(traced=False, take=9.0), "input", "8.8 ms", _TRACE),
        (build_round(traced=False, full=10.0, pipeline=9.0), "input pipeline", "4.1 ms", _TRACE),
        (build_round(traced=False, keras=9.3, full=9.4), "keras loop", "3.8 ms", _FAST),
        (with_parts({"update": 2.6}), "optimizer", "2.6 ms", _TRACE),
        (with_parts({"backward/loss": 2.2}), "backward of the loss", "2.2 ms", _TRACE),
        (with_parts({"forward/1": 1.9}), "forward of pool", "1.9 ms", _XLA),
        (build_partly_traced("at work"), "not named of backward", "2.4 ms", _TRACE),
        (build_partly_traced("idle"), "host overhead of backward", "2.7 ms", _FAST),
    ],
)
def test_the_longest_part_is_the_bottleneck_with_a_command_to_try(
    one: ProfileRound, name: str, size: str, command: list[str]
) -> None:
    found, sentence, words = bottleneck_of(build_profile(rounds=(one,)))
    assert (found, words) == (name, command)
    assert sentence.startswith(f"Bottleneck: {name}") and f", {size} of " in sentence


LOOP = build_profile(rounds=(build_round(traced=False, keras=9.3, full=9.4),))  # takes longest


@pytest.mark.parametrize(
    ("backend", "profile", "words"),
    [
        ("jax", LOOP, []),
        ("jax", build_profile(), []),
        ("torch", LOOP, _TRACE),
        ("torch", build_profile(), [*_XLA[:-1], "default compiler=inductor"]),
    ],
)
def test_what_to_try_is_what_the_backend_has(
    backend: str, profile: Profile, words: list[str]
) -> None:
    recipe = build_recipe(training={"backend": backend}, dataset={"data": "real"})
    request = build_request(recipe=recipe, profile=ProfileRequest())
    assert next_command(build_profiled(profile, request=request)) == words


@pytest.mark.parametrize(
    ("typed", "name", "allows_code"),
    [("./mine.toml", "mine", False), ("nets.py:build_model", "nets", True), ("mlp", "mlp", False)],
)
def test_what_to_try_is_of_the_network_that_was_profiled(
    typed: str, name: str, allows_code: bool
) -> None:
    optimizer = {"name": "sgd", "learning_rate": 0.1}
    recipe = build_recipe(training={"global_batch_size": 16, "optimizer": optimizer})
    request = build_request(
        recipe=dataclasses.replace(recipe, name=name),
        argv=("profile", "--batch-size", "16", typed),
        overrides=("training.global_batch_size", "training.optimizer.name", "output.plots"),
        data_dir="/data",
        allows_code=allows_code,
        profile=ProfileRequest(),
    )
    settings = '--set training.global_batch_size=16 --set training.optimizer.name="sgd"'
    allowing = " --allow-code" * allows_code
    expected = f"run {typed} --data synthetic --data-dir /data {settings}{allowing} --fast"
    assert " ".join(next_command(build_profiled(LOOP, request=request))) == expected


@pytest.mark.parametrize(("full", "is_clear"), [(7.5, True), (10.0, False), (3.3, False)])
def test_phases_that_do_not_add_up_have_no_bottleneck(full: float, is_clear: bool) -> None:
    _, sentence, _ = bottleneck_of(build_profile(rounds=(build_round(full=full),)))
    assert sentence.startswith("Bottleneck: not clear") != is_clear


def test_layers_of_a_kind_that_outweigh_the_longest_part_are_the_bottleneck_together() -> None:
    # The optimizer takes 0.5 of 6 ms, which is more than any other part, and 40 layers 3 ms.
    _, sentence, _ = bottleneck_of(build_deep(40, optimizer=0.5))
    assert sentence == (
        "Bottleneck: all Conv2D layers, 3 ms (50 %) together; the longest part is optimizer, 500 us"
        " of 6 ms (8.3 %)."
    )


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({}, "neither 5 %"),  # 0.9 MB in 1.8 ms; at 10 GB/s 0.09 ms
        ({"backward_bytes": 5_400_000}, "memory 30 %"),
        ({"gradient_flops_per_sample": 8_000_000}, "arithmetic 36 %"),  # 0.64 ms at 100 GFLOP/s
        ({"backward_bytes": 36_000_000}, "memory >100 %"),
        ({"gradient_flops_per_sample": 67_500_000}, "arithmetic >100 %"),
        ({"gradient_flops_per_sample": None}, "35 %"),
    ],
)
def test_the_table_says_what_limits_a_layer(fields: Fields, words: str) -> None:
    layers = (CONV, dataclasses.replace(POOL, **fields))
    (line,) = [line for line in profile_lines(layers=layers) if line.startswith("pool ")]
    assert line.endswith(words)
    _, pool = document_of(build_profile(layers=layers))["step"]["layers"]
    share = pool["backward"]["roof_share"]
    assert share is None if words.endswith(">100 %") or words == "35 %" else 0 <= share <= 1


_UNCERTAIN = "the times of layers are uncertain: the trace explains 0.1 of 1 ms of forward"


@pytest.mark.parametrize(
    ("one", "beginning"),
    [
        (build_round(), ""),
        (build_round(full=10.0, pipeline=9.0), "the phases add up to 41 % less"),
        (build_round(full=5.0), "the phases add up to 18 % more"),
        (build_partly_traced("at work"), _UNCERTAIN),
        (build_partly_traced("idle"), _UNCERTAIN),
        (build_partly_traced("not told"), _UNCERTAIN),
    ],
)
def test_sums_that_are_far_off_are_a_warning(one: ProfileRound, beginning: str) -> None:
    warnings = profile_warnings(build_profiled(build_profile(rounds=(one,))))
    assert len(warnings) == bool(beginning)
    assert "".join(warnings).startswith(beginning)


def test_warnings_of_the_machine_come_first_and_a_training_has_none_of_a_profile() -> None:
    busy = Summary(metrics={}, warnings=("the machine was busy",))
    result = build_profiled(build_profile(rounds=(build_round(full=10.0),)))
    first, second = run_document(result, busy, None)["warnings"]
    assert (first, second.partition(" add")[0]) == ("the machine was busy", "the phases")
    assert (profile_warnings(build_result()), show_profile(build_result())) == ([], [])


def test_operations_are_listed_by_their_own_time_and_named_from_their_layer_on() -> None:
    function = "StatefulPartitionedCall/gradient_tape/cnn_1"
    operations = tuple(
        ProfiledOperation(
            name=name, kind=kind, occurrences=1.5, seconds=2 * MS * ms, own_seconds=MS * ms
        )
        for name, kind, ms in (
            ("b", "Mul", 0.08),
            ("c", "Mul", 0.12),
            (f"StatefulPartitionedCall/cnn_1/{'scope/' * 5}dense/MatMul_1", "MatMul", 0.2),
            (f"{function}/conv/convolution/Conv2DBackpropFilter", "Conv2DBackpropFilter", 2.5),
        )
    )
    profile = Profile(operations=operations, num_traced_steps=20, traced_step_seconds=5 * MS)
    lines = text([operation_section(profile, limit=2)], 80)
    assert max(map(len, lines)) <= 80
    assert [line.split() for line in lines[2:6]] == [
        *(["grad", "conv/convolution", "Conv2DBackpropFilter", "1.5", "2.500", "50", "%"],),
        *(["scope/scope/scope/scope/...", "MatMul", "1.5", "0.200", "4", "%"],),
        *(["2", "more", "0.200", "4", "%"], ["no", "operation", "runs", "2.100", "42", "%"]),
    ]
    assert text([operation_section(Profile())], 80) == ["The trace holds no operation."]


def test_the_json_document_has_statistics_and_every_reading() -> None:
    document = document_of(build_profile())
    assert (document["request"]["kind"], document["warnings"]) == ("step", [])
    step = document["step"]
    bottleneck = step["bottleneck"]
    assert bottleneck["layer"] == "pool"
    assert step["sentence"].startswith("Bottleneck: backward of pool")
    found = (step["sum_seconds"], step["relative_difference"], bottleneck["share"])
    assert found == pytest.approx((5.9e-3, -1 / 60, 0.3))
    assert step["checks"][0]["named_share"] == pytest.approx(0.8)
    update = document["readings"]["rounds"][0]["traced"]["update"]
    assert update["parts"]["update"] == pytest.approx(1.4e-3)
