"""Pipes in place of a store's files, which nobody writes to."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from journals import build_sized_result, write_journal
from tfbench.store.store import Store


@pytest.mark.parametrize("name", ["pipe.jsonl", "RUN.brief.json", "RUN.tracked.json", "RUN.lock"])
@pytest.mark.parametrize("command", ["runs", "recover"])
def test_a_pipe_in_place_of_a_file_is_not_waited_for(
    in_tmp_path: Path, tfbench: Callable[..., Any], name: str, command: str
) -> None:
    journal = write_journal(Store(Path("mlruns")), build_sized_result(0))
    pipe = journal.with_name(name.replace("RUN", journal.stem))
    pipe.unlink(missing_ok=True)
    os.mkfifo(pipe)
    done = tfbench(command, "--store", "mlruns")
    assert done.exit_code in (0, 2)
    assert "Traceback" not in done.stderr
