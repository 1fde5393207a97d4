"""Holds a profile against a planted layer whose gradient naps.

    python benchmarks/truth/slow_layer.py

A network has a layer that gives back what it is given, and whose gradient naps for a known time and
logs its naps. The profile must name the backward pass of that layer as the bottleneck, with a time
within 5 % of the logged naps. Its phase must not lie below them, interval included, and the trace
must name operations for nearly all of it.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from naps import RECIPE, with_planted
from planted import read_naps

NAPS_SECONDS = (0.02, 0.1)
LARGEST_ERROR = 0.05
LEAST_NAMED = 0.9  # of the phase of the planted layer


def profile(folder: Path, nap_seconds: float) -> tuple[dict, list[float]]:
    """Returns a profile's JSON document, and the seconds of each nap by its log."""
    recipe = folder / "planted.toml"
    log = folder / f"naps-{nap_seconds}"
    recipe.write_text(RECIPE)
    command = [
        sys.executable,
        "-m",
        "tfbench",
        "profile",
        str(recipe),
        "--allow-code",
        "--seconds",
        "8",
    ]
    command += ["--set", f"model.log={log}", "--set", f"model.backward_nap_seconds={nap_seconds}"]
    command += ["--store", str(folder / "mlruns"), "--format", "json"]
    done = subprocess.run(command, env=with_planted(), capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout), [end - start for start, end in read_naps(str(log))]


def main() -> None:
    """Prints a Markdown table; ends with 1 if a profile is wrong."""
    heads = (
        "planted, ms",
        "naps by their log, ms",
        "bottleneck",
        "its time, ms",
        "difference",
        "phase, ms",
        "named",
        "holds",
    )
    print(f"| {' | '.join(heads)} |")
    print("| --- " * len(heads) + "|")
    good = True
    with tempfile.TemporaryDirectory() as name:
        for nap_seconds in NAPS_SECONDS:
            document, naps = profile(Path(name), nap_seconds)
            step = document["profile"]["step"]
            napped = sum(naps) / len(naps)
            found = step["bottleneck"]
            phase = next(one for one in step["phases"] if one["name"] == "backward")
            named = next(
                check["named_share"] for check in step["checks"] if check["phase"] == "backward"
            )
            error = found["seconds"] / napped - 1
            holds = found["name"] == "backward of slow" and abs(error) <= LARGEST_ERROR
            holds = holds and phase["high"] >= napped and named >= LEAST_NAMED
            row = f"| {nap_seconds * 1e3:.3f} | {napped * 1e3:.3f} | {found['name']} "
            row += f"| {found['seconds'] * 1e3:.3f} | {error:+.2%} "
            row += f"| {phase['low'] * 1e3:.3f} to {phase['high'] * 1e3:.3f} | {named:.1%} "
            print(row + f"| {'yes' if holds else 'no'} |", flush=True)
            good &= holds
    sys.exit(not good)


if __name__ == "__main__":
    main()
