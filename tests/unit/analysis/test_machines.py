"""Which of several machines is fastest, cheapest and thriftiest, against speeds and prices that are planted."""

import dataclasses
import math
import random
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from builders import build_environment
from sweeps import TWO_ARMS, build_brief, on_machine
from tfbench.analysis.comparison.brief import RunBrief
from tfbench.analysis.comparison.comparison import Comparison, compare
from tfbench.analysis.comparison.machine_ranking import MachineComparison, compare_machines
from tfbench.analysis.comparison.machine_verdict import find_notes, machine_sentences
from tfbench.analysis.comparison.machines import describe_machines
from tfbench.analysis.comparison.verdict import find_verdict
from tfbench.records.energy import Part
from tfbench.records.machine import Gpu
from tfbench.records.settings import MachineSettings
from tfbench.records.sweep import Arm
from tfbench.report.sweep.sweep import result_lines

BATCH = "training.global_batch_size"
GPU_ARM = Arm(strategy="default", devices=("gpu:0",))
QUIET = (1.0, 1.01, 0.99)  # what rounds differ by
PRICES = {"big": 3.0, "small": 0.5}


def runs_of(
    host: str,
    speed: float,
    *,
    arm: Arm = TWO_ARMS[0],
    batch: int = 32,
    spread: Sequence[float] = QUIET,
    environment: Mapping[str, Any] | None = None,
    metrics: Mapping[str, float] | None = None,
    **fields: Any,
) -> list[RunBrief]:
    """Builds runs of one arm of a machine, one for each factor of `spread`."""
    found = []
    for number, factor in enumerate(spread):
        run = build_brief(speed * factor, arm=arm, batch=batch, run_id=f"{batch}-{number}", **fields)
        run = dataclasses.replace(run, metrics=run.metrics | dict(metrics or {}))
        found.append(on_machine(run, host, **environment or {}))
    return found


def compared(*listed: list[RunBrief], prices: Mapping[str, float] = PRICES, **fields: Any) -> Comparison:
    found = compare([run for runs in listed for run in runs], keys=[BATCH])
    settings = {name: MachineSettings(price_per_hour=price, **fields) for name, price in prices.items()}
    return dataclasses.replace(found, machine_settings=settings)


def machines_of(*listed: list[RunBrief], **fields: Any) -> MachineComparison:
    found = compare_machines(compared(*listed, **fields))
    assert found is not None
    return found


def sentences(found: MachineComparison) -> list[str]:
    return list(machine_sentences(found, lambda rows: ", ".join(str(row.setting[BATCH]) for row in rows)))


def test_the_fastest_machine_need_not_be_the_cheapest() -> None:
    # Twice the speed at six times the price: an epoch of 60,000 samples costs three times as much.
    found = machines_of(runs_of("big", 2000.0), runs_of("small", 1000.0))
    (speed,), (cost,) = found.rankings["samples_per_second"], found.rankings["epoch_cost"]
    assert (speed.best, speed.next_machine, speed.ratio) == (("big",), "small", pytest.approx(2.0))
    assert (cost.best, cost.next_machine, cost.ratio) == (("small",), "big", pytest.approx(1 / 3))
    ((_, (big, small)),) = found.settings
    mean = (1.0 * 1.01 * 0.99) ** (1 / 3)
    assert big.epoch_seconds == pytest.approx(60_000 / 2000 / mean)
    assert big.figures["epoch_cost"].value == pytest.approx(3.0 * 30 / 3600 / mean)
    assert small.figures["epoch_cost"].value == pytest.approx(0.5 * 60 / 3600 / mean)
    interval, own = big.figures["epoch_cost"].interval, big.entry.interval
    assert interval is not None and own is not None
    assert interval.high / interval.center == pytest.approx(own.high / own.center)  # a price has no scatter
    assert sentences(found) == [
        "Fastest machine: big by default cpu:0, 2 times as fast as the next, small.",
        "Cheapest machine, by the training steps of an epoch: small by default cpu:0, 0.333 times the cost of the "
        "next, big.",
    ]
    assert find_verdict(compared(runs_of("big", 2000.0), runs_of("small", 1000.0)))[:2] == tuple(sentences(found))


