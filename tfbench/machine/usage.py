"""What the machine is used for while training takes place: processor time, swapping, memory."""

import contextlib
import hashlib
import os
import re
import resource
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tfbench.machine.facts import Usage
from tfbench.machine.kernel import read_control_groups, read_text

if TYPE_CHECKING:
    import psutil

_PAGE_BYTES = 4096  # that psutil takes the kernel's counters of pages for
_OWN_STATUS = Path("/proc/self/status")
_SOCKETS = Path("/proc/net/unix")
_MARK = "tfbench-measure"  # begins the names of the sockets of measuring processes
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
        peers: Other processes of the same run, whose processor time and memory are its own.
    """

    def __init__(
        self,
        read_gpu_peaks: Callable[[], tuple[int, ...]] = tuple,
        *,
        memory_before_model: int | None = None,
        peers: "Sequence[psutil.Process]" = (),
    ) -> None:
        self._read_gpu_peaks = read_gpu_peaks
        self._peers = peers
        self._memory_before_model = memory_before_model
        # Where it cannot be reset, the peak is that of the whole process.
        with contextlib.suppress(OSError):
            Path("/proc/self/clear_refs").write_text(_RESET_PEAK, encoding="ascii")
        self._before = read_counters(peers)

    def finish(self) -> Usage:
        """Returns what was used since this meter was made."""
        after = read_counters(self._peers)
        grown: dict[str, Any] = {}
        for name, before, now in zip(Counters._fields, self._before, after, strict=True):
            grown[name] = None if before is None or now is None else now - before
        peaks = [_read_peak_memory(peer.pid) for peer in self._peers]
        return Usage(
            **grown,
            num_logical_cores=os.cpu_count() or 1,
            load_average=os.getloadavg()[0],
            peak_memory_bytes=_read_peak_memory("self") + sum(peaks),
            memory_before_model_bytes=self._memory_before_model,
            peak_gpu_memory_bytes=self._read_gpu_peaks(),
        )


def read_counters(peers: "Sequence[psutil.Process]" = ()) -> Counters:
    """Reads the counters of the machine, and of this process with others of its run."""
    import psutil

    own = resource.getrusage(resource.RUSAGE_SELF)
    own_cpu = own.ru_utime + own.ru_stime
    for peer in peers:
        with contextlib.suppress(psutil.Error):
            times = peer.cpu_times()
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
    groups = "\n".join(read_control_groups(root, "cpu.stat"))
    times = re.findall(r"^throttled_usec (\d+)$", groups, re.MULTILINE)
    return max((int(microseconds) * 1e-6 for microseconds in times), default=None)


@contextlib.contextmanager
def shown_as_measuring(run: str) -> Iterator[None]:
    """Shows other processes, in the block, that this one measures, and for which run.

    The name of a socket without a file stands for that. The kernel lists it in the same network
    namespace (a container has its own, unless it shares the host's), and removes it with the
    process, however that ends. Where a socket cannot have a name, the run goes on unseen.

    Args:
        run: What all workers of the run are known by.
    """
    name = f"\0{_MARK}/{_process_namespace()}/{os.getpid()}/{_digest(run)}"
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):
            mark = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
            mark.bind(name)
        yield


def count_other_workers(run: str) -> int:
    """Counts the measuring processes of other runs that this process can see.

    Workers that train together belong to one run.

    Args:
        run: As of `shown_as_measuring`.
    """
    return sum(worker.run != _digest(run) for worker in list_workers())


def find_peer_processes(run: str) -> "list[psutil.Process]":
    """Returns the other workers of a run on this machine, which train together."""
    import psutil

    peers = []
    for worker in list_workers():
        is_here = worker.namespace == _process_namespace()  # else its number means nothing
        if worker.run == _digest(run) and is_here and worker.pid != os.getpid():
            with contextlib.suppress(psutil.NoSuchProcess):
                peers.append(psutil.Process(worker.pid))
    return peers


class _Worker(NamedTuple):
    """A measuring process as the name of its socket tells it."""

    namespace: int  # that its number counts in: containers number processes anew
    pid: int
    run: str  # digest of what its workers are known by


def list_workers() -> list[_Worker]:
    """Returns the measuring processes of this network namespace, this one included.

    A fork keeps a socket's name alive: of this namespace of processes, those that ended are left
    out.
    """
    import psutil

    sockets = ""
    with contextlib.suppress(OSError):
        # Others may have names in any encoding.
        sockets = _SOCKETS.read_text(encoding="utf-8", errors="replace")
    names = re.findall(rf"@{_MARK}/(\d+)/(\d+)/(\w+)$", sockets, re.MULTILINE)
    workers = []
    for namespace, pid, run in sorted(set(names)):
        worker = _Worker(int(namespace), int(pid), run)
        is_here = worker.namespace == _process_namespace()
        if not is_here or psutil.pid_exists(worker.pid):
            workers.append(worker)
    return workers


def _process_namespace() -> int:
    return Path("/proc/self/ns/pid").stat().st_ino


def _digest(run: str) -> str:
    """Returns what stands for a run in the name of a socket, which has 107 bytes at most."""
    return hashlib.sha256(run.encode()).hexdigest()[:32]


def read_memory() -> int:
    """Returns what this process holds in memory, without files, in bytes."""
    import psutil

    files = _bytes_in(read_text(_OWN_STATUS), "RssFile")
    return int(psutil.Process().memory_info().rss) - files


def _read_peak_memory(pid: int | str) -> int:
    """Returns the most that a process held since its reset, without files; 0 if it ended.

    Files are mostly the libraries' code. A process has those parts of them that it used itself: a
    fork of a process that imported them has few, one that imported them anew has all.
    """
    status = read_text(Path(f"/proc/{pid}/status"))
    if peak := _bytes_in(status, "VmHWM"):
        return peak - _bytes_in(status, "RssFile")
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 if pid == "self" else 0


def _bytes_in(status: str, name: str) -> int:
    """Returns a size that the kernel's file `status` has; 0 where it has none of this name."""
    match = re.search(rf"^{name}:\s+(\d+) kB$", status, re.MULTILINE)
    return int(match[1]) * 1024 if match else 0
