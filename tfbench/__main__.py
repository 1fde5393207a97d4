"""Runs the command line with `python -m tfbench`."""

from tfbench.cli import main

if __name__ == "__main__":
    main()