def test_machines_that_intervals_do_not_tell_apart_are_not_ranked() -> None:
    noisy = (0.7, 1.0, 1.4)
    found = machines_of(runs_of("big", 1050.0, spread=noisy), runs_of("small", 1000.0, spread=noisy))
    (speed,) = found.rankings["samples_per_second"]
    assert (speed.best, speed.ratio, speed.is_judged) == (("big", "small"), None, True)
    assert sentences(found)[0] == "Fastest machine: these runs do not tell big and small apart."
    (cost,) = found.rankings["epoch_cost"]
    assert cost.best == ("small",)  # six times the price is beyond any of that


def test_one_run_of_each_machine_is_not_judged() -> None:
    listed = runs_of("big", 2000.0, spread=(1.0,)), runs_of("small", 1000.0, spread=(1.0,))
    assert sentences(machines_of(*listed))[0] == (
        "Fastest machine: big and small are not judged: a single run says nothing of chance."
    )


def test_a_single_run_of_a_machine_is_not_judged_by_how_runs_scatter_on_another() -> None:
    found = machines_of(runs_of("big", 1100.0), runs_of("small", 1000.0, spread=(1.0,)), prices={})
    assert sentences(found) == ["Fastest machine: big and small are not judged: a single run says nothing of chance."]
    # By how runs of its own scatter, under another setting, it is.
    of_64 = runs_of("big", 500.0, batch=64), runs_of("small", 1000.0, batch=64)
    found = machines_of(runs_of("big", 1100.0), runs_of("small", 1000.0, spread=(1.0,)), *of_64, prices={})
    assert sentences(found)[0].startswith("Fastest machine: big by default cpu:0 for 32, 1.1 times")


def test_of_three_machines_the_last_is_told_from_two_that_are_level() -> None:
    listed = runs_of("a", 1000.0), runs_of("b", 1002.0), runs_of("c", 300.0)
    (speed,) = machines_of(*listed).rankings["samples_per_second"]
    assert speed.best == ("b", "a")
    assert sentences(machines_of(*listed))[0] == "Fastest machine: these runs do not tell a and b apart."


def test_each_machine_is_judged_by_its_best_arm() -> None:
    found = machines_of(runs_of("big", 100.0), runs_of("big", 2000.0, arm=GPU_ARM), runs_of("small", 1000.0), prices={})
    ((_, best),) = found.settings
    assert [(arm.machine, arm.entry.arm) for arm in best] == [
        ("big", "default gpu:0 on big"),
        ("small", "default cpu:0 on small"),
    ]
    assert sentences(found) == ["Fastest machine: big by default gpu:0, 2 times as fast as the next, small."]


def test_a_machine_is_not_slower_whose_other_arm_may_be_as_fast() -> None:
    noisy = runs_of("small", 950.0, arm=GPU_ARM, spread=(0.6, 1.0, 1.6))
    found = machines_of(runs_of("big", 1200.0), runs_of("small", 1000.0), noisy)
    assert sentences(found)[0] == "Fastest machine: these runs do not tell big and small apart."
    far = runs_of("small", 20.0, arm=GPU_ARM, spread=(0.6, 1.0, 1.6))
    found = machines_of(runs_of("big", 1200.0), runs_of("small", 1000.0), far)
    assert sentences(found)[0].startswith("Fastest machine: big by default cpu:0, 1.2 times")


def test_the_best_machine_of_each_setting_is_named_with_it() -> None:
    found = machines_of(
        *(runs_of("big", speed, batch=batch) for batch, speed in ((32, 500.0), (64, 2000.0))),
        *(runs_of("small", 1000.0, batch=batch) for batch in (32, 64)),
        prices={},
    )
    assert sentences(found) == [
        "Fastest machine: small by default cpu:0 for 32, 2 times as fast as the next, big; "
        "big by default cpu:0 for 64, 2 times as fast as the next, small."
    ]


def test_a_comparison_of_one_machine_has_no_machines() -> None:
    runs = [*runs_of("big", 100.0), *runs_of("big", 200.0, arm=GPU_ARM)]
    assert compare_machines(compared(runs)) is None
    assert not any("machine" in text for text in find_verdict(compared(runs)))


def test_what_is_not_known_is_absent_and_said_once_with_how_to_set_it() -> None:
    found = machines_of(runs_of("big", 2000.0), runs_of("node1.example.org", 1000.0), prices={"big": 3.0})
    assert set(found.rankings) == {"samples_per_second"}
    ((_, (big, other)),) = found.settings
    assert ("epoch_cost" in big.figures, "epoch_cost" in other.figures) == (True, False)
    price, energy = find_notes(found)
    assert price == (
        "No price is known of node1.example.org. In your settings, ~/.config/tfbench/config.toml: "
        '[machines."node1.example.org"] and price_per_hour = ... below it.'
    )
    assert energy.startswith("No energy is known of big and node1.example.org: ")


