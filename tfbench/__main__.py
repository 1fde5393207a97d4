"""Starts the command line: what `tfbench` and `python -m tfbench` call."""

import sys

if __name__ == "__main__" and not sys.flags.safe_path:
    del sys.path[0]  # the current folder: a json.py there must not stand for Python's own

import os

_INTERRUPTED = 130  # as of `errors.ExitCode`, of whose import an interruption is one as well


def main() -> None:
    """Runs the command line, and ends the process at once where it was interrupted."""
    try:
        from tfbench import cli

        cli.main()
    except KeyboardInterrupt:  # or a second one, while the first was told
        os._exit(_INTERRUPTED)
    except SystemExit as end:
        if end.code != _INTERRUPTED:
            raise
        import contextlib

        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(AttributeError, OSError, ValueError, KeyboardInterrupt):
                stream.flush()
        os._exit(_INTERRUPTED)  # Python's own end aborts where a thread waits for what was given up


if __name__ == "__main__":
    main()
