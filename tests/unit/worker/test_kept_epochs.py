"""An epoch that is over is on the disk, or the run ends."""

import errno
import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from builders import build_epoch, build_recipe, build_request
from tfbench.records.journal import Journal
from tfbench.worker.ledger import Ledger
from tfbench.worker.training import _BetweenEpochs


def test_a_disk_that_fails_ends_the_training_with_the_epoch_that_it_did_not_keep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(file: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    journal = Journal(tmp_path / "run.jsonl")
    between = _BetweenEpochs(build_request(recipe=build_recipe()), SimpleNamespace(), journal, Ledger(0))
    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="Input/output error"):
        between.on_epoch(build_epoch(epoch=1))
