"""What a reader is warned of.

For each warning a run that has it, and each threshold from both sides.
"""

import dataclasses
from typing import Any

import pytest

from builders import (
    build_dataset,
    build_environment,
    build_epoch,
    build_peak,
    build_placement,
    build_recipe,
    build_request,
    build_result,
    build_settings,
    build_sizes,
    build_span,
    build_usage,
)
from kinds import Fields, Golden
from tfbench.machine.energy_readings import GpuState, MachineState
from tfbench.machine.facts import InputCheck, PeakCheck
from tfbench.profiles.readings import ProfileRequest
from tfbench.runs.placement_record import ExchangeCheck, ReplicaCheck, StepParts
from tfbench.runs.record import RunResult, StepSpan
from tfbench.runs.spans import RunView
from tfbench.runs.speed_warnings import MACHINE, SPEED
from tfbench.runs.warnings import (
    CODE,
    EARLY,
    LEARNING,
    LIMITS,
    NOTES,
    find_notes,
    find_warnings,
)

TABLES = (LEARNING, MACHINE, SPEED, LIMITS, EARLY, CODE, NOTES)
GPU = "0000:3b:00.0"
QUIET = GpuState(
    clock_mhz=1980.0,
    temperature_celsius=60.0,
    clock_reasons=0,
    num_other_processes=0,
)
SYNTHETIC = build_dataset()


def names(result: RunResult) -> list[str]:
    """Returns the names of the warnings that hold of a run, of several GPUs each once."""
    run = RunView(result)
    return [
        name
        for table in TABLES
        for name, (condition, _) in table.rows.items()
        if list(condition(run))
    ]


def find_all(result: RunResult) -> tuple[str, ...]:
    """Returns the texts of all warnings of a run."""
    return find_warnings(RunView(result))


def run(**fields: Any) -> RunResult:
    """Builds a run of a warm-up and eleven steady spans, of ten steps and a second each.

    320 samples/s.
    """
    spans = tuple(
        build_span(first_step=10 * index + 1, last_step=10 * index + 10) for index in range(12)
    )
    return build_result(**{"spans": spans} | fields)


def asked(**sections: Any) -> RunResult:
    return run(
        request=build_request(recipe=build_recipe(**{"dataset": {"data": "real"}} | sections))
    )


def warmed(steps: int) -> RunResult:
    """Builds a run of 120 steps, so many of which are for warm-up."""
    return asked(measurement={"warmup_steps": steps, "warmup_seconds": 1000.0})


def begun(first: float) -> RunResult:
    """Builds a run of three epochs of four spans of a second, but for the first of each."""
    spans = []
    for place in range(12):
        spans.append(
            build_span(
                epoch=1 + place // 4,
                first_step=10 * place + 2,
                last_step=10 * place + 11,
                seconds=first if place % 4 == 0 else 1.0,
            )
        )
    recipe = build_recipe(dataset={"data": "real"}, training={"feed": "fit", "epochs": 3})
    return build_result(request=build_request(recipe=recipe), spans=tuple(spans))


def used(**fields: Any) -> RunResult:
    """Builds a run that keeps four of a machine's eight usable cores busy.

    It was watched for 100 seconds.
    """
    usage = {"seconds": 100.0, "own_cpu_seconds": 400.0, "busy_cpu_seconds": 400.0}
    return run(usage=build_usage(**usage | fields))


def on(**fields: Any) -> RunResult:
    return run(environment=build_environment(**fields))


def compiled(flags: str, compiler: str = "graph", wanted: str | None = None) -> RunResult:
    request = build_request(
        recipe=build_recipe(dataset={"data": "real"}, training={"compiler": wanted, "epochs": 1})
    )
    return run(request=request, settings=build_settings(compiler=compiler, xla_flags=flags))


def seen(*states: GpuState | None) -> RunResult:
    """Builds a run whose GPU was seen so, once a second; None: it did not answer."""
    looks = [
        MachineState(seconds=float(second), gpus={GPU: state} if state else {}, joules={})
        for second, state in enumerate(states)
    ]
    return run(machine_states=tuple(looks))


def gpu(**fields: Any) -> GpuState:
    return dataclasses.replace(QUIET, **fields)


