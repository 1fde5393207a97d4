"""Starts the command line: what `tfbench` and `python -m tfbench` call."""

import sys

if __name__ == "__main__" and not sys.flags.safe_path:
    del sys.path[0]  # the current folder: a json.py there must not stand for Python's own

import contextlib
import os
import signal
from types import FrameType


def main() -> None:
    """Imports the command line and runs it; Ctrl-C meanwhile ends the process in one line, as it does later."""
    hears = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if hears:
        signal.signal(signal.SIGINT, _leave)
    from tfbench import cli

    if hears:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    cli.main()


def _leave(number: int, frame: FrameType | None) -> None:
    """Ends the process without an exception, which would come up in the midst of an import; nothing was begun yet."""
    with contextlib.suppress(OSError):
        os.write(2, b"\nInterrupted.\n")
    os._exit(130)  # ExitCode.INTERRUPTED, which is not imported yet


if __name__ == "__main__":
    main()
