"""The line below a benchmark's table: when and on what it was measured."""

import datetime
import os
import platform
from pathlib import Path


def describe_machine() -> str:
    """Returns date, processor, core count, Python version and one-minute load."""
    today = datetime.datetime.now(datetime.UTC)
    return (
        f"{today:%Y-%m-%d}, {_name_processor()}, {os.cpu_count()} cores, Python"
        f" {platform.python_version()}, load {os.getloadavg()[0]:.2f}"
    )


def _name_processor() -> str:
    """Returns its name as Linux has it, elsewhere what Python knows of it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.partition(": ")[2] for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