def steady(*seconds: float) -> tuple[StepSpan, ...]:
    """Builds steady spans of ten steps each, after one step of warm-up."""
    return tuple(
        build_span(first_step=10 * index + 2, last_step=10 * index + 11, seconds=value)
        for index, value in enumerate(seconds)
    )


def timed(*seconds: float, **fields: Any) -> RunResult:
    return run(spans=steady(*seconds), **fields)


def fed(num_batches: int, ready: int | None = None, seconds: float = 10.0) -> RunResult:
    """Builds a run whose pipeline alone made so many batches of 32.

    In each epoch, `ready` of the eight steps found a batch waiting.
    """
    epochs = tuple(build_epoch(epoch=number, num_steps=8, ready_batches=ready) for number in (1, 2))
    return run(input_check=InputCheck(num_batches=num_batches, seconds=seconds), epochs=epochs)


def peaked(*peaks: float, other_share: float = 0.0) -> RunResult:
    """Builds a run of 6,000,000 x 320 = 1.92 GFLOP/s."""
    model = build_sizes(training_flops_per_sample=6_000_000)
    return run(model=model, peak_checks=tuple(peak(one, other_share) for one in peaks))


def peak(flops_per_second: float, other_share: float = 0.0) -> PeakCheck:
    flops = round(2 * flops_per_second)
    return build_peak(flops=flops, seconds=2.0, other_share=other_share)


def layers(*uncounted: str) -> RunResult:
    return run(model=build_sizes(uncounted_layers=uncounted))


def workers(*each: tuple[float, float]) -> RunResult:
    parts = tuple(StepParts(step_seconds=step, exchange_seconds=own) for step, own in each)
    return run(exchange_check=ExchangeCheck(num_steps=20, workers=parts))


def learned(accuracy: float | None, val_loss: float | None = 0.3, **sections: Any) -> RunResult:
    bands = {"val_accuracy_at_epoch": {"1": [0.5, 0.7]}, "val_loss_at_epoch": {"1": [0.1, 0.4]}}
    recipe = build_recipe(
        **{"dataset": {"data": "real"}, "training": {"epochs": 1}, "expect": bands} | sections
    )
    request = build_request(
        recipe=recipe, overrides=("training.global_batch_size", "measurement.clock")
    )
    return run(
        request=request,
        epochs=(build_epoch(num_steps=20, val_accuracy=accuracy, val_loss=val_loss),),
    )


OWN_CODE = build_request(
    recipe=build_recipe(model={"name": "nets.py:build_model"}, dataset={"data": "real"})
)
WAVE = {  # a network without accuracy
    "model": {"name": "sine_lstm"},
    "dataset": {"name": "sine", "data": "real"},
    "training": {"epochs": 1, "loss": "mean_squared_error", "global_batch_size": 10},
}

