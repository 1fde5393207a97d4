import signal

import pytest

from builders import build_result
from kinds import Fields
from tfbench.runs.record import RunExit
from tfbench.runs.status import describe_exit

ERROR = {"type": "ResourceExhaustedError", "message": "no memory left", "traceback": ""}
PROCESS = "the measuring process"


def end(returncode: int, *, stopped_by: str = "", **result: object) -> RunExit:
    values = {"stage": "training", "exit": None, "error": None} | result
    return describe_exit(
        build_result(**values), returncode, stopped_by=stopped_by, stderr_tail="last words"
    )


@pytest.mark.parametrize(
    ("returncode", "told", "status", "reason"),
    [
        # A journal that says "finished" is right however the process ended, and whatever it was
        # told.
        (-signal.SIGABRT, {"stage": "finished"}, "FINISHED", ""),
        (0, {"stage": "finished", "stopped_by": "timed out"}, "FINISHED", ""),
        # Why it was stopped counts more than an error of its own.
        (130, {"stopped_by": "interrupted by SIGINT"}, "KILLED", "interrupted by SIGINT"),
        (1, {"error": ERROR, "stopped_by": "timed out"}, "KILLED", "timed out"),
        (
            1,
            {"error": ERROR | {"type": "InternalError"}},
            "FAILED",
            "InternalError: no memory left",
        ),
        (
            1,
            {"error": ERROR},
            "FAILED",
            "out of memory: no memory left",
        ),  # as TensorFlow's allocators raise it
        # A process that left no word is described by its exit.
        (
            -signal.SIGKILL,
            {},
            "KILLED",
            f"{PROCESS} was killed by SIGKILL; the system does this when memory runs out",
        ),
        (-signal.SIGSEGV, {}, "FAILED", f"{PROCESS} crashed with SIGSEGV. last words"),
        (7, {}, "FAILED", f"{PROCESS} ended with exit code 7. last words"),
    ],
)
def test_how_a_run_ended_that_was_followed(
    returncode: int, told: Fields, status: str, reason: str
) -> None:
    assert end(returncode, **told) == RunExit(status=status, reason=reason)
