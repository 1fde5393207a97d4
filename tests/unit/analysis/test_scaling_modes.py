"""How training scales by modes of sharing the work: figures, sentences, tables and the plot."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from sweeps import build_brief, build_plan
from tfbench.analysis.comparison.comparison import Comparison, compare
from tfbench.analysis.comparison.scaling import Place, find_scaling
from tfbench.analysis.comparison.verdict import find_caveats, find_verdict
from tfbench.records.scaling import Mode, find_scaling_setups, replica_setups
from tfbench.records.sweep import Setup, resolve_recipe
from tfbench.report.comparison.plots import comparison_plots
from tfbench.report.comparison.scaling import scaling_table

MODES: tuple[Mode, ...] = ("data", "model", "hybrid")
MEBIBYTE = 2**20
SPEEDS = {"alone": 960.0, "data": (1536.0, 1920.0), "model": (1440.0, 1440.0), "hybrid": (1728.0, 2880.0)}
MOVED = {"mirrored": 8.0, "model": 3.0, "hybrid": 4.5}  # MiB a step


def by_modes(
    speeds: Mapping[str, Any] = SPEEDS,
    *,
    kind: str = "gpu",
    drift: tuple[float, ...] = (1.0, 1.02, 1 / 1.02),
    **options: Any,
) -> Comparison:
    """Compares modes on two and four devices with one, of 96 samples a step."""
    values = [speeds["alone"], *(speeds[mode][place] for place in (0, 1) for mode in MODES)]
    briefs = []
    for setup, speed in zip(replica_setups(kind, (1, 2, 4), MODES, "jax"), values, strict=True):
        replicas = 1 if setup.strategy == "model" else len(setup.devices)
        metrics = {"num_replicas": replicas, "input_headroom": 4.0}
        if setup.strategy in MOVED:
            moved = MOVED[setup.strategy] * MEBIBYTE
            metrics |= {"collective_bytes_per_step": moved, "state_bytes_per_device": 2**24, "transfer_share": 0.2}
        for number, factor in enumerate(drift, 1):
            own = {"setup": setup, "batch": 96, "round_number": number, "settings": {"training.backend": "jax"}}
            brief = build_brief(speed * factor, parameters=2**21, **own)
            briefs.append(dataclasses.replace(brief, metrics=brief.metrics | metrics))
    return compare(briefs, **{"keys": [], "settings": [{}], "compared": ("backend",)} | options)


def test_each_mode_is_a_line_over_the_devices_that_are_hardware() -> None:
    found = find_scaling(by_modes())
    assert found is not None
    assert (found.modes, found.kind, found.has_replicas) == (MODES, "strong", False)
    assert [point.place for point in found.points[:4]] == [Place(1, None), *(Place(2, mode) for mode in MODES)]
    assert [point.speedup.value for point in found.line("hybrid")] == pytest.approx([1.0, 1.8, 3.0])
    # Four devices hold one replica in mode model: its batch is whole, and four of them are hardware all the same.
    model = found.line("model")[-1]
    assert (model.num_replicas, model.per_replica_batch_size, model.num_devices) == (1, 96, 4)
    assert model.efficiency is not None
    assert model.efficiency.value == pytest.approx(1.5 / 4)
    assert [point.exchanged_bytes for point in found.line("model")] == [0.0, 3 * MEBIBYTE, 3 * MEBIBYTE]


def test_the_table_and_the_verdict_have_a_row_and_a_sentence_a_mode(golden: Callable[[str, str], None]) -> None:
    comparison = by_modes()
    found = find_scaling(comparison)
    assert found is not None
    golden("scaling_modes.txt", "\n".join([*scaling_table(found).text(160), "", *find_verdict(comparison), ""]))


def test_no_mode_is_called_fastest_whose_interval_another_reaches() -> None:
    noisy = by_modes(drift=(1.0,))
    assert not any("fastest mode" in text for text in find_verdict(noisy))  # one run each has no interval
    near = by_modes(SPEEDS | {"data": (1728.0, 2880.0)})
    (two, four) = [text for text in find_verdict(near) if text.startswith("On ")]
    assert two == "On 2 devices data and hybrid are too close to call."
    assert four == "On 4 devices data and hybrid are too close to call."


def test_modes_that_share_cores_are_no_statement_about_hardware() -> None:
    comparison = by_modes(kind="cpu")
    found = find_scaling(comparison)
    assert found is not None
    header = " ".join(scaling_table(found).text(160)[0].split())
    assert header == "devices mode batch samples/s speed-up step exchanged held collectives input"
    said = " ".join([*scaling_table(found).text(160), *find_verdict(comparison), *find_caveats(comparison)])
    assert "The devices of mirrored cpu:0,cpu:1 backend=jax, model cpu:0,cpu:1" in said
    assert "efficien" not in said


def test_the_plot_has_a_line_a_mode_beside_the_ideal() -> None:
    (plot,) = comparison_plots(by_modes())
    lines = {one.name: [y for _, y, *_ in one.points] for one in plot.panels[0].series}
    assert [name for name in lines if name.endswith("parallel")] == [f"{mode} parallel" for mode in MODES]
    assert lines["hybrid parallel"] == pytest.approx([1.0, 1.8, 3.0])
    assert lines["ideal: as many times the speed"] == [1, 4]


def test_a_plan_of_modes_is_known_by_its_setups_and_keeps_layouts_from_those_that_cut_nothing() -> None:
    setups = [
        dataclasses.replace(setup, values=(("training.backend", "jax"),))
        for setup in replica_setups("cpu", (1, 2), MODES, "jax")
    ]
    plan = build_plan(variations=(), setups=tuple(setups))
    assert [setup.strategy for setup in setups] == ["default", "mirrored", "model", "hybrid"]
    assert find_scaling_setups(plan) == ("cpu", (1, 2), MODES)
    assert (
        find_scaling_setups(
            build_plan(variations=(), setups=(*setups[:2], Setup(strategy="other", devices=("cpu:0",))))
        )
        is None
    )
    plan.tables["distribution"] |= {"strategy": "hybrid", "mesh": {"data": 2}}
    meshes = [resolve_recipe(plan, {}, setup).distribution.mesh for setup in (setups[0], setups[1], setups[3])]
    assert meshes == [{}, {}, {"data": 2}]
