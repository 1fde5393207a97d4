"""What logical devices of the processor take to add arrays up, in a process of its own."""

import subprocess
from typing import Any

import pytest

from tfbench.errors import DeviceError, MeasurementError
from tfbench.machine import children, frameworks
from tfbench.runs import links

of_jax = pytest.mark.skipif(not frameworks.is_installed("jax"), reason="JAX adds up")


@of_jax
def test_devices_add_up_and_each_size_has_a_time() -> None:
    measured = links.measure_link(("cpu:0", "cpu:1", "cpu:2"), 1, sizes=(4096, 16_384, 65_536))
    assert measured.devices == ("cpu:0", "cpu:1", "cpu:2")
    assert (measured.is_of_logical_devices, len(measured.seconds[0])) == (True, 3)


@of_jax
def test_a_link_has_two_ends() -> None:
    with pytest.raises(DeviceError, match=r"cpu:0: a link has two ends or more\. JAX sees 1 of cpu"):
        links.measure_link(("cpu:0",), 1)


def test_a_process_that_breaks_down_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    def ask(module: str, **options: Any) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(module, 1, "", "Traceback ...\nRuntimeError: no memory\n")

    monkeypatch.setattr(frameworks, "is_installed", lambda backend: True)
    monkeypatch.setattr(children, "ask", ask)
    with pytest.raises(MeasurementError, match=r"the process that adds up ended with code 1: RuntimeError: no memory"):
        links.measure_link(("gpu",), 1)


def test_without_jax_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frameworks, "is_installed", lambda backend: False)
    with pytest.raises(DeviceError, match=r"JAX is not installed\. pip install"):
        links.measure_link(("cpu:0", "cpu:1"), 3)
