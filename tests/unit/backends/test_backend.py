"""The backend of a process, and what there is of it before its framework is."""

import os
import subprocess
import sys

import pytest

from tfbench import backends

HIDING = """
import sys
from unittest.mock import Mock
from builders import build_request
from tfbench.measure import prepared
from tfbench.measure.{module} import {function}

def hide(*_):
    print({{"tensorflow", "keras", "jax", "torch"}} & set(sys.modules))
    sys.exit()

prepared.require_possible = hide
{function}(build_request(), Mock(), Mock(), Mock())
"""


def test_the_backend_of_a_process_is_the_one_that_keras_takes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for chosen in ("tensorflow", ""):
        monkeypatch.setenv("KERAS_BACKEND", chosen)
        assert backends.current().name == "tensorflow"
    monkeypatch.delenv("KERAS_BACKEND")
    assert backends.current().name == "tensorflow"


@pytest.mark.parametrize(
    ("module", "function"), [("benchmark", "run_benchmark"), ("step_timing", "run_profile")]
)
def test_no_framework_is_imported_before_devices_are_hidden_from_it(
    module: str, function: str
) -> None:
    code = HIDING.format(module=module, function=function)
    variables = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=variables, capture_output=True, text=True
    )
    assert done.stdout == "set()\n", done.stderr
