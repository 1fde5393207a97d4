"""Starts the command line: what `tfbench` and `python -m tfbench` call."""

import sys

if __name__ == "__main__" and not sys.flags.safe_path:
    del sys.path[0]  # the current folder: a json.py there must not stand for Python's own

import contextlib
import os
import signal
from types import FrameType

_INTERRUPTED = 130  # ExitCode.INTERRUPTED, which is not imported yet


def main() -> None:
    """Imports the command line and runs it; a request to stop meanwhile ends the process in one line, as later."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    heard = {number: own for number, own in before.items() if own in (signal.SIG_DFL, signal.default_int_handler)}
    for number in heard:
        signal.signal(number, _leave)
    from tfbench import cli

    for number, own in heard.items():
        signal.signal(number, own)
    try:
        cli.main()
    except SystemExit as end:
        if end.code != _INTERRUPTED:
            raise
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(AttributeError, OSError, ValueError):
                stream.flush()
        os._exit(_INTERRUPTED)  # Python's own end aborts where a thread waits for what was given up


def _leave(number: int, frame: FrameType | None) -> None:
    """Ends the process without an exception, which would come up in the midst of an import; nothing was begun yet."""
    with contextlib.suppress(OSError):
        os.write(2, b"\nInterrupted.\n")
    os._exit(_INTERRUPTED)


if __name__ == "__main__":
    main()
