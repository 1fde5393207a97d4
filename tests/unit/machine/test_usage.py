import contextlib
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from runs import wait_until
from tfbench.machine import usage
from tfbench.machine.usage import UsageMeter


def test_workers_of_one_run_are_no_other_processes_and_their_memory_adds_up() -> None:
    times = iter((SimpleNamespace(user=1.0, system=0.5), SimpleNamespace(user=100.0, system=1.5)))
    peer = SimpleNamespace(pid=os.getpid(), cpu_times=lambda: next(times))
    alone = UsageMeter()
    together = UsageMeter(peers=[peer])
    one = alone.finish()
    both = together.finish()
    assert both.own_cpu_seconds >= 100.0 > one.own_cpu_seconds
    assert both.peak_memory_bytes >= 2 * one.peak_memory_bytes
    gone = SimpleNamespace(pid=2**22 + 1, cpu_times=lambda: psutil.Process(2**22 + 1).cpu_times())
    assert UsageMeter(peers=[gone]).finish().peak_memory_bytes < both.peak_memory_bytes


@contextlib.contextmanager
def measuring(run: str, mark: str) -> "Iterator[subprocess.Popen[bytes]]":
    """Starts a process that is shown as measuring, and a fork of it that outlives it."""
    code = f"""
import os, signal
from tfbench.machine import usage
usage._MARK = {mark!r}
with usage.shown_as_measuring({run!r}):
    fork = os.fork()
    if fork:
        print(fork, flush=True)
    signal.pause()
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
        fork = int(process.stdout.readline())
        try:
            yield process
        finally:
            os.kill(fork, signal.SIGKILL)
            process.kill()


def test_measuring_processes_are_told_apart_by_their_run_until_they_are_killed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mark = f"test-{os.getpid()}"  # others may measure on this machine now
    monkeypatch.setattr(usage, "_MARK", mark)
    meeting = "a-very-long-name-of-a-machine." * 10 + ":12345"
    with (
        measuring(meeting, mark) as peer,
        measuring("b", mark) as other,
        usage.shown_as_measuring(meeting),
    ):
        assert [process.pid for process in usage.find_peer_processes(meeting)] == [peer.pid]
        assert usage.count_other_workers(meeting) == 1
        assert [process.pid for process in usage.find_peer_processes("b")] == [other.pid]
        peer.kill()
        peer.wait()
        assert usage.find_peer_processes(meeting) == []
        assert usage.count_other_workers("b") == 1  # this process; the fork of the peer is none
    wait_until(lambda: usage.count_other_workers("b") == 0, "the end of both")


def test_a_process_of_another_container_counts_but_is_no_peer_by_its_number(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    name = f"00: 0002 @tfbench-measure/1/{os.getppid()}/{usage._digest('a')}\n"
    sockets = tmp_path / "unix"
    sockets.write_bytes(b"Num RefCount Path\n00: 0002 @\xff\n" + name.encode())
    monkeypatch.setattr(usage, "_SOCKETS", sockets)
    assert (usage.find_peer_processes("a"), usage.count_other_workers("b")) == ([], 1)


@pytest.mark.parametrize(("num_in", "num_out"), [(3, 0), (0, 4), (3, 4)])
def test_pages_that_leave_memory_count_as_those_that_come_back(
    monkeypatch: pytest.MonkeyPatch, num_in: int, num_out: int
) -> None:
    page = resource.getpagesize()
    readings = iter([(10, 20), (10 + num_in, 20 + num_out)])

    def swap_memory() -> SimpleNamespace:
        swapped_in, swapped_out = next(readings)
        return SimpleNamespace(sin=swapped_in * page, sout=swapped_out * page)

    monkeypatch.setattr(psutil, "swap_memory", swap_memory)
    assert UsageMeter().finish().swapped_pages == num_in + num_out


@pytest.mark.parametrize(
    "status",
    ["VmPeak:\t 9 kB\nVmHWM:\t    2048 kB\n", "VmHWM:\t 2148 kB\nRssFile:\t  100 kB\n", ""],
)
def test_what_the_system_calls_a_kilobyte_has_1024_bytes(
    monkeypatch: pytest.MonkeyPatch, status: str
) -> None:
    of_process = SimpleNamespace(ru_maxrss=2048)
    system = SimpleNamespace(RUSAGE_SELF=0, getrusage=lambda who: of_process)
    monkeypatch.setattr(usage, "read_text", lambda path: status)
    monkeypatch.setattr(usage, "resource", system)
    assert usage._read_peak_memory("self") == 2 * 2**20


def test_the_peak_of_memory_is_of_the_time_measured_only() -> None:
    code = """
import numpy as np
from tfbench.machine import usage
before = np.ones(256 * 2**20, np.uint8)
held_before = usage.read_memory()
del before
meter = usage.UsageMeter()
assert meter.finish().peak_memory_bytes < held_before
within = np.ones(256 * 2**20, np.uint8)
held = usage.read_memory()
del within
assert meter.finish().peak_memory_bytes > held - 2**24  # the system's counter of the moment is not exact
"""
    subprocess.run(
        [sys.executable, "-c", code], check=True
    )  # threads of other tests may move the peak


def test_memory_is_the_same_in_a_fork_and_without_the_files_that_it_maps(tmp_path: Path) -> None:
    mapped = tmp_path / "file"
    mapped.write_bytes(bytes(64 * 2**20))
    code = f"""
import mmap, os, sys
from tfbench.machine import usage
held = bytearray(os.urandom(2**20) * 128)
before = usage.read_memory()
file = open({str(mapped)!r}, "rb")
pages = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
num_zeros = sum(pages[place] for place in range(0, len(pages), 4096))
meter = usage.UsageMeter()
peaks = [meter.finish().peak_memory_bytes]
reading, writing = os.pipe()
if os.fork() == 0:
    os.write(writing, str(usage.UsageMeter().finish().peak_memory_bytes).encode())
    os._exit(0)
peaks.append(int(os.read(reading, 99)))
for peak in peaks:
    assert abs(peak - before) < 2**24, (before, peaks)
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_share_of_others_is_what_is_busy_beyond_this_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(usage.os, "cpu_count", lambda: 4)
    before = usage.Counters(10.0, 5.0, 100.0, 0.0, None, 0, 0)
    # Two seconds of four cores are eight: five of them busy, of which this process took three.
    assert usage.Counters(12.0, 8.0, 105.0, 0.0, None, 0, 0).other_share(before) == 0.25
    assert usage.Counters(12.0, 8.0, 102.9, 0.0, None, 0, 0).other_share(before) == 0.0
