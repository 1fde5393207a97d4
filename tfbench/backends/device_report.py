"""What a framework sees of this machine's devices.

`python -m tfbench.backends.device_report` prints what the backend that KERAS_BACKEND names finds,
as one line of JSON. It is a process of its own, since a framework takes hold of the GPUs that it
looks at, and writes to stderr what nobody asked for.
"""

import json

from tfbench import backends
from tfbench.schema import to_plain

if __name__ == "__main__":
    import sys

    sys.stdout.write(json.dumps(to_plain(backends.current().report_devices())) + "\n")
