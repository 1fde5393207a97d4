"""The measuring process: `python -m tfbench.measure REQUEST.json`. Journal out, nothing printed.

Its standard input is a pipe from the parent: a byte means "begin", its end means that the parent is
gone.
"""

import contextlib
import json
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

from tfbench.errors import OUT_OF_MEMORY, ExitCode, MeasurementError, TfbenchError
from tfbench.machine.usage import shown_as_measuring
from tfbench.measure.breakdown import Breakdown
from tfbench.store.journal import Journal, plain_fields, read_request
from tfbench.wording import without_secrets

_GRACE_SECONDS = 1.0  # for a last record to be written before the process ends


class _Stopped(BaseException):
    """The parent asked this process to stop."""


def main() -> None:
    """Runs the request named on the command line, and ends the process."""
    record = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    journal = Journal(Path(record["journal"]))
    breakdown = Breakdown(record.get("launched_ns") or time.perf_counter_ns())
    # No exception until all is ready: code that is being imported may swallow an exception.
    signal.signal(
        signal.SIGTERM,
        lambda *_: threading.Thread(target=_leave, args=(journal, breakdown)).start(),
    )
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what Ctrl-C means
    _go_first_when_memory_runs_out()
    start = threading.Event()
    threading.Thread(target=_follow_parent, args=(journal, start), daemon=True).start()
    exit_code = _run(record, journal, breakdown, start)
    # Not sys.exit: TensorFlow's own teardown can crash after failed collectives, and there is
    # nothing left to do.
    sys.stderr.flush()
    os._exit(exit_code)


def _run(
    record: dict[str, Any], journal: Journal, breakdown: Breakdown, start: threading.Event
) -> int:
    is_ready = False

    def wait_for_start() -> None:
        nonlocal is_ready
        is_ready = True
        signal.signal(signal.SIGTERM, _stop)
        start.wait()

    try:
        journal.append("worker", pid=os.getpid())
        request = read_request(record)
        with shown_as_measuring(request.common_name):
            if request.profile:
                from tfbench.measure.step_timing import run_profile as measure
            else:
                from tfbench.measure.benchmark import run_benchmark as measure
            measure(request, journal, breakdown, wait_for_start)
    except _Stopped:
        _record_breakdown(journal, breakdown)
        return ExitCode.INTERRUPTED
    except BaseException as error:
        _record_breakdown(journal, breakdown)
        expected = error if isinstance(error, TfbenchError) else _find_lost_worker(error)
        if expected is None:
            exit_code = int(ExitCode.RUN_FAILED)
            return _record_failure(journal, "failed", error, exit_code, with_traceback=True)
        kind = "failed" if is_ready else "rejected"
        exit_code = int(expected.exit_code)
        return _record_failure(journal, kind, expected, exit_code, with_traceback=False)
    else:
        return ExitCode.DONE
    finally:
        with contextlib.suppress(OSError):
            journal.close()


def _record_breakdown(journal: Journal, breakdown: Breakdown) -> None:
    with contextlib.suppress(OSError):
        journal.append("breakdown", **plain_fields(breakdown=breakdown.record()))


def _record_failure(
    journal: Journal, kind: str, error: BaseException, exit_code: int, *, with_traceback: bool
) -> int:
    name = type(error).__name__
    text = str(error)
    details = ""
    if with_traceback:
        details = without_secrets("".join(traceback.format_exception(error)))
        if exhausted := _find_exhaustion(error):
            name = OUT_OF_MEMORY
            text = exhausted
    message = without_secrets(text.strip()) or type(error).__name__
    is_bug = with_traceback and not isinstance(error, OSError)  # a full or failing disk is no bug
    # The parent keeps it for the case that the journal cannot be written.
    print(details if is_bug else f"{name}: {message}", file=sys.stderr)  # noqa: T201
    with contextlib.suppress(OSError):
        journal.append(
            kind,
            error={"type": name, "message": message, "traceback": details},
            exit_code=exit_code,
        )
    return exit_code


def _find_lost_worker(error: BaseException) -> MeasurementError | None:
    """Returns an error about another worker that is lost, or None for an error of another kind."""
    from tfbench import backends

    backend = backends.loaded()
    if backend is None or not isinstance(error, Exception):
        return None
    reason = backend.explain_lost_worker(error)
    if not reason:
        return None
    return MeasurementError(
        f"another worker ended, answers no more, or has something else to do: {reason}. What it"
        " says of itself is in its own journal."
    )


def _find_exhaustion(error: BaseException | None) -> str | None:
    """Returns what an error, or one before it, says about memory that ran out.

    None for errors of another kind. On JAX, a step gives its weights away; where it fails, Keras
    misses them next, and raises an error about that.
    """
    from tfbench import backends

    backend = backends.loaded()
    while backend and error is not None:
        reason = backend.explain_out_of_memory(error) if isinstance(error, Exception) else None
        if reason:
            return reason
        error = error.__cause__ or error.__context__
    return None


def _stop(signal_number: int, frame: FrameType | None) -> None:
    raise _Stopped


def _follow_parent(journal: Journal, start: threading.Event) -> None:
    """Waits for "begin", then for the end of the pipe; costs no time in between."""
    if os.read(0, 1):
        start.set()
        while os.read(0, 1):
            pass
    with _end():
        journal.append("orphaned")
        journal.release_reserve()


def _leave(journal: Journal, breakdown: Breakdown) -> None:
    """Ends a process that was asked to stop before it was ready."""
    with _end():
        _record_breakdown(journal, breakdown)


@contextlib.contextmanager
def _end() -> Iterator[None]:
    """Ends the process after the block, whatever its main thread is at."""
    # The main thread may hold the journal's lock in a write that hangs; the process must end all
    # the same.
    threading.Timer(_GRACE_SECONDS, os._exit, args=(int(ExitCode.INTERRUPTED),)).start()
    with contextlib.suppress(OSError):
        yield
    os._exit(int(ExitCode.INTERRUPTED))


def _go_first_when_memory_runs_out() -> None:
    """Makes the kernel kill this process first when memory is exhausted.

    It spares the parent and the user's other processes.
    """
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")


if __name__ == "__main__":
    main()
