"""The threads that TensorFlow starts for its devices on the processor, counted rather than assumed.

Operations are split over the threads of one pool of the process ("intra-op"), whatever logical CPU device they are
placed on, and started on those of another ("inter-op"): TensorFlow 2.21 starts as many threads for eight logical CPU
devices as for one. Were there a pool a device, eight replicas would have eight times the threads of one.
"""

import collections
import os
from collections.abc import Mapping
from pathlib import Path

from tfbench.records.placement import ThreadPools

_INTER_OP = "tf_Compute"  # of a thread of the pool that operations are started on; the others bear no name of their own
_INTRA_OP_VARIABLE = "TF_NUM_INTRAOP_THREADS"  # which TensorFlow reads where no number is set
_TASKS = Path("/proc/self/task")


def start_cpu_devices() -> ThreadPools:
    """Lets TensorFlow make its devices, which nothing may have done before, and counts the threads that it starts.

    Returns:
        What was started; no threads where devices had been made already.
    """
    import tensorflow as tf

    before = count_threads()
    devices = tf.config.list_logical_devices("CPU")
    started = count_threads() - before
    return ThreadPools(
        num_devices=len(devices),
        intra_op_threads=started.total() - started[_INTER_OP],
        inter_op_threads=started[_INTER_OP],
        expected_intra_op_threads=expect_threads(tf.config.threading.get_intra_op_parallelism_threads(), os.environ),
    )


def count_threads(tasks: Path = _TASKS) -> collections.Counter[str]:
    """Returns how many threads of each name this process has."""
    found: collections.Counter[str] = collections.Counter()
    for folder in tasks.iterdir():
        try:
            found[(folder / "comm").read_text(encoding="utf-8").strip()] += 1
        except OSError:
            continue  # it has ended meanwhile
    return found


def expect_threads(configured: int, environment: Mapping[str, str]) -> int:
    """Returns the threads of one pool: as many as was asked for, else one a core that this process may use."""
    variable = environment.get(_INTRA_OP_VARIABLE, "")
    return configured or (int(variable) if variable.isdecimal() else 0) or len(os.sched_getaffinity(0))
