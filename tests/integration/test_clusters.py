"""Sweeps whose tasks a scheduler hands out.

The script of the page on clusters, without Slurm, and two nodes of Ray.
"""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from browser import free_port
from runs import NO_CHECKS, clean_environment, run, run_in_bash
from tfbench.store.journal import read_records
from tfbench.store.store import Store

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "clusters.md"
KEY = "training.global_batch_size"


def speeds_of(document: Any) -> dict[int, list[bool]]:
    """Returns for each batch size whether its setups have a speed."""
    return {
        row["configuration"][KEY]: [
            entry["samples_per_second"] is not None for entry in row["entries"]
        ]
        for row in document["rows"]
    }


def test_the_script_of_the_page_makes_tasks_and_what_is_missing_is_made_here(
    tmp_path: Path,
) -> None:
    script, commands = re.findall(r"```bash\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    (tmp_path / "task.sh").write_text(script)
    short = commands.replace("--plan", f"--repeats 1 --seconds 0.2 {' '.join(NO_CHECKS)} --plan")
    # Stands for Slurm, which calls the last task of two, and calls it again; the first it never
    # comes to.
    slurm = (
        'sbatch() { for SLURM_ARRAY_TASK_ID in 1 1; do export SLURM_ARRAY_TASK_ID; bash "${@: -1}";'
        " done; }\n"
    )
    printed = run_in_bash(slurm + short.replace("@last", "@last --format json"), tmp_path)
    assert len(Store(tmp_path / "nodes").run_ids()) == 2
    document = json.loads(printed[printed.index("\n{\n") :])
    assert speeds_of(document) == {32: [False, False], 512: [True, True]}
    whole = run("sweep", "--resume", "@last", "--no-mlflow", "--format", "json", cwd=tmp_path)
    assert (whole.exit_code, whole.document["num_left"]) == (0, 0), whole.stderr
    assert speeds_of(whole.document) == {32: [True, True], 512: [True, True]}
    assert len(Store(tmp_path / "mlruns").run_ids()) == 4  # nothing was made twice


@pytest.fixture
def ray(tmp_path: Path) -> Iterator[str]:
    """The address of a cluster of two nodes."""
    pytest.importorskip("ray")
    address = f"127.0.0.1:{free_port()}"
    temporary = Path("/tmp", f"tfbench-ray-{os.getpid()}")  # paths of Ray's sockets must be short
    environment = clean_environment() | {
        "RAY_USAGE_STATS_ENABLED": "0",
        "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
    }
    before = {process.pid for process in psutil.process_iter()}
    start = [sys.executable, "-m", "ray.scripts.scripts", "start", "--resources", '{"tfbench": 1}']
    start += ["--object-store-memory", "80000000", "--num-cpus", "1"]
    head = ["--head", f"--port={address.partition(':')[2]}", "--include-dashboard=false"]
    head.append(f"--temp-dir={temporary}")
    try:
        for words in (head, [f"--address={address}"]):
            subprocess.run(
                [*start, *words], env=environment, check=True, capture_output=True, timeout=120
            )
        yield address
    finally:
        for process in psutil.process_iter(["cmdline"]):
            if process.pid not in before and any(
                str(temporary) in word for word in process.info["cmdline"] or ()
            ):
                with contextlib.suppress(psutil.Error):
                    process.send_signal(signal.SIGKILL)
        shutil.rmtree(temporary, ignore_errors=True)


def test_two_nodes_of_ray_make_a_task_each_and_the_journals_come_home(
    tmp_path: Path, ray: str
) -> None:
    line = f"sweep mnist_mlp --data synthetic --vary {KEY}=32,512 --repeats 2 --no-mlflow".split()
    setups = ("--setup", "default cpu:0", "--setup", "default cpu:0 intra_op_threads=1")
    options = (*NO_CHECKS, "--set", "measurement.steps=5", "--ray", ray, "--format", "json")
    done = run(*line, *setups, *options, cwd=tmp_path, RAY_USAGE_STATS_ENABLED="0")
    assert (done.exit_code, done.document["num_left"]) == (0, 0), done.stderr
    assert speeds_of(done.document) == {32: [True, True], 512: [True, True]}
    store = Store(tmp_path / "mlruns")
    journals = [read_records(store.journal_path(run_id)) for run_id in store.run_ids()]
    ready = [record for records in journals for record in records if record["kind"] == "ready"]
    assert [one["environment"]["thread_variables"] for one in ready] == [
        ""
    ] * 8  # Ray sets OMP_NUM_THREADS