def test_a_price_under_a_name_that_no_machine_has_is_named_beside_those_that_lack_one() -> None:
    note, *_ = find_notes(
        machines_of(runs_of("big", 2000.0), runs_of("small", 1000.0), prices={"big": 1.0, "smal": 2.0})
    )
    assert note.startswith("No price is known of small.") and note.endswith(" There is one of smal.")


def test_runs_without_an_environment_are_of_machines_of_which_nothing_else_is_known() -> None:
    listed = runs_of("big", 2000.0), runs_of("small", 1000.0)
    comparison = compared(*([dataclasses.replace(run, environment=None, cost={}) for run in runs] for runs in listed))
    found = compare_machines(comparison)
    assert found is not None
    assert [(one.environment, one.versions) for one in found.machines] == [(None, {}), (None, {})]
    assert "; ;" not in "\n".join(result_lines(comparison, 120))


def test_a_machine_without_a_price_is_not_among_the_cheap_ones_and_that_is_said() -> None:
    found = machines_of(runs_of("big", 2000.0), runs_of("small", 1000.0), runs_of("own", 3000.0))
    (cost,) = found.rankings["epoch_cost"]
    assert (cost.best, cost.without) == (("small",), ("own",))
    assert sentences(found)[1].endswith("0.333 times the cost of the next, big; of own that is not known.")


@pytest.mark.parametrize(
    ("cost", "prices", "expected"),
    [
        ({"currency": "EUR", "instance": "big", "price_per_hour": 2.0}, {}, {"big": (2.0, "EUR")}),
        ({"currency": "EUR", "instance": "other", "price_per_hour": 2.0}, {}, {}),
        ({"currency": "EUR", "price_per_hour": 2.0}, {}, {}),  # of this machine, whichever that was
        (
            {"currency": "EUR", "instance": "small", "price_per_hour": 0.25},
            {"big": 4.0},
            {"big": (4.0, "EUR"), "small": (0.25, "EUR")},
        ),
        ({"currency": "EUR", "instance": "big", "price_per_hour": 2.0}, {"big": 4.0}, {"big": (4.0, "EUR")}),
    ],
)
def test_a_price_is_the_user_s_or_that_of_an_instance_of_the_name(
    cost: dict[str, Any], prices: dict[str, float], expected: dict[str, tuple[float, str]]
) -> None:
    found = describe_machines(compared(runs_of("big", 1.0, cost=cost), runs_of("small", 1.0, cost=cost), prices=prices))
    assert {one.name: tuple(one.price) for one in found if one.price} == expected


def test_prices_in_two_currencies_are_not_held_against_each_other() -> None:
    comparison = compared(runs_of("big", 2000.0), runs_of("small", 1000.0))
    mixed = {
        "big": MachineSettings(price_per_hour=3.0, currency="JPY"),
        "small": MachineSettings(price_per_hour=0.5),
    }
    found = compare_machines(dataclasses.replace(comparison, machine_settings=mixed))
    assert found is not None
    assert set(found.rankings) == {"samples_per_second"}
    assert "Prices are in JPY and USD, and are not held against each other." in find_notes(found)


def test_the_way_to_an_accuracy_is_paid_for_where_every_run_got_there() -> None:
    def reaching(host: str, seconds: Sequence[float | None]) -> list[RunBrief]:
        runs = runs_of(host, 1000.0)
        return [
            dataclasses.replace(run, target_accuracy=0.98, seconds_to_accuracy=one)
            for run, one in zip(runs, seconds, strict=True)
        ]

    found = machines_of(reaching("big", (3600.0, 3700.0, 3500.0)), reaching("small", (7200.0, 7300.0, 7100.0)))
    (cost,) = found.rankings["cost_to_accuracy"]
    assert (cost.best, cost.ratio) == (("small",), pytest.approx(2 * 0.5 / 3.0, rel=1e-3))
    ((_, (big, _)),) = found.settings
    assert big.figures["cost_to_accuracy"].value == pytest.approx(3.0, rel=1e-3)  # an hour
    assert any(
        text.startswith("Cheapest machine, to a validation accuracy of 0.98: small") for text in sentences(found)
    )
    found = machines_of(reaching("big", (3600.0, 3700.0, 3500.0)), reaching("small", (7200.0, None, 7100.0)))
    assert "cost_to_accuracy" not in found.rankings
    assert "Not every run on small got to a validation accuracy of 0.98." in find_notes(found)


