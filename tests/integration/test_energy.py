"""Energy from the counters to the figures, in real processes: a planted processor draws 10 W by the machine's clock."""

from pathlib import Path

import pytest

from fake_power import RaplTree
from holding import plant
from runs import NO_CHECKS, journal_of, of_kind, run_json

RANGE_JOULES = 1e6
PLANTED = """
import threading
import time
from pathlib import Path
from tfbench.machine import energy

WATTS = {{"package-0": 10.0, "package-0 dram": 1.5}}
latest = threading.local()

class Clock:
    @staticmethod
    def monotonic():
        latest.seconds = time.monotonic()
        return latest.seconds

def read(self):  # exactly at the time that the reading has: a busy machine may take long between the two
    return WATTS[self.source.name] * latest.seconds % {range_joules}

energy.time = Clock
open_zones = energy.open_zones
energy.RaplZone.read = read
energy.open_zones = lambda root: open_zones(Path({root!r}))
"""
SMALL = ("mnist_hidden100_mlp", "--data", "synthetic", "--global-batch-size", "1000", "--devices", "cpu:0", *NO_CHECKS)


@pytest.fixture
def planted(tmp_path: Path) -> dict[str, str]:
    """Plants a processor with memory in all processes that have this environment."""
    tree = RaplTree(tmp_path / "machine", range_joules=RANGE_JOULES)
    for zone, name in (("intel-rapl:0", "package-0"), ("intel-rapl:0:0", "core"), ("intel-rapl:0:1", "dram")):
        tree.add(zone, name)
    return plant(tmp_path, PLANTED.format(root=str(tree.root), range_joules=RANGE_JOULES))


def test_a_processor_of_ten_watts_is_found_to_draw_ten_watts(tmp_path: Path, planted: dict[str, str]) -> None:
    document = run_json("run", *SMALL, "--epochs", "4", cwd=tmp_path, **planted)
    energy, summary = document["energy"], document["summary"]
    assert energy["parts"] == ["package", "dram"]
    assert energy["problems"] == []
    assert summary["mean_watts"] == pytest.approx(11.5)
    assert energy["samples"] == (4 * 60 - 10) * 1000

    records = journal_of(tmp_path / "mlruns")
    assert [one["reading"]["moment"] for one in of_kind(records, "energy")] == ["steady", "end"]
    assert of_kind(records, "machine")  # looks of the parent
    assert records[-1]["kind"] == "exit"