# For each warning runs that have it alone, the first of which shows its text; and runs near it that
# have none.
CASES = {
    "loss_not_finite": (
        [
            run(
                epochs=tuple(
                    build_epoch(epoch=n, loss=one) for n, one in enumerate((1, None, 1, None, 1), 1)
                )
            )
        ],
        [],
    ),
    "outside_of_band": (
        [
            learned(0.4999),
            learned(0.7001),
            learned(0.6, 2.3026),
            learned(0.6, 0.05),
            learned(None, None),
        ],
        # The edges belong to the band, but for rounding to float32; what is later than the last
        # epoch is not checked.
        [
            *(learned(one) for one in (0.5, 0.7, 0.4999999523162842, 0.7000000119209290)),
            run(),
            learned(None, **WAVE),
        ],
    ),
    "unreadable_lines": ([run(num_unreadable_lines=1)], []),
    "other_load": (
        # 150 s of processor time in 100 s: one and a half cores; a tenth of all that the machine
        # has may be busy.
        [used(busy_cpu_seconds=550.0), used(busy_cpu_seconds=481.0)],
        [used(busy_cpu_seconds=479.0), used(busy_cpu_seconds=481.0, num_logical_cores=16)],
    ),
    "stolen_time": (
        [used(stolen_cpu_seconds=100.0), used(stolen_cpu_seconds=8.2)],
        [used(stolen_cpu_seconds=8.1)],  # of 408.1 s, of which a fiftieth may be stolen
    ),
    "waiting_for_disk": (
        [used(swapped_pages=501), used(major_page_faults=501)],
        [used(swapped_pages=500, major_page_faults=500)],
    ),
    "cpu_quota": (
        [
            run(
                environment=build_environment(cpu_quota_cores=2.5),
                usage=build_usage(throttled_seconds=1.25),
            )
        ],
        [on(cpu_quota_cores=8.0), on(cpu_quota_cores=7.9, usable_cores=4)],
    ),
    "cpu_governor": (
        [on(cpu_governor="powersave"), on(cpu_governor="performance, powersave")],
        [on(cpu_governor="performance"), on(cpu_governor=None)],
    ),
    "not_as_asked": (
        [
            compiled("", "xla"),
            asked(training={"precision": "mixed_float16"}),
            asked(training={"deterministic": True}),
        ],
        [compiled("", "xla", "xla"), compiled("", "graph", "graph")],
    ),
    "xla_flags": (
        [
            compiled("--xla_gpu_autotune_level=0 --xla_cpu_enable_fast_math=true", "xla", "xla"),
            compiled("--tf_xla_auto_jit=2 --tf_xla_cpu_global_jit"),
        ],
        [
            compiled("--xla_gpu_autotune_level=0"),  # nothing was compiled by it
            compiled("--tf_xla_auto_jit=0"),
            compiled("--tf_xla_auto_jit=-1"),
        ],
    ),
    "gpu_held_back": (
        [seen(*[QUIET] * 8, *[gpu(clock_reasons=bits | 1)] * 2) for bits in (0x08, 4, 0x20, 0x80)],
        [
            seen(
                *[gpu(clock_reasons=0x01 | 0x02 | 0x10 | 0x100)] * 9
            ),  # idle, or its clock was set
            seen(*[QUIET] * 99, gpu(clock_reasons=0x04)),
        ],
    ),
    "gpu_shared": ([seen(QUIET, gpu(num_other_processes=2), QUIET, QUIET)], [seen(*[QUIET] * 9)]),
    "nothing_measured": ([run(spans=())], []),
    "only_warmup": ([run(spans=(build_span(first_step=1, last_step=3),)), warmed(120)], []),
    "few_spans": (
        # Too few to be called unsteady.
        [warmed(105), timed(*[0.5] * 9), timed(1.0, 5.0, 1.0, 7.0, 2.0, 9.0, 1.0, 5.0, 3.0)],
        [
            timed(*[0.5] * 10),
            timed(*[0.5] * 9, request=build_request(tags={"tfbench.sweep": "abc"})),
        ],
    ),
    "slower_from_on": (
        [
            timed(*[1.0] * 12, *[6.0] * 12),
            timed(*[1.0, 1.1] * 12, 9.0, *[1.6, 1.8] * 4, 1.0, *[1.7] * 10),  # two exceptions
        ],
        [timed(*[1.0] * 12, *[1.04] * 12), timed(*[1.0] * 22, 6.0, 6.0)],
    ),
    "unsteady": (
        [
            timed(*[1 - 0.101, 1 + 0.101] * 6),
            timed(*[1.0, 1.0, 1.0, 1.0, 1.51] * 4),
        ],
        [
            timed(*[1 - 0.099, 1 + 0.099] * 6),
            timed(*[1.0, 1.0, 1.0, 1.0, 1.49] * 4),
        ],
    ),
    "slow_beginnings": (
        [begun(2.3)],
        [begun(1.5), begun(1.0)],
    ),
    "drifting": (
        # 24 spans from 1.00 to 1.23 s, 26.76 s together: 8.92 s are 0.5 s into the ninth, 17.84 s
        # into the seventeenth. The first nine take 9.36 s, the last seven 8.40 s: 0.104 and 0.12 s
        # a step, 15 % more.
        [
            timed(*[1 + index / 100 for index in range(24)]),
            timed(*[1.3 - index / 100 for index in range(24)]),
            timed(
                *[level + n * 1e-5 for n, level in enumerate([1.0] * 8 + [1.03] * 8 + [1.06] * 8)]
            ),
        ],
        [
            timed(
                *[level + n * 1e-5 for n, level in enumerate([1.0] * 8 + [1.02] * 8 + [1.04] * 8)]
            ),
            timed(2.0, *[1.0] * 23),  # one span that is held up: ranks do not move
            # Slower and slower, after one that is held up: the first third is slower than the last.
            timed(5.0, *[1 + index / 100 for index in range(23)]),
            timed(*[0.001] * 10, 100.0),  # most of the time in one span leaves no third to compare
        ],
    ),
    # In ten seconds, of 32: 480 samples/s are one and a half times 320, 304 are 0.95 times as many.
    "input_contradicts": ([fed(94), fed(42)], []),
    "input_bound": ([fed(149), fed(95)], [fed(150)]),
    "short_epochs": (
        [
            fed(100, ready=4, seconds=1.0)
        ],  # 4 of 8 batches, whose making takes a tenth of a step: 5 %
        [
            fed(251, ready=4, seconds=1.0),
            fed(100, ready=1, seconds=1.0),
            fed(100, ready=0, seconds=1.0),
        ],
    ),
    "no_peak": (
        [peaked(1.5e9, 1.4e9), peaked(1, 1.919999999e9), peaked(2e9, 1e9, other_share=0.25)],
        # The better one counts, and one alone is no proof.
        [peaked(1, 1.92e9), peaked(1), peaked(2e9, 1e9, other_share=0.1)],
    ),
    "unknown_layers": ([layers(*"abcdefg")], []),
    "open_layers": ([layers("both (Bidirectional, open length)")], [run()]),
    "slow_worker": (
        [workers((0.06, 0.055), (0.06, 0.005))],
        [workers((0.06, 0.0205), (0.06, 0.018)), workers((0.06, 0.05))],
    ),
    "not_checked": (
        [run(replica_check=ReplicaCheck(num_replicas=2, reason="out of memory"))],
        [run(replica_check=ReplicaCheck(num_replicas=2))],
    ),
    "whole_executions": (
        [asked(training={"epochs": 1, "steps_per_execution": 3})],
        [
            asked(training={"epochs": 1, "steps_per_execution": 5}),
            asked(training={"epochs": 1, "steps_per_execution": 3, "data_on_device": True}),
        ],
    ),
    "unused_gpu": ([run(placement=build_placement(unused_gpu="no driver"))], []),
    "other_purpose": (
        [asked(recipe={"not_meant_for": ["cpu"]})],
        [asked(recipe={"not_meant_for": ["gpu"]})],
    ),
    "own_code": (
        [
            run(
                request=OWN_CODE,
                model=build_sizes(files={f"{name}.py": "6c3e" for name in "abcdefg"}),
            ),
            run(request=OWN_CODE),
        ],
        [],
    ),
    "own_training": (
        [run(model=build_sizes(own_optimizer="AdamW"))],
        [],
    ),
    "shared_cores": (
        [
            run(
                placement=build_placement(
                    strategy="mirrored", devices=("cpu:0", "cpu:1"), num_replicas=2
                )
            )
        ],
        [run(placement=build_placement(devices=("gpu:0", "gpu:1")))],
    ),
    "synthetic_data": ([run(dataset=SYNTHETIC)], []),
    "limited": (
        [asked(measurement={"steps": 200, "seconds": 2.5}), learned(0.1, measurement={"steps": 5})],
        [],
    ),
    "left_out": ([], [asked(output={"checkpoint_every_epochs": 1, "num_predictions": 16})]),
}


