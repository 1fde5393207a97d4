"""The backend of a process, and what is asked of it before its framework is there."""

import subprocess
import sys

import pytest

from tfbench import backends


def test_the_backend_of_a_process_is_the_one_that_keras_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    for chosen in ("tensorflow", ""):
        monkeypatch.setenv("KERAS_BACKEND", chosen)
        assert backends.current() is backends.load("tensorflow")
    monkeypatch.delenv("KERAS_BACKEND")
    assert backends.current().name == "tensorflow"


def test_loading_a_backend_imports_no_framework() -> None:
    code = "import sys; from tfbench import backends; backends.load('tensorflow'); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True).stdout
    assert {"tensorflow", "keras"} & set(loaded.split()) == set()
