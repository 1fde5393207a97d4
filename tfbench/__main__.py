"""Starts the command line: what `tfbench` and `python -m tfbench` call."""

import sys

if __name__ == "__main__" and not sys.flags.safe_path:
    del sys.path[0]  # the current folder: a json.py there must not stand for Python's own

import contextlib
import os

from tfbench.errors import ExitCode


def main() -> None:
    """Runs the command line, and ends the process at once where it was interrupted."""
    try:
        from tfbench import cli  # here: an interruption of the import is one as well

        cli.main()
    except KeyboardInterrupt:  # or a second one, while the first was told
        os._exit(ExitCode.INTERRUPTED)
    except SystemExit as end:
        if end.code != ExitCode.INTERRUPTED:
            raise
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(AttributeError, OSError, ValueError, KeyboardInterrupt):
                stream.flush()
        os._exit(ExitCode.INTERRUPTED)  # Python's own end aborts where a thread waits for what was given up


if __name__ == "__main__":
    main()
