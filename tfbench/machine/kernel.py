"""What the kernel shows in files."""

from pathlib import Path


def read_text(path: Path) -> str:
    """Returns what is in a file, without the white space around it; "" if it cannot be read."""
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, ValueError):
        return ""


def read_control_groups(root: Path, *names: str) -> list[str]:
    """Returns what is in files of this process's control groups (version 2), innermost first.

    Args:
        root: Where /proc and /sys lie.
        names: Of the files; one that a group does not have is empty.
    """
    return [read_text(folder / name) for folder in _control_groups(root) for name in names]


def _control_groups(root: Path) -> list[Path]:
    lines = read_text(root / "proc/self/cgroup").splitlines()
    mount = root / "sys/fs/cgroup"
    for line in lines:
        if line.startswith("0::"):
            # In a container the path may be the host's, while the mount shows the container's own
            # group at its root.
            group = mount / line.removeprefix("0::").lstrip("/")
            around = [folder for folder in group.parents if folder.is_relative_to(mount)]
            return [folder for folder in (group, *around) if folder.is_dir()]
    return []
