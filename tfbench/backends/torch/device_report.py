"""What PyTorch sees of this machine's devices.

Run as `python -m tfbench.backends.torch.device_report`, it prints its findings as one line of JSON: a process of its
own, since a framework takes hold of the GPUs that it looks at.
"""

import json

from tfbench.machine.frameworks import Framework
from tfbench.schema import to_plain


def collect_facts() -> Framework:
    """Asks PyTorch; takes the seconds that importing it takes."""
    import torch

    from tfbench.backends.torch.placement import list_gpus

    return Framework(name="torch", version=str(torch.__version__), cuda=torch.version.cuda, gpus=list_gpus())


if __name__ == "__main__":
    import sys

    sys.stdout.write(json.dumps(to_plain(collect_facts())) + "\n")
