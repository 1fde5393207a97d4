"""How batches get from the input pipeline to the devices: by one path for every strategy of one replica.

Left to themselves, `fit` under the default strategy takes a batch from the pipeline within the step, and under any
other has TensorFlow's MultiDeviceIterator fetch it, which on a processor takes half as long again, and on a GPU copies
ahead of the step what the default copies within it. A strategy would be called slow, or fast, for its feeding.
"""

from collections.abc import Sequence
from typing import Any

from tfbench.records.placement import Feed


def feed_alike(strategy: Any, names: Sequence[str]) -> Feed:
    """Makes a strategy hand batches over as every other strategy with as many replicas does.

    Keras asks the strategy to distribute each data set that it is given, in training, validation and prediction, so
    that this is the one place to choose.

    To be called outside of any strategy's scope.

    Args:
        strategy: Of the run; changed where it would not do so by itself.
        names: Its devices, as TensorFlow names them.

    Returns:
        "direct": the step takes batches from the pipeline. "prefetched": they are copied to the device ahead of the
        step. "split": the same for several replicas, each batch being cut into theirs.
    """
    import tensorflow as tf

    if len(names) > 1:
        return "split"  # what TensorFlow does, which has no other way to make a batch of several replicas
    if "CPU" in names[0]:
        strategy.experimental_distribute_dataset = _as_it_is
        return "direct"
    # The path of the replicas of "split": a buffer of one batch on the device, filled by a thread on the host. Every
    # strategy but the default takes it by itself, and in its scope lets no other strategy's batches be drawn. That of
    # several workers would cut a data set into their parts besides, in an order of its own.
    if strategy is tf.distribute.get_strategy() or isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
        one_device = tf.distribute.OneDeviceStrategy(names[0])
        strategy.experimental_distribute_dataset = one_device.experimental_distribute_dataset
    return "prefetched"


def _as_it_is(dataset: Any, options: Any = None) -> Any:
    return dataset