def test_every_warning_has_a_case() -> None:
    assert list(CASES) == [name for table in TABLES for name in table.rows]


@pytest.mark.parametrize("name", CASES)
def test_a_warning_holds_where_it_should_and_not_near_it(name: str) -> None:
    having, near = CASES[name]
    assert [names(one) for one in having] == [[name]] * len(having)
    assert [names(one) for one in near] == [[]] * len(near)


def test_what_becomes_slower_little_by_little_has_no_step_to_name() -> None:
    for factor in (1.05, 1.5, 3.0, 20.0):
        ramp = [1 + (factor - 1) * index / 23 for index in range(24)]
        growth = [factor ** (index / 23) for index in range(24)]
        for seconds in (ramp, growth):
            assert "slower_from_on" not in names(timed(*seconds)), seconds


def test_the_texts_of_all_warnings(golden: Golden) -> None:
    texts = [
        f"{name}\n{(*find_all(having[0]), *find_notes(having[0]))[0]}\n"
        for name, (having, _) in CASES.items()
        if having
    ]
    golden("warnings.txt", "\n".join(texts))


def test_a_sound_run_needs_no_warning_nor_does_one_of_an_old_journal() -> None:
    known = build_sizes(
        flops_per_sample=2000,
        training_flops_per_sample=6000,
    )
    checks = {"input_check": InputCheck(num_batches=100, seconds=1.0), "peak_checks": (peak(9e6),)}
    assert find_all(run()) == find_all(run(model=known, **checks)) == ()
    assert find_all(seen(*[GpuState(temperature_celsius=60.0)] * 9)) == ()
    assert (
        find_all(run(usage=None, environment=None, settings=None, model=None, placement=None)) == ()
    )


