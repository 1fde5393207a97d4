"""An epoch that is over is on the disk, or the run ends."""

import errno
import os
from pathlib import Path

import pytest

from builders import build_epoch
from prepared import build_prepared
from tfbench.worker.training import end_epoch


def test_a_disk_that_fails_ends_the_training_with_the_epoch_that_it_did_not_keep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(file: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    prepared = build_prepared(tmp_path)
    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="Input/output error"):
        end_epoch(prepared, [], build_epoch(epoch=1))
