"""The commit of the working tree that tfbench was started in, and whether files differ from it."""

import subprocess

_COMMAND_SECONDS = 20  # git on a slow disk
_STATUS = ["status", "--porcelain", "--untracked-files=no", "--ignore-submodules=dirty"]


def read_commit() -> tuple[str | None, bool | None]:
    """Returns the commit that is checked out, and whether files known to git differ from it; None: not known.

    Of a submodule it counts which commit is checked out, not whether its files differ.
    """
    commit = _ask(["rev-parse", "HEAD"])
    changes = None if commit is None else _ask(_STATUS)
    return commit, None if changes is None else bool(changes)


def _ask(arguments: list[str]) -> str | None:
    """Returns what git prints, or None where it is missing, fails, hangs, or takes the tree for somebody else's."""
    command = ["git", "--no-optional-locks", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", *arguments]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="surrogateescape", timeout=_COMMAND_SECONDS, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
