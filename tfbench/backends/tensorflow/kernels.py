"""Products and additions that show how fast TensorFlow's devices are, with the threads of the run."""

from collections.abc import Sequence
from typing import Any

from tfbench.backends.peak import Run, Sizes


def build_products(devices: Sequence[str], sizes: Sizes, dtype: str, chain: int) -> Run:
    """Returns what multiplies matrices on all devices; see `Kernels`."""
    import tensorflow as tf

    num_rows, common, num_columns = sizes

    def draw(rows: int, columns: int) -> Any:
        # With this variance a product's values are as large as its factors'.
        return tf.cast(tf.random.stateless_normal([rows, columns], [0, rows]) * rows**-0.5, dtype)

    factors = []
    for device in devices:
        with tf.device(device):
            factors.append((draw(num_rows, common), draw(common, num_columns), draw(num_columns, common)))

    @tf.function(jit_compile=False)  # type: ignore[untyped-decorator]  # TensorFlow has no types
    def multiply() -> Any:
        corners = []
        for device, (product, there, back) in zip(devices, factors, strict=True):
            with tf.device(device):
                for index in range(chain):
                    product = tf.linalg.matmul(product, back if index % 2 else there)
                corners.append(product[0, 0])
        return corners

    def run(num_calls: int) -> None:
        corners = []
        for _ in range(num_calls):  # a GPU is given the next ones while it computes
            corners = multiply()
        for corner in corners:
            corner.numpy()  # waits for the device, which computes in order

    return run


def build_additions(devices: Sequence[str], size: int, chain: int) -> Run:
    """Returns what adds one large array to another, in place, on all devices; see `Kernels`."""
    import tensorflow as tf

    pairs = []
    for device in devices:
        with tf.device(device):
            pairs.append((tf.Variable(tf.ones([size])), tf.Variable(tf.ones([size]))))

    @tf.function(jit_compile=False)  # type: ignore[untyped-decorator]  # TensorFlow has no types
    def add() -> None:
        for device, (total, summand) in zip(devices, pairs, strict=True):
            with tf.device(device):
                for _ in range(chain):
                    total.assign_add(summand)

    def run(num_calls: int) -> None:
        for _ in range(num_calls):
            add()
        tf.test.experimental.sync_devices()

    return run