def test_what_was_learned_comes_before_the_speed_and_what_was_asked_for_is_no_warning() -> None:
    recipe = build_recipe(
        measurement={"steps": 120}, training={"epochs": 20}, output={"num_predictions": 16}
    )
    result = run(
        dataset=SYNTHETIC,
        notes=("another run was measuring", "another run was measuring"),
        placement=build_placement(devices=("cpu:0", "cpu:1"), notes=("no GPU found",)),
        usage=build_usage(swapped_pages=1000),
        request=build_request(recipe=recipe),
        epochs=(build_epoch(loss=None),),
    )
    assert names(result) == [
        *("loss_not_finite", "waiting_for_disk"),
        *("shared_cores", "synthetic_data", "limited", "left_out"),
    ]
    assert tuple(one.split()[0] for one in find_all(result)) == ("Loss", "Training", "another")
    assert find_notes(result)[0] == "no GPU found" and len(find_notes(result)) == 5


@pytest.mark.parametrize(
    ("key", "optimizer", "is_blamed"),
    [
        ("training.optimizer.learning_rate", {}, True),
        *(
            (key, {}, False)
            for key in ("dataset.data", "training.seed", "training.compiler", "training.epochs")
        ),
        ("training.epochs", {"learning_rate_schedule": {"name": "CosineDecay"}}, True),
    ],
)
def test_what_was_set_is_blamed_for_accuracy_only_where_it_may_change_it(
    key: str, optimizer: Fields, is_blamed: bool
) -> None:
    found = learned(0.1, training={"epochs": 1, "optimizer": {"name": "adam"} | optimizer})
    (text,) = find_all(
        dataclasses.replace(found, request=dataclasses.replace(found.request, overrides=(key,)))
    )
    assert ("may explain it" in text) == is_blamed


def test_a_limit_of_steps_is_to_be_replaced_by_a_longer_one() -> None:
    assert (
        "(--seconds 12 instead of --steps)"
        in find_all(asked(measurement={"warmup_steps": 45, "warmup_seconds": 1000.0, "steps": 60}))[
            0
        ]
    )


def test_what_a_profile_is_of_is_noted() -> None:
    request = dataclasses.replace(OWN_CODE, profile=ProfileRequest())
    (note,) = find_notes(run(request=request, model=CASES["own_code"][0][0].model))
    assert note.startswith("The network is code of nets.py:build_model")


def test_a_limited_run_that_did_all_epochs_is_not_called_incomplete() -> None:
    (done,) = find_notes(learned(0.6, measurement={"steps": 5}))
    (cut,) = find_notes(learned(0.6, measurement={"steps": 5}, training={"epochs": 2}))
    assert "instead of 1 epoch: validation was skipped. To validate" in done
    assert "instead of 2 epochs: validation was skipped, and training is incomplete." in cut


def test_synthetic_and_limited_runs_are_not_expected_to_learn() -> None:
    assert names(dataclasses.replace(learned(0.1), dataset=SYNTHETIC)) == ["synthetic_data"]
