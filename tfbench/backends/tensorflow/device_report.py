"""What TensorFlow sees of this machine's devices, and why it does not see a GPU that is there.

Run as `python -m tfbench.backends.tensorflow.device_report`, it prints its findings as one line of JSON: a
process of its own, since TensorFlow takes hold of every GPU that it looks at, and writes to stderr what nobody asked
for.
"""

import json
import os
from pathlib import Path

from tfbench.machine.devices import DeviceFacts, read_system
from tfbench.machine.gpus import match_gpus
from tfbench.machine.lean_import import NOT_NEEDED, import_without
from tfbench.schema import to_plain


def collect_facts() -> DeviceFacts:
    """Asks the system and TensorFlow; takes the seconds that importing TensorFlow takes."""
    system = read_system(Path("/"), os.environ)
    import_without("tensorflow", NOT_NEEDED)
    import tensorflow as tf

    build_info = tf.sysconfig.get_build_info()
    details = [tf.config.experimental.get_device_details(gpu) for gpu in tf.config.list_physical_devices("GPU")]
    return DeviceFacts(
        tensorflow=tf.__version__,
        logical_cores=os.cpu_count() or 1,
        gpus=match_gpus([detail.get("device_name", "GPU") for detail in details], system["driver"]),
        built_with_cuda=tf.test.is_built_with_cuda(),
        cuda=build_info.get("cuda_version"),
        cudnn=build_info.get("cudnn_version"),
        **system,
    )


if __name__ == "__main__":
    import sys

    sys.stdout.write(json.dumps(to_plain(collect_facts())) + "\n")
