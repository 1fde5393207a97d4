"""Runs the command line with `python -m tfbench`."""

import sys

if __name__ == "__main__":
    if not sys.flags.safe_path:
        del sys.path[0]  # the current folder: a json.py there must not stand for Python's own

    from tfbench.cli import main

    main()
