"""Starts the command line: what `tfbench` and `python -m tfbench` call."""

import sys

if __name__ == "__main__" and not sys.flags.safe_path:
    del sys.path[0]  # the current folder: a json.py there must not stand for Python's own

import atexit
import contextlib
import os
import signal
from collections.abc import Iterable
from types import FrameType
from typing import Any

_INTERRUPTED = 130  # ExitCode.INTERRUPTED, which is not imported yet


def main() -> None:
    """Imports the command line and runs it; a request to stop before or after that ends the process in one line."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    heard = {number: own for number, own in before.items() if own in (signal.SIG_DFL, signal.default_int_handler)}
    _answer(heard, _leave)
    atexit.register(_answer, heard, signal.SIG_IGN)  # the last of them: Python's own end would die of a signal
    from tfbench import cli

    for number, own in heard.items():
        signal.signal(number, own)
    try:
        cli.main()
    except KeyboardInterrupt:  # on its way out
        os._exit(_INTERRUPTED)
    except SystemExit as end:
        _answer(heard, _leave)
        if end.code != _INTERRUPTED:
            raise
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(AttributeError, OSError, ValueError):
                stream.flush()
        os._exit(_INTERRUPTED)  # Python's own end aborts where a thread waits for what was given up


def _answer(numbers: Iterable[signal.Signals], handler: Any) -> None:
    for number in numbers:
        signal.signal(number, handler)


def _leave(number: int, frame: FrameType | None) -> None:
    """Ends the process without an exception, which would come up in the midst of an import, or of Python's end."""
    with contextlib.suppress(OSError):
        os.write(2, b"\nInterrupted.\n")
    os._exit(_INTERRUPTED)


if __name__ == "__main__":
    main()