def using(host: str, per_joule: float | None, *parts: Part, **fields: Any) -> list[RunBrief]:
    """Builds runs of a machine whose energy is of some of its parts."""
    return [
        dataclasses.replace(
            run,
            metrics=run.metrics | {"samples_per_joule": per_joule and per_joule * factor},
            energy_parts=list(parts),
        )
        for run, factor in zip(runs_of(host, 2000.0, **fields), QUIET, strict=True)
    ]


def test_the_thriftiest_machine_is_told_by_the_energy_of_its_runs() -> None:
    found = machines_of(using("big", 10.0, "gpu", "package"), using("small", 30.0, "package"))
    (energy,) = found.rankings["epoch_joules"]
    assert (energy.best, energy.ratio) == (("small",), pytest.approx(1 / 3))
    ((_, (big, _)),) = found.settings
    assert big.figures["epoch_joules"].value == pytest.approx(6000.0, rel=1e-3)
    assert sentences(found)[-1] == (
        "Thriftiest machine, by the energy of an epoch: small by default cpu:0, 0.333 times the energy of the next, "
        "big."
    )
    assert [text for text in find_notes(found) if "nergy" in text] == [
        "Energy is of GPUs and processor packages alone on big; of processor packages alone on small."
    ]


def test_energy_of_other_parts_is_not_held_against_each_other_and_said_to_be_so() -> None:
    # Of one the processors' energy was not read, so that it is less than what it took.
    found = machines_of(using("big", 10.0, "package"), using("small", 30.0, "gpu"))
    assert "epoch_joules" not in found.rankings
    assert "Where processors or their memory are in that of one machine alone, it is not held against each other." in (
        find_notes(found)
    )
    # Of both: then they are compared, and the reader is told that neither is the whole.
    found = machines_of(using("big", 10.0, "gpu"), using("small", 30.0, "gpu"))
    assert found.rankings["epoch_joules"][0].best == ("small",)
    assert "Energy is of GPUs alone on big and small." in find_notes(found)


def test_energy_that_one_run_lacks_or_has_of_other_parts_is_none_of_its_machine() -> None:
    one, *others = using("big", 10.0, "package")
    small = using("small", 10.0, "package")
    for changed in (
        dataclasses.replace(one, metrics=one.metrics | {"samples_per_joule": None}),
        dataclasses.replace(one, energy_parts=["package", "dram"]),
    ):
        found = machines_of([changed, *others], small)
        ((_, best),) = found.settings
        assert ["epoch_joules" in arm.figures for arm in best] == [False, True]
        assert any(text.startswith("No energy is known of big: ") for text in find_notes(found))


def test_versions_that_differ_are_cautions_that_name_the_machines() -> None:
    gpus = (Gpu(name="Example GPU", driver="535.1"),)
    found = machines_of(
        runs_of("a", 1000.0, environment={"keras": "3.12.0", "tensorflow_cuda": "12.5", "gpus": gpus}),
        runs_of("b", 1000.0, environment={"keras": "3.13.0", "tensorflow_cuda": "12.5", "gpus": gpus}),
        runs_of("c", 1000.0, environment={"keras": "3.12.0", "cpu_model": "Other CPU", "memory_bytes": 2**40}),
    )
    assert found.cautions == (
        "machines differ in versions, which may be why their speeds do: Keras 3.12.0 on a and c, 3.13.0 on b.",
    )
    assert "samples_per_second" in found.rankings  # cautions, and no more
    drivers = machines_of(
        runs_of("a", 1000.0, environment={"gpus": gpus}),
        runs_of("b", 1000.0, environment={"gpus": (Gpu(name="Other GPU", driver="550.2"),), "python": "3.12.1"}),
    )
    assert drivers.cautions[0].endswith("Python 3.11.7 on a, 3.12.1 on b; GPU driver 535.1 on a, 550.2 on b.")


def test_hardware_alone_is_no_caution() -> None:
    other = {"cpu_model": "Other CPU", "usable_cores": 64, "num_logical_cores": 64, "memory_bytes": 2**40}
    assert machines_of(runs_of("a", 1.0), runs_of("b", 1.0, environment=other)).cautions == ()


