import signal

import pytest

from builders import build_result
from tfbench.records.run import RunExit
from tfbench.runs.endings import deduce_exit, describe_exit

ERROR = {"type": "ResourceExhaustedError", "message": "no memory left", "traceback": ""}


def end(returncode: int, *, stopped_by: str = "", **result: object) -> RunExit:
    values = {"stage": "training", "exit": None, "error": None} | result
    return describe_exit(
        build_result(**values),
        returncode,
        stopped_by=stopped_by,
        stderr_tail="last words",
    )


def test_a_run_whose_journal_says_finished_has_finished_however_its_process_ended() -> None:
    for returncode in (0, -signal.SIGABRT):
        assert end(returncode, stage="finished") == RunExit(status="FINISHED")


def test_a_stopped_run_names_the_signal() -> None:
    assert end(130, stopped_by="interrupted by SIGINT") == RunExit(status="KILLED", reason="interrupted by SIGINT")


def test_an_error_in_the_journal_is_the_reason() -> None:
    assert end(1, error=ERROR | {"type": "InternalError"}) == RunExit(
        status="FAILED", reason="InternalError: no memory left"
    )


def test_a_device_without_memory_left_is_out_of_memory() -> None:
    # Of TensorFlow, whose allocators raise it; a table says so of its cell.
    assert end(1, error=ERROR) == RunExit(status="FAILED", reason="out of memory: no memory left")


@pytest.mark.parametrize(
    ("returncode", "status", "reason"),
    [
        (
            -signal.SIGKILL,
            "KILLED",
            "the measuring process was killed by SIGKILL; the system does this when memory runs out",
        ),
        (-signal.SIGTERM, "KILLED", "the measuring process was killed by SIGTERM"),
        (-signal.SIGSEGV, "FAILED", "the measuring process crashed with SIGSEGV. last words"),
        (7, "FAILED", "the measuring process ended with exit code 7. last words"),
    ],
)
def test_a_process_that_left_no_word_is_described_by_its_exit(returncode: int, status: str, reason: str) -> None:
    assert end(returncode) == RunExit(status=status, reason=reason)


def test_a_worker_s_own_error_counts_less_than_why_it_was_stopped_and_its_success_counts_more() -> None:
    assert end(1, error=ERROR, stopped_by="timed out").reason == "timed out"
    assert end(0, stage="finished", stopped_by="timed out") == RunExit(status="FINISHED")


@pytest.mark.parametrize(
    ("told", "status", "reason"),
    [
        ({"stage": "finished"}, "FINISHED", ""),
        ({"stage": "finished", "stop_reason": "error below 1 %"}, "FINISHED", "error below 1 %"),
        ({"error": ERROR}, "FAILED", "out of memory: no memory left"),
        (
            {},
            "KILLED",
            "the process that tracked it and the worker ended without a word: killed, or the machine stopped",
        ),
    ],
)
def test_an_end_that_nobody_wrote_down_is_told_from_the_journal(
    told: dict[str, object], status: str, reason: str
) -> None:
    values = {"stage": "training", "exit": None, "error": None} | told
    assert deduce_exit(build_result(**values)) == RunExit(status=status, reason=reason)
