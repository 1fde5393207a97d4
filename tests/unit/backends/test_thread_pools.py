"""How many threads TensorFlow starts for its devices: counted, and held against what is expected."""

import json
import os

import pytest

from runs import facts_of
from tfbench.backends.tensorflow.thread_pools import expect_threads
from tfbench.records.placement import ThreadPools

PROGRAM = """
import json, sys
import tensorflow as tf
from tfbench.backends.tensorflow import placement
from tfbench.recipe.sections import DistributionConfig, TrainingConfig
from tfbench.schema import to_plain

devices, intra = json.loads(sys.argv[1])
tf.config.threading.set_intra_op_parallelism_threads(intra)
tf.config.threading.set_inter_op_parallelism_threads(3)
config = DistributionConfig(strategy="mirrored", devices=tuple(f"cpu:{index}" for index in range(devices)))
resolved = placement.resolve(config, TrainingConfig(global_batch_size=devices, epochs=1))
print("FACTS" + json.dumps(to_plain(resolved.placement.threads)))
"""


def seen(devices: int, intra_op_threads: int) -> ThreadPools:
    return ThreadPools(**facts_of(PROGRAM, json.dumps([devices, intra_op_threads])))


@pytest.mark.slow
@pytest.mark.parametrize(("devices", "intra_op_threads"), [(1, 0), (5, 4)])
def test_all_logical_devices_of_a_process_share_one_pool(devices: int, intra_op_threads: int) -> None:
    threads = seen(devices, intra_op_threads)
    expected = intra_op_threads or len(os.sched_getaffinity(0))
    assert threads == ThreadPools(
        num_devices=devices,
        intra_op_threads=expected,
        inter_op_threads=3,
        expected_intra_op_threads=expected,
    )
    assert threads.is_shared


def test_a_pool_has_what_was_asked_for_else_what_the_environment_says_else_a_thread_a_core() -> None:
    cores = len(os.sched_getaffinity(0))
    assert expect_threads(3, {"TF_NUM_INTRAOP_THREADS": "5"}) == 3
    assert expect_threads(0, {"TF_NUM_INTRAOP_THREADS": "5"}) == 5
    assert expect_threads(0, {"TF_NUM_INTRAOP_THREADS": "many"}) == expect_threads(0, {}) == cores
