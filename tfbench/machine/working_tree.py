"""The commit of the working tree that tfbench was started in, and whether files differ from it.

The tree may be somebody else's, unpacked from an archive or found on a shared disk, and its .git can name programs that
git starts while it does no more than look at files: monitors, filters, hooks, transports. So git compares the files
with the tree's index and objects in a repository made for the moment, which has none of the tree's settings.
"""

import os
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

_COMMAND_SECONDS = 20  # git on a slow disk
# Of the tree's settings, those by which files are compared: none of them names a program.
_COMPARED_BY = "autocrlf|checkstat|eol|filemode|ignorecase|symlinks|trustctime"
_SHA256 = "[core]\n\trepositoryformatversion = 1\n[extensions]\n\tobjectFormat = sha256\n"


def read_commit() -> tuple[str | None, bool | None]:
    """Returns the commit that is checked out, and whether files known to git differ from it; None: not known.

    Of a submodule it counts which commit is checked out, not whether its files differ: git would ask that under the
    submodule's own settings.
    """
    commit = _ask(["rev-parse", "HEAD"])
    return commit, None if commit is None else _has_changes(commit)


def _has_changes(commit: str) -> bool | None:
    paths = (_ask(["rev-parse", "--git-path", "index", "--git-path", "objects", "--show-toplevel"]) or "").splitlines()
    if len(paths) != 3:  # a repository without files
        return None
    index, objects, top = (str(Path(path).absolute()) for path in paths)
    settings = (_ask(["config", "--null", "--get-regexp", rf"^core\.({_COMPARED_BY})$"]) or "").split("\0")
    options = [option for setting in settings if setting for option in ("-c", setting.replace("\n", "=", 1))]
    with tempfile.TemporaryDirectory(prefix="tfbench-") as folder:
        own = Path(folder)
        (own / "refs").mkdir()
        (own / "HEAD").write_text(f"{commit}\n", encoding="ascii")
        (own / "config").write_text(_SHA256 if len(commit) == 64 else "", encoding="ascii")
        for shared in Path(index).parent.glob("sharedindex.*"):  # the rest of an index that is split
            (own / shared.name).symlink_to(shared)
        places = {
            "GIT_DIR": folder,
            "GIT_COMMON_DIR": folder,
            "GIT_WORK_TREE": top,
            "GIT_INDEX_FILE": index,
            "GIT_OBJECT_DIRECTORY": objects,
        }
        status = ["status", "--porcelain", "--untracked-files=no", "--ignore-submodules=dirty"]
        changes = _ask([*options, *status], places)
    return None if changes is None else bool(changes)


def _ask(arguments: list[str], places: Mapping[str, str] | None = None) -> str | None:
    """Returns what git prints, or None where it is missing, fails, hangs, or takes the tree for somebody else's."""
    command = ["git", "--no-optional-locks", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", *arguments]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="surrogateescape",
            timeout=_COMMAND_SECONDS,
            check=True,
            env={**os.environ, **(places or {})},
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
