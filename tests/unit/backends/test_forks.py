"""What a prepared process has before it forks.

The framework, and nothing that a fork would lose or two would share.
"""

from gpu_machine import NAME, probe


def test_no_device_is_in_use_before_a_fork_and_all_that_takes_long_to_import_is_there() -> None:
    found = probe("prepare_to_fork")
    assert (found["said"], found["is_started"], found["gpu_files"]) == ("ready", False, [])
    assert {"keras", NAME, f"tfbench.backends.{NAME}.backend", "tfbench.worker.benchmark"} <= {
        *found["modules"]
    }
