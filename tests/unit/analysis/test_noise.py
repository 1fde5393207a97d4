import dataclasses
import math
from typing import Any

import numpy as np
import pytest

from builders import build_environment, build_placement, build_recipe, build_request, build_result, build_settings
from floors import build_floor, build_key
from tfbench.analysis.comparison.noise import NoiseFloor, noise_key
from tfbench.errors import RecipeError
from tfbench.records.machine import Gpu
from tfbench.schema import build, to_plain


def test_the_paired_limit_is_that_worked_out_by_hand() -> None:
    # Logarithms to base 2 of the ratios are 1, -1, 1: root mean square 1; t of 3 degrees of freedom is 3.182446.
    floor = build_floor()
    assert floor.paired_limit() == pytest.approx(2**3.182446 - 1, rel=1e-6)
    assert floor.paired_limit(4) == pytest.approx(2 ** (3.182446 / 2) - 1, rel=1e-6)


def test_the_unpaired_limit_is_that_worked_out_by_hand() -> None:
    # Logarithms to base 2, less that of 100: 0, 1, 0, 1, 0, 1; standard deviation sqrt(0.3); t of 5 is 2.570582.
    floor = build_floor()
    assert floor.unpaired_limit() == pytest.approx(2 ** (2.570582 * math.sqrt(0.6)) - 1, rel=1e-6)
    assert floor.unpaired_limit(4) == pytest.approx(2 ** (2.570582 * math.sqrt(0.15)) - 1, rel=1e-6)


def test_one_comparison_in_twenty_of_equals_is_beyond_the_limits() -> None:
    rng = np.random.default_rng(0)
    alarms = {"paired": 0, "paired by five": 0, "single": 0, "three on each side": 0}
    times = 2000
    for _ in range(times):
        first, second, more, others = np.exp(rng.normal(5, 0.03, (4, 5)))
        floor = build_floor(first=tuple(first), second=tuple(second))
        logs = np.log(more) - np.log(others)
        alarms["paired"] += abs(logs[0]) > math.log1p(floor.paired_limit())
        alarms["paired by five"] += abs(logs.mean()) > math.log1p(floor.paired_limit(5))
        alarms["single"] += abs(logs[0]) > math.log1p(floor.unpaired_limit())
        alarms["three on each side"] += abs(logs[:3].mean()) > math.log1p(floor.unpaired_limit(3))
    assert {name: number / times for name, number in alarms.items()} == pytest.approx(
        dict.fromkeys(alarms, 0.05), abs=0.017
    )


@pytest.mark.parametrize(("first", "second"), [((1.0, 2.0), (1.0, 2.0)), ((1.0, 2.0, 3.0), (1.0, 2.0))])
def test_a_floor_needs_three_whole_rounds(first: tuple[float, ...], second: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="needs 3 or more rounds of two runs"):
        build_floor(first=first, second=second)


def test_a_floor_survives_being_written_down() -> None:
    floor = build_floor(key=dataclasses.replace(build_key(), gpus=("Titan X",)))
    assert build(NoiseFloor, to_plain(floor), "x") == floor
    with pytest.raises(RecipeError, match=r"x\.first"):
        build(NoiseFloor, to_plain(floor) | {"first": [1.0, -2.0, 3.0]}, "x")


@pytest.mark.parametrize(
    "fields",
    [
        {"environment": build_environment(hostname="other")},
        {"environment": build_environment(cpu_model="other")},
        {"environment": build_environment(usable_cores=3)},
        {"environment": build_environment(gpus=(Gpu(name="Titan X"),))},
        {"placement": build_placement(strategy="mirrored")},
        {"placement": build_placement(devices=("cpu:1",))},
        {"placement": build_placement(global_batch_size=64)},
        {"request": build_request(recipe=build_recipe(dataset={"data": "synthetic"}))},
        {"request": build_request(recipe=build_recipe(model={"hidden_units": [5]}, dataset={"data": "real"}))},
    ],
)
def test_another_machine_placement_or_workload_is_another_key(fields: dict[str, Any]) -> None:
    assert noise_key(build_result(**fields)) != noise_key(build_result())


@pytest.mark.parametrize(
    "fields",
    [
        {"settings": build_settings(precision="mixed_float16")},
        {"settings": build_settings(compiler="xla")},
        {"settings": build_settings(intra_op_threads=1)},
        {"settings": build_settings(steps_per_execution=10)},
        {"environment": build_environment(cpu_quota_cores=1.5)},
        {
            "request": build_request(
                recipe=build_recipe(dataset={"data": "real"}, training={"optimizer": {"name": "sgd"}})
            )
        },
        {"request": build_request(recipe=build_recipe(dataset={"data": "real"}, measurement={"warmup_steps": 5}))},
    ],
)
def test_other_settings_are_another_key(fields: dict[str, Any]) -> None:
    assert noise_key(build_result(**fields)) != noise_key(build_result())


def test_the_length_of_a_run_is_in_the_key() -> None:
    def key(**sections: Any) -> object:
        recipe = build_recipe(dataset={"data": "real"}, **sections)
        return noise_key(build_result(request=build_request(recipe=recipe)))

    lengths = [{"epochs": 7}, {"epochs": 8}, {"seconds": 3.0}, {"seconds": 4.0}, {"steps": 3}]
    keys = {key(**{"training" if "epochs" in one else "measurement": one}) for one in lengths}
    assert len(keys) == len(lengths)
    limited = {"seconds": 3.0}
    assert key(training={"epochs": 7}, measurement=limited) == key(training={"epochs": 8}, measurement=limited)


@pytest.mark.parametrize("name", ["tfbench", "tensorflow", "keras"])
def test_a_floor_outlives_an_update(name: str) -> None:
    assert noise_key(build_result(environment=build_environment(**{name: "9.9"}))) == noise_key(build_result())


def test_a_run_that_never_got_so_far_has_no_key() -> None:
    assert noise_key(build_result(environment=None)) is None
    assert noise_key(build_result(placement=None)) is None
