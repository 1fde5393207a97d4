"""What the machine is used for while training takes place: processor time, swapping, memory."""

import contextlib
import json
import os
import re
import resource
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tfbench.machine.facts import Usage
from tfbench.machine.kernel import control_group_folders, read_text

if TYPE_CHECKING:
    import psutil

_PAGE_BYTES = 4096  # that psutil takes the kernel's counters of pages for
_OWN_STATUS = Path("/proc/self/status")
_RESET_PEAK = "5"  # what /proc/PID/clear_refs takes for it (Linux 4.0 and later)


class Counters(NamedTuple):
    """Counters that only grow; `Usage` has the same names for what they grew by.

    Times are of all threads.
    """

    seconds: float
    own_cpu_seconds: float
    busy_cpu_seconds: float
    stolen_cpu_seconds: float
    throttled_seconds: float | None
    swapped_pages: int
    major_page_faults: int

    def other_share(self, before: "Counters") -> float:
        """Returns other processes' share of the machine's CPU time since `before`."""
        own = self.own_cpu_seconds - before.own_cpu_seconds
        others = self.busy_cpu_seconds - before.busy_cpu_seconds - own
        # Counters of the machine and of the process are not read at the same instant.
        return max(0.0, others) / (self.seconds - before.seconds) / (os.cpu_count() or 1)


class UsageMeter:
    """Reads the system's counters before and after the training; costs nothing in between.

    Args:
        read_gpu_peaks: Returns the most bytes in use on each GPU since just now.
        memory_before_model: Bytes, as of `read_memory` before the model was built; None: not known.
        fellows: Other processes of the same run, whose processor time and memory are its own.
    """

    def __init__(
        self,
        read_gpu_peaks: Callable[[], tuple[int, ...]] = tuple,
        *,
        memory_before_model: int | None = None,
        fellows: "Sequence[psutil.Process]" = (),
    ) -> None:
        self._read_gpu_peaks = read_gpu_peaks
        self._fellows = fellows
        self._memory_before_model = memory_before_model
        # Where it cannot be reset, the peak is that of the whole process.
        with contextlib.suppress(OSError):
            Path("/proc/self/clear_refs").write_text(_RESET_PEAK, encoding="ascii")
        self._before = read_counters(fellows)

    def finish(self) -> Usage:
        """Returns what was used since this meter was made."""
        after = read_counters(self._fellows)
        grown: dict[str, Any] = {}
        for name, before, now in zip(Counters._fields, self._before, after, strict=True):
            grown[name] = None if before is None or now is None else now - before
        peaks = [_read_peak_memory(fellow.pid) for fellow in self._fellows]
        return Usage(
            **grown,
            num_logical_cores=os.cpu_count() or 1,
            load_average=os.getloadavg()[0],
            peak_memory_bytes=_read_peak_memory("self") + sum(peaks),
            memory_before_model_bytes=self._memory_before_model,
            peak_gpu_memory_bytes=self._read_gpu_peaks(),
        )


def read_counters(fellows: "Sequence[psutil.Process]" = ()) -> Counters:
    """Reads the counters of the machine, and of this process with others of its run."""
    import psutil

    own = resource.getrusage(resource.RUSAGE_SELF)
    own_cpu = own.ru_utime + own.ru_stime
    for fellow in fellows:
        with contextlib.suppress(psutil.Error):
            times = fellow.cpu_times()
            own_cpu += times.user + times.system
    swapped = psutil.swap_memory()
    machine = psutil.cpu_times()  # of all processors; time of guests is in "user" already
    return Counters(
        seconds=time.perf_counter(),
        own_cpu_seconds=own_cpu,
        busy_cpu_seconds=machine.user
        + machine.nice
        + machine.system
        + machine.irq
        + machine.softirq,
        stolen_cpu_seconds=machine.steal,
        throttled_seconds=read_throttled_seconds(Path("/")),
        swapped_pages=(swapped.sin + swapped.sout) // _PAGE_BYTES,
        major_page_faults=own.ru_majflt,
    )


def read_throttled_seconds(root: Path) -> float | None:
    """Returns how long a processor quota of its control groups has held this process back.

    None stands for not known. Every group counts for itself: one without a quota has 0, also within
    one that has a quota.

    Args:
        root: Where /proc and /sys lie.
    """
    groups = "\n".join(read_text(folder / "cpu.stat") for folder in control_group_folders(root))
    times = re.findall(r"^throttled_usec (\d+)$", groups, re.MULTILINE)
    return max((int(microseconds) * 1e-6 for microseconds in times), default=None)


def count_other_workers(run: str) -> int:
    """Counts the measuring processes of other runs on this machine.

    Workers that train together belong to one run.

    Args:
        run: Its id, or where its workers meet.
    """
    return sum(other != run for _, other in _list_workers())


def find_peer_processes(run: str) -> "list[psutil.Process]":
    """Returns the other workers of a run on this machine, which train together."""
    return [process for process, other in _list_workers() if other == run]


def _list_workers() -> "Iterator[tuple[psutil.Process, str | None]]":
    """Yields the measuring processes on this machine but this one, with the run that each is of."""
    import psutil

    for process in psutil.process_iter(["pid", "cmdline"]):
        command = process.info["cmdline"] or []
        if process.info["pid"] != os.getpid() and command[1:3] == ["-m", "tfbench.measure"]:
            yield process, _run_of(command)


def _run_of(command: list[str]) -> str | None:
    """Returns the run of a measuring process: its id, or where its workers meet; None: unknown."""
    try:
        request = json.loads(Path(command[3]).read_text(encoding="utf-8"))["request"]
        rank = request.get("worker_rank")
        return str(rank["addresses"][0] if rank else request["run_id"])
    except (OSError, ValueError, LookupError, TypeError):
        return None


def read_memory() -> int:
    """Returns what this process holds in memory, without files, in bytes."""
    import psutil

    return int(psutil.Process().memory_info().rss) - _file_bytes(read_text(_OWN_STATUS))


def _read_peak_memory(pid: int | str) -> int:
    """Returns the most that a process held since its reset, without files; 0 if it ended.

    Files are mostly the libraries' code. A process has those parts of them that it used itself: a
    fork of a process that imported them has few, one that imported them anew has all.
    """
    status = read_text(Path(f"/proc/{pid}/status"))
    if match := re.search(r"^VmHWM:\s+(\d+) kB$", status, re.MULTILINE):
        return int(match[1]) * 1024 - _file_bytes(status)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 if pid == "self" else 0


def _file_bytes(status: str) -> int:
    """Returns how much of the files that a process maps is in its memory; 0: not known.

    `status` is the kernel's file of this name.
    """
    match = re.search(r"^RssFile:\s+(\d+) kB$", status, re.MULTILINE)
    return int(match[1]) * 1024 if match else 0