def test_what_was_set_on_one_machine_alone_keeps_its_arms_from_being_compared() -> None:
    listed = [runs_of("big", 2000.0), runs_of("small", 1000.0)]
    for run in listed[1]:
        run.equals["environment"]["thread_variables"] = "OMP_NUM_THREADS=1"
    found = machines_of(*listed)
    assert found.rankings == {}
    assert found.unequal == {"big and small": ("thread_variables",)}
    assert "Not all arms of big and small are held against each other: some differ in thread_variables." in find_notes(
        found
    )


def test_arms_name_machines_and_a_name_may_stand_for_several() -> None:
    on_a, on_b = (Arm(strategy="default", devices=("gpu:0",), machine=name) for name in ("a100", "t4"))
    runs = [
        on_machine(build_brief(speed * factor, arm=arm, batch=batch, round_number=number), host, **environment)
        for arm, speed, batch, host, environment in (
            (on_a, 3000.0, 32, "n1", {}),
            (on_a, 3000.0, 64, "n2", {"cpu_model": "Other CPU"}),
            (on_b, 1000.0, 32, "n3", {}),
            (on_b, 1000.0, 64, "n3", {}),
        )
        for number, factor in enumerate(QUIET, start=1)
    ]
    comparison = compare(runs, keys=[BATCH], arms=[on_a.label, on_b.label], compared=("hostname", "cpu_model"))
    found = compare_machines(comparison)
    assert found is not None
    assert [(one.name, one.hosts) for one in found.machines] == [("a100", ("n1", "n2")), ("t4", ("n3",))]
    assert found.cautions == (
        "a100 stands for machines of several kinds: Example CPU 3000, 8 logical cores, 8 usable; Other CPU, 8 logical "
        "cores, 8 usable.",
    )
    assert sentences(found) == ["Fastest machine: a100 by default gpu:0 for 32, 64, 3 times as fast as the next, t4."]
    speedup = comparison.rows[0].entries[on_b.label].speedup
    assert speedup is not None and speedup.judgement == "slower"
    assert not any("several machines" in text for text in find_verdict(comparison))
    # Stored runs, beside which others stand, keep the names of their machines.
    assert set(compare(runs).arms) == {on_a.label, on_b.label}


def test_settings_of_one_machine_each_rank_none() -> None:
    found = machines_of(runs_of("big", 2000.0, batch=32), runs_of("small", 1000.0, batch=64))
    assert found.rankings == {}
    assert "No setting was measured on two machines, so that nothing tells which of them is better." in find_notes(
        found
    )


def test_runs_over_several_machines_at_once_belong_to_none() -> None:
    found = machines_of(
        runs_of("big", 2000.0), runs_of("small", 1000.0), runs_of("small", 9000.0, arm=GPU_ARM, num_machines=2)
    )
    assert sentences(found)[0].startswith("Fastest machine: big by ")
    assert "3 runs over several machines at once belong to none of them." in find_notes(found)


def test_a_machine_has_its_peaks_and_the_environment_of_its_newest_run() -> None:
    old = runs_of("big", 1.0, created=1.0, environment={"keras": "3.11.0"}, metrics={"peak_flops_per_second": 2e9})
    new = runs_of("big", 1.0, arm=GPU_ARM, created=2.0, metrics={"peak_flops_per_second": 5e12})
    (machine, _) = describe_machines(compared(old, new, runs_of("small", 1.0)))
    assert machine.environment == build_environment(hostname="big")
    assert machine.versions["Keras"] == {"3.11.0", "3.12.0"}
    assert [(peak.devices, peak.flops_per_second) for peak in machine.peaks] == [("cpu:0", 2e9), ("gpu:0", 5e12)]
    assert machine.num_runs == 6


def test_among_equal_machines_few_are_called_the_fastest() -> None:
    # 40 tables of three equal machines with two arms each: Holm leaves an error in one of twenty.
    generator, wrong = random.Random(0), 0
    for _ in range(40):
        listed = [
            runs_of(host, 1000.0, arm=arm, spread=[math.exp(generator.gauss(0.0, 0.02)) for _ in range(4)])
            for host in ("a", "b", "c")
            for arm in (TWO_ARMS[0], GPU_ARM)
        ]
        (speed,) = machines_of(*listed).rankings["samples_per_second"]
        wrong += len(speed.best) == 1
    assert wrong <= 4
