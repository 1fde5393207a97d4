"""Passwords and tokens of a tracking server: used, and found nowhere afterwards, byte for byte."""

import base64
import contextlib
from pathlib import Path
from urllib.parse import quote

import pytest

from holding import plant
from runs import NO_CHECKS, Finished, run
from servers import LossyProxy, serving

pytestmark = pytest.mark.slow

# the first as its address has it, and as it is
SECRET = "pass/w0rd-planted"
TOKEN = "t0ken-planted"
QUOTED = quote(SECRET, safe="")
PLANTED = [SECRET, QUOTED, TOKEN, base64.b64encode(f"me:{SECRET}".encode()).decode()]
RUN = ("run", "sine_lstm", "--epochs", "1", *NO_CHECKS)
SWEEP = (
    *["sweep", "sine_lstm", "--vary", "training.global_batch_size=16", "--repeats", "1"],
    *("--setup", "default cpu:0", "--set", "measurement.steps=5", *NO_CHECKS),
)


# Put in the way of every process: notes how others are called that it starts.
NOTING = """
import sys

def note(event, arguments):
    if event == "subprocess.Popen":
        with open({path!r}, "a", encoding="utf-8") as file:
            print(arguments[1], file=file)

sys.addaudithook(note)
"""


def test_what_lets_a_user_in_is_used_and_kept_nowhere(tmp_path: Path) -> None:
    called = tmp_path / "called"
    printed = tmp_path / "printed"
    noting = plant(tmp_path, NOTING.format(path=str(called)))

    def tfbench(*arguments: str, uri: str, **environment: str) -> Finished:
        access = {"MLFLOW_TRACKING_URI": uri, "MLFLOW_TRACKING_TOKEN": TOKEN}
        done = run(*arguments, cwd=tmp_path, **access, **environment)
        assert done.exit_code == 0, (arguments, done)
        with printed.open("a") as file:
            file.writelines([done.stdout, done.stderr])
        return done

    with serving(tmp_path) as server:
        with contextlib.closing(
            LossyProxy(server, f"Basic {PLANTED[-1]}")
        ) as proxy:  # which lets in who knows it
            uri = f"http://me:{QUOTED}@127.0.0.1:{proxy.port}"
            tfbench(*SWEEP, uri=uri, **noting)
            shown = tfbench("ui", "--sweep", "@last", uri=uri, **noting)
            assert "is tracked at" in shown.stderr
            tfbench("report", "--sweep", "@last", "-o", "report.html", uri=uri)
            tfbench("compare", "--sweep", "@last", "--format", "markdown", uri=uri)
            for command in ("runs", "recover"):
                tfbench(command, "--format", "json", uri=uri)
            found = tfbench("runs", "@last", "--format", "json", uri=uri).document
            assert found["mlflow"]["tracking_uri"] == uri.replace(QUOTED, "***")
            tfbench("runs", "@last", uri=uri)
            tfbench("export", "@last", "-o", "run.jsonl", uri=uri)
            other = ("--store", "other", "--tracking-uri", uri)
            tfbench("import", "run.jsonl", *other, uri=uri, **noting)
        with contextlib.closing(LossyProxy(server, "nobody")) as proxy:  # which rejects all
            tfbench(*RUN, "--format", "json", uri=f"http://me:{QUOTED}@127.0.0.1:{proxy.port}")
    assert "tfbench.measure" in called.read_text() and printed.stat().st_size
    for path in (path for path in tmp_path.rglob("*") if path.is_file()):
        assert [secret for secret in PLANTED if secret.encode() in path.read_bytes()] == [], path
