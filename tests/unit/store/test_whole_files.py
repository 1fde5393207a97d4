"""Files that are there whole or not at all, and what a user may name instead of a file."""

import errno
import os
import stat
from pathlib import Path

import pytest

from journals import build_sized_result, make_database, write_journal
from kinds import Cli
from tfbench.store.store import Store
from tfbench.store.whole_files import replacing, write_output, write_whole


def test_a_file_is_replaced_whole_and_keeps_its_mode_and_a_new_one_gets_the_user_s(
    tmp_path: Path,
) -> None:
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


def test_an_output_that_is_a_link_goes_to_what_the_link_leads_to_as_in_a_shell(
    tmp_path: Path,
) -> None:
    real = tmp_path / "real.html"
    link = tmp_path / "link.html"
    link.symlink_to(real)
    for text in ("made", "replaced"):
        write_output(link, text)
        assert (real.read_text(), link.is_symlink(), real.is_symlink()) == (text, True, False)


def test_a_pipe_or_device_is_written_to_and_stays_what_it_is(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    for path in (pipe, Path("/dev/null")):
        write_output(path, "text")
        assert not path.is_file()
    assert os.read(reader, 100) == b"text"
    os.close(reader)


@pytest.mark.parametrize("name", ["pipe.jsonl", "RUN.brief.json", "RUN.tracked.json", "RUN.lock"])
@pytest.mark.parametrize("command", ["runs", "recover"])
def test_a_pipe_in_place_of_a_file_is_not_waited_for(
    in_tmp_path: Path, store: Store, tfbench: Cli, name: str, command: str
) -> None:
    make_database(store)
    journal = write_journal(store, build_sized_result(0))
    pipe = journal.with_name(name.replace("RUN", journal.stem))
    pipe.unlink(missing_ok=True)
    os.mkfifo(pipe)
    done = tfbench(command, "--store", "mlruns")
    assert done.exit_code in (0, 2)
    assert "Traceback" not in done.stderr
