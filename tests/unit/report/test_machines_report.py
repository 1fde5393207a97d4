"""The machines of a comparison in a terminal, as JSON, and in the HTML report."""

import dataclasses
import json
from typing import Any

import pytest

from sweeps import build_brief, on_machine
from tfbench.analysis.comparison.comparison import Comparison, compare
from tfbench.analysis.comparison.verdict import find_verdict
from tfbench.records.machine import Gpu
from tfbench.records.settings import MachineSettings
from tfbench.report.comparison.comparison import comparison_document, comparison_records
from tfbench.report.comparison.sweep import result_lines

BATCH = "training.global_batch_size"
GPU = Gpu(name="Example GPU", memory_bytes=80 * 2**30, driver="535.1", power_limit_watts=400.0)


def compared(hosts: tuple[str, ...] = ("big", "small"), **environment: Any) -> Comparison:
    """Compares machines of which each has half the speed of the one before; the first has GPUs and a price."""
    runs = [
        on_machine(
            build_brief(2000.0 / 2**place * factor, batch=batch, run_id=f"{batch}-{number}"),
            host,
            **({"gpus": (GPU, GPU), "keras": "3.13.0"} | environment if place == 0 else {}),
        )
        for place, host in enumerate(hosts)
        for batch in (32, 64)
        for number, factor in enumerate((1.0, 1.01, 0.99))
    ]
    found = compare(runs, keys=[BATCH])
    return dataclasses.replace(found, machine_settings={hosts[0]: MachineSettings(price_per_hour=3.6, currency="EUR")})


def test_the_console_has_a_line_a_machine_and_setting() -> None:
    lines = result_lines(compared(), 140)
    start = lines.index("Machines")
    table = [line.replace("± ", "±").replace(" %", "%").split() for line in lines[start + 1 : start + 6]]
    assert table == [
        ["batch", "machine", "setup", "samples/s", "an", "hour", "epoch", "epoch", "costs"],
        ["32", "big", "default", "cpu:0", "2,000", "±2.5%", "3.6", "EUR", "30", "s", "0.03", "EUR"],
        ["32", "small", "default", "cpu:0", "1,000", "±2.5%", "60", "s"],
        ["64", "big", "default", "cpu:0", "2,000", "±2.5%", "3.6", "EUR", "30", "s", "0.03", "EUR"],
        ["64", "small", "default", "cpu:0", "1,000", "±2.5%", "60", "s"],
    ]


def test_json_has_what_the_setups_of_machines_cost() -> None:
    comparison = compared()
    document = comparison_document(comparison, find_verdict(comparison))
    json.dumps(document, allow_nan=False)
    big, small, *others = document["machines"]["setups"]
    assert (big["machine"], big["setup"], big["setting"]) == ("big", "default cpu:0 on big", {BATCH: 32})
    assert (big["price_per_hour"], big["currency"]) == (3.6, "EUR")
    assert big["epoch_cost"] == pytest.approx(0.03, rel=1e-3)
    assert (small["price_per_hour"], small["epoch_cost"]) == (None, None)
    assert (len(others), len(document["machines"]["warnings"])) == (2, 1)
    assert [entry["machine"] for entry in document["rows"][0]["entries"]] == ["big", "small"]
    lines = comparison_records(comparison).csv().splitlines()
    assert lines[0].endswith(",reason,machine") and lines[1].endswith(",big")
