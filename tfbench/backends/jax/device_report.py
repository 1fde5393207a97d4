"""What JAX sees of this machine's devices.

Run as `python -m tfbench.backends.jax.device_report`, it prints its findings as one line of JSON: a process of its own,
since a framework takes hold of the GPUs that it looks at.
"""

import json

from tfbench.machine.frameworks import Framework
from tfbench.schema import to_plain


def collect_facts() -> Framework:
    """Asks JAX; takes the seconds that importing it takes."""
    import jax

    from tfbench.backends.jax.environment import find_cuda
    from tfbench.backends.jax.placement import list_gpus

    return Framework(name="jax", version=jax.__version__, cuda=find_cuda(), gpus=list_gpus())


if __name__ == "__main__":
    import sys

    sys.stdout.write(json.dumps(to_plain(collect_facts())) + "\n")
