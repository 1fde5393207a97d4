"""Whether sums over several replicas count each of them once, checked before each run's training.

TensorFlow adds the replicas' gradients up, and some of its ways to do so silently leave replicas
out.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tfbench.models.structure.foreign_model import has_own_step
from tfbench.runs.placement_record import Placement, ReplicaCheck

_SAFE = "reduction_to_one_device"
_OWN_STEP = (
    "the network's own train_step may not divide its loss once by the replicas"
    " (tf.distribute.get_strategy().num_replicas_in_sync), as self.compute_loss and Keras's loss"
    " objects do"
)


def check_replicas(model: Any, placement: Placement) -> ReplicaCheck:
    """Sums up numbers that tell the replicas apart, in tensors of the sizes of a model's gradients.

    Args:
        model: Compiled under a strategy of several replicas.
        placement: Names the replicas.
    """
    sizes = [math.prod(weight.shape) for weight in model.trainable_variables]
    fault = ""
    reason = _OWN_STEP if has_own_step(model) else ""
    try:
        # A model may have no variables before its first step.
        counts = count_in_sums(model.distribute_strategy, sizes or [1])
        fault = _describe_wrong(counts, placement)
    except tf.errors.ResourceExhaustedError:
        # The training may need less: an embedding's gradient has a batch's rows.
        reason = "there was not enough memory for sums of the gradients' sizes"
    return ReplicaCheck(num_replicas=placement.num_replicas, reason=reason, fault=fault)


def count_in_sums(strategy: Any, sizes: Sequence[int]) -> list[set[float]]:
    """Returns how often each replica is counted in sums that are made as Keras's optimizers do.

    Args:
        strategy: Of several replicas.
        sizes: Elements of each tensor that is summed up; all at once, as the gradients of a step
            are.
    """
    num_replicas = strategy.num_replicas_in_sync
    sizes = [max(size, num_replicas) for size in sizes]

    def sum_up() -> Any:
        def give() -> Any:
            context = tf.distribute.get_replica_context()
            # The number of the replica that is being traced.
            number = int(tf.get_static_value(context.replica_id_in_sync_group))
            ones = [tf.cast(tf.range(size) % num_replicas == number, tf.float32) for size in sizes]
            return context.all_reduce(tf.distribute.ReduceOp.SUM, ones)

        return strategy.run(give)

    counts: list[set[float]] = [set() for _ in range(num_replicas)]
    for total in tf.function(sum_up, autograph=False)():
        for copy in strategy.experimental_local_results(total):
            values = copy.numpy()
            for replica in range(num_replicas):
                counts[replica].update(np.unique(values[replica::num_replicas]).tolist())
    return counts


def _describe_wrong(counts: Sequence[set[float]], placement: Placement) -> str:
    """Returns which replicas are not counted once, and what to do; "": all are."""
    names: Sequence[str] = placement.devices
    remedy = f"another number of replicas, or another version of TensorFlow ({tf.__version__})"
    if placement.num_workers > 1:
        names = [f"worker {index}" for index in range(placement.num_workers)]
    elif placement.cross_device_ops != _SAFE:
        remedy = f"--set distribution.cross_device_ops={_SAFE}"
    wrong = []
    for name, numbers in zip(names, counts, strict=True):
        if numbers != {1.0}:
            texts = [f"{number:g}" for number in sorted(numbers)]
            wrong.append(f"{name} {' or '.join(texts)} times")
    if not wrong:
        return ""
    return (
        f"its sums over {len(counts)} replicas count {', '.join(wrong)} instead of once. Use"
        f" {remedy}"
    )
