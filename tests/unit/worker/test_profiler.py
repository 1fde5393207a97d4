"""What cannot be profiled."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from profile_runs import build_profile_request
from tfbench.backends.tensorflow.backend import BACKEND
from tfbench.errors import DeviceError
from tfbench.records.journal import Journal
from tfbench.worker import prepared
from tfbench.worker.breakdown import Breakdown


def test_a_step_of_two_replicas_is_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    two = SimpleNamespace(placement=SimpleNamespace(num_devices=2, devices=("cpu:0", "cpu:1")))
    monkeypatch.setattr(BACKEND, "resolve", lambda *_: two)
    for name in ("import_keras", "set_process_wide"):
        monkeypatch.setattr(prepared, name, lambda *_, **__: None)
    journal = Journal(tmp_path / "journal.jsonl")
    with pytest.raises(DeviceError, match=r"Received: cpu:0, cpu:1\. Name one of them; `tfbench scale`"):
        prepared.prepare(build_profile_request(), journal, Breakdown(0), lambda: None)
    journal.close()
