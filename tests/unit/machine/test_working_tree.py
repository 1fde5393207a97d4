"""The commit of a working tree, read by git from trees that would have it run programs."""

import subprocess
from pathlib import Path

import pytest

from tfbench.machine import working_tree

# Settings whose value is a program.
NAMED = (
    *("core.fsmonitor", "core.pager", "core.editor", "core.sshCommand", "core.askPass", "core.gitProxy"),
    *(
        "core.alternateRefsCommand",
        "pager.status",
        "pager.rev-parse",
        "pager.config",
        "alias.status",
        "alias.rev-parse",
    ),
    *("credential.helper", "diff.external", "diff.planted.command", "diff.planted.textconv", "gpg.program"),
    *("filter.planted.clean", "filter.planted.smudge", "filter.other.process", "merge.planted.driver"),
    *("interactive.diffFilter", "remote.origin.uploadpack", "submodule.sub.update"),
)


@pytest.fixture(autouse=True)
def no_settings_of_the_users(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))  # temporary files may lie in a tree, too


def git(*arguments: str, folder: Path) -> str:
    command = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout.strip()


def make_tree(folder: Path, *options: str) -> str:
    """Commits two files; returns the commit."""
    folder.mkdir(exist_ok=True)
    git("init", "--quiet", *options, folder=folder)
    for name in ("a.txt", "b.txt"):
        (folder / name).write_text("one\n", encoding="utf-8")
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


def test_another_work_tree_a_split_index_longer_hashes_and_ignored_modes_are_read(
    in_tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = make_tree(in_tmp_path / "one")
    git("worktree", "add", "--quiet", "--detach", "../two", folder=in_tmp_path / "one")
    git("update-index", "--split-index", folder=in_tmp_path / "two")
    monkeypatch.chdir(in_tmp_path / "two")
    assert working_tree.read_commit() == (commit, False)
    (in_tmp_path / "two" / "b.txt").unlink()
    assert working_tree.read_commit() == (commit, True)

    commit = make_tree(in_tmp_path / "long", "--object-format=sha256")
    monkeypatch.chdir(in_tmp_path / "long")
    assert (len(commit), *working_tree.read_commit()) == (64, commit, False)
    (in_tmp_path / "long" / "a.txt").chmod(0o755)
    assert working_tree.read_commit() == (commit, True)
    git("config", "core.fileMode", "false", folder=Path.cwd())  # as on a file system that has no modes
    assert working_tree.read_commit() == (commit, False)


def plant(folder: Path, ran: Path) -> None:
    """Has a tree name a program wherever git may start one; run, it adds what it was run as to a file."""
    program = ran.with_name("planted")
    program.write_text(f'#!/bin/sh\necho "$0 $*" >> {ran}\n', encoding="utf-8")
    program.chmod(0o755)
    hooks = folder / ".git" / "hooks"
    for hook in ("post-index-change", "fsmonitor-watchman", "reference-transaction", "post-checkout"):
        (hooks / hook).unlink(missing_ok=True)
        (hooks / hook).symlink_to(program)
    for key in NAMED:
        git("config", key, f"{program} {key}", folder=folder)
    for key, value in {
        "status.submoduleSummary": "true",
        "diff.submodule": "log",
        "core.hooksPath": str(hooks),
        "filter.other.required": "true",
        "remote.origin.url": f"ext::{program} fetch",
        "remote.origin.promisor": "true",
        "protocol.ext.allow": "always",
        "extensions.partialClone": "origin",
        "core.repositoryFormatVersion": "1",
    }.items():
        git("config", key, value, folder=folder)
    (folder / ".gitattributes").write_text("a.txt filter=planted diff=planted\n", encoding="utf-8")
    (folder / ".git" / "info").mkdir(exist_ok=True)
    (folder / ".git" / "info" / "attributes").write_text("b.txt filter=other merge=planted\n", encoding="utf-8")


def test_no_program_that_a_tree_names_is_run(in_tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree, ran = in_tmp_path / "tree", in_tmp_path / "ran"
    make_tree(tree)
    make_tree(tree / "sub")
    git("add", "sub", folder=tree)
    git("commit", "--quiet", "--message", "two", folder=tree)
    commit = git("rev-parse", "HEAD", folder=tree)
    for planted in (tree, tree / "sub"):
        plant(planted, ran)
        (planted / "a.txt").write_text("two\n", encoding="utf-8")
    subprocess.run(["git", "status", "--porcelain"], cwd=tree, capture_output=True, check=False)
    run_by_git = ran.read_text(encoding="utf-8")
    for expected in ("core.fsmonitor", "filter.planted.clean", "filter.other.process"):
        assert expected in run_by_git
    ran.unlink()

    monkeypatch.chdir(tree)
    assert working_tree.read_commit() == (commit, True)
    (tree / ".git" / "objects" / commit[:2] / commit[2:]).unlink()  # which git would fetch, as the settings say how
    (tree / ".git" / "info" / "attributes").unlink()  # with which git would have ended before
    subprocess.run(["git", "status", "--porcelain"], cwd=tree, capture_output=True, check=False)
    assert "fetch" in ran.read_text(encoding="utf-8")
    ran.unlink()
    assert working_tree.read_commit() == (commit, None)
    assert not ran.exists()
