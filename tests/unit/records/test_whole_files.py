"""Files that are there whole or not at all, and what a user may name instead of a file."""

import errno
import os
import stat
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from journals import build_sized_result, write_journal
from sweeps import build_plan, write_sweep
from tfbench.errors import TrackingError
from tfbench.records.whole_files import is_stream, replacing, write_output, write_whole
from tfbench.runs.baseline import require_place
from tfbench.store.store import Store
from tfbench.sweeps import report_contents

Cli = Callable[..., Any]


def read_while(write: Callable[[], Any], fifo: Path) -> bytes:
    """Returns what is written into a named pipe, whose writer waits for a reader."""
    found: list[bytes] = []
    reader = threading.Thread(target=lambda: found.append(fifo.read_bytes()), daemon=True)
    reader.start()
    write()
    reader.join()  # pytest's own limit ends it where nothing came
    return found[0]


@pytest.fixture
def fifo(tmp_path: Path) -> Path:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    return path


def test_a_file_is_replaced_whole_and_keeps_its_mode_and_a_new_one_gets_the_user_s(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text("old")
    path.chmod(0o640)
    write_whole(path, "new")
    assert (path.read_text(), stat.S_IMODE(path.stat().st_mode)) == ("new", 0o640)
    assert list(tmp_path.iterdir()) == [path]
    (tmp_path / "plain").touch()
    write_whole(tmp_path / "new", "text")
    assert (tmp_path / "new").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_a_full_disk_leaves_the_old_file_and_no_temporary_one(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text("old")
    with pytest.raises(OSError, match="No space"), replacing(path) as part:
        part.write_text("half")
        raise OSError(errno.ENOSPC, "No space left on device")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_name_as_long_as_the_system_allows_can_be_written(tmp_path: Path) -> None:
    path = tmp_path / ("é" * 127)
    write_whole(path, "text")
    assert path.read_text() == "text"


def test_an_output_that_is_a_link_goes_to_what_the_link_leads_to_as_in_a_shell(tmp_path: Path) -> None:
    real, link = tmp_path / "real.html", tmp_path / "link.html"
    link.symlink_to(real)
    for text in ("made", "replaced"):
        write_output(link, text)
        assert (real.read_text(), link.is_symlink(), real.is_symlink()) == (text, True, False)


def test_a_pipe_or_device_is_written_to_and_stays_what_it_is(fifo: Path) -> None:
    assert read_while(lambda: write_output(fifo, "text"), fifo) == b"text"
    assert fifo.is_fifo()
    write_output(Path("/dev/null"), "text")
    assert Path("/dev/null").is_char_device()


def test_stdout_is_written_to_whatever_it_is(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for name in ("/dev/stdout", "/dev/fd/1"):
        assert is_stream(Path(name))
        write_output(Path(name), f"to {name}\n")
    assert capfd.readouterr().out == "to /dev/stdout\nto /dev/fd/1\n"


def test_a_folder_is_no_stream_and_cannot_be_written_as_a_file(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    assert not is_stream(tmp_path / "folder")
    with pytest.raises(IsADirectoryError):
        write_output(tmp_path / "folder", "text")
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_a_baseline_may_go_to_a_device_in_a_folder_that_cannot_be_written_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) == Path("/dev/null"))
    require_place(Path("/dev/null"))
    require_place(Path("/dev/stdout"))
    with pytest.raises(TrackingError, match="folder /dev is not there, or cannot be written to"):
        require_place(Path("/dev/baseline.json"))


@pytest.fixture
def sweep(in_tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setattr(report_contents, "comparison_plots", lambda *_: ())
    monkeypatch.setattr(report_contents, "accuracy_by_time", lambda *_: None)
    store = Store(Path("mlruns"))
    write_sweep(store, build_plan(sweep_id="5eed"), lambda planned: 1000.0 + planned.setup)
    return store


@pytest.mark.parametrize("options", [(), ("--force",)])
def test_a_report_goes_to_a_pipe(tfbench: Cli, sweep: Store, fifo: Path, options: tuple[str, ...]) -> None:
    written = read_while(lambda: tfbench("report", "--sweep", "@last", "-o", str(fifo), *options), fifo)
    assert written.startswith(b"<!DOCTYPE html>")
    assert fifo.is_fifo()


@pytest.mark.parametrize("name", ["-", "/dev/stdout"])
def test_a_report_to_stdout_is_the_page_and_nothing_else(tfbench: Cli, sweep: Store, name: str) -> None:
    done = tfbench("report", "--sweep", "@last", "-o", name)
    assert (done.stdout[:15], done.stdout[-8:]) == ("<!DOCTYPE html>", "</html>\n")
    assert "report on 8 runs" in done.stderr


def test_an_export_is_whole_and_goes_to_a_pipe_too(tfbench: Cli, in_tmp_path: Path, fifo: Path) -> None:
    journal = write_journal(Store(Path("mlruns")), build_sized_result(0))
    assert read_while(lambda: tfbench("export", "@last", "-o", str(fifo)), fifo) == journal.read_bytes()
    assert fifo.is_fifo()
