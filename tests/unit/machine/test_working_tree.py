"""The commit of a working tree, read by git; its hooks and monitors are off."""

import subprocess
from pathlib import Path

import pytest

from tfbench.machine import working_tree


@pytest.fixture(autouse=True)
def no_settings_of_the_users(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))  # temporary files may lie in a tree, too


def git(*arguments: str, folder: Path) -> str:
    command = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout.strip()


def make_tree(folder: Path) -> str:
    """Commits a file; returns the commit."""
    git("init", "--quiet", folder=folder)
    (folder / "a.txt").write_text("one\n", encoding="utf-8")
    git("add", ".", folder=folder)
    git("commit", "--quiet", "--message", "one", folder=folder)
    return git("rev-parse", "HEAD", folder=folder)


def test_a_tree_is_clean_until_a_known_file_differs(in_tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commit = make_tree(in_tmp_path)
    (in_tmp_path / "new.txt").touch()
    assert working_tree.read_commit() == (commit, False)
    (in_tmp_path / "below").mkdir()
    monkeypatch.chdir(in_tmp_path / "below")
    (in_tmp_path / "a.txt").write_text("two\n", encoding="utf-8")
    assert working_tree.read_commit() == (commit, True)
    git("add", "..", folder=Path.cwd())
    assert working_tree.read_commit() == (commit, True)


def test_without_a_tree_nothing_is_known(in_tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert working_tree.read_commit() == (None, None)
    git("init", "--quiet", folder=in_tmp_path)
    assert working_tree.read_commit() == (None, None)
    make_tree(in_tmp_path)
    monkeypatch.setenv("PATH", "")
    assert working_tree.read_commit() == (None, None)


def test_a_repository_without_files_has_a_commit_alone(in_tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commit = make_tree(in_tmp_path)
    monkeypatch.chdir(in_tmp_path / ".git")
    assert working_tree.read_commit() == (commit, None)


def test_no_hook_or_monitor_of_a_tree_is_run(in_tmp_path: Path) -> None:
    commit = make_tree(in_tmp_path)
    program = in_tmp_path / "planted"
    program.write_text(f"#!/bin/sh\ntouch {in_tmp_path}/ran\n", encoding="utf-8")
    program.chmod(0o755)
    git("config", "core.fsmonitor", str(program), folder=in_tmp_path)
    (in_tmp_path / ".git" / "hooks" / "post-index-change").symlink_to(program)
    (in_tmp_path / "a.txt").write_text("two\n", encoding="utf-8")
    assert working_tree.read_commit() == (commit, True)
    assert not (in_tmp_path / "ran").exists()
