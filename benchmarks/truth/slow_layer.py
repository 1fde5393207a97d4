"""Holds a profile against a planted layer whose gradient naps.

    python benchmarks/truth/slow_layer.py

A network has a layer that gives back what it is given, and whose gradient naps for a known time and
logs its naps. The profile must name the backward pass of that layer as the bottleneck, with a time
within 5 % of the logged naps. Its phase must not lie below them, interval included, and the trace
must name operations for nearly all of it.
"""

import statistics
import sys
import tempfile
from pathlib import Path

from naps import call, print_head, print_row
from planted import read_naps

NAPS_SECONDS = (0.02, 0.1)
LARGEST_ERROR = 0.05
LEAST_NAMED = 0.9  # of the phase of the planted layer
HEAD = (
    "planted, ms",
    "naps by their log, ms",
    "bottleneck",
    "its time, ms",
    "difference",
    "phase, ms",
    "named",
    "holds",
)


def check(folder: Path, nap_seconds: float) -> bool:
    """Prints a row of the table; says whether the profile is right."""
    log = folder / f"naps-{nap_seconds}"
    settings = {"model.log": log, "model.backward_nap_seconds": nap_seconds}
    document = call(folder, "profile", "--seconds", 8, **settings)
    step = document["profile"]["step"]
    napped = statistics.fmean(end - start for start, end in read_naps(log))
    found = step["bottleneck"]
    phases = {phase["name"]: phase for phase in step["phases"]}
    named = {check["phase"]: check["named_share"] for check in step["checks"]}
    phase = phases["backward"]
    error = found["seconds"] / napped - 1
    holds = (
        found["name"] == "backward of slow"
        and abs(error) <= LARGEST_ERROR
        and phase["high"] >= napped
        and named["backward"] >= LEAST_NAMED
    )
    print_row(
        f"{nap_seconds * 1e3:.3f}",
        f"{napped * 1e3:.3f}",
        found["name"],
        f"{found['seconds'] * 1e3:.3f}",
        f"{error:+.2%}",
        f"{phase['low'] * 1e3:.3f} to {phase['high'] * 1e3:.3f}",
        f"{named['backward']:.1%}",
        "yes" if holds else "no",
    )
    return holds


def main() -> None:
    """Prints a Markdown table; ends with 1 if a profile is wrong."""
    print_head(*HEAD)
    with tempfile.TemporaryDirectory() as name:
        found = [check(Path(name), seconds) for seconds in NAPS_SECONDS]
    sys.exit(not all(found))


if __name__ == "__main__":
    main()
