"""Sweeps on real clusters of two nodes on this machine, one of which is killed in the middle: Ray, and Slurm.

Each runs where its scheduler is installed.
"""

import contextlib
import itertools
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from runs import NO_CHECKS, Command, clean_environment, run, wait_until
from tfbench.records.journal import read_records
from tfbench.records.lines import last_time
from tfbench.records.sweep import SweepPlan
from tfbench.records.tasks import list_tasks
from tfbench.store.store import Store
from tfbench.store.sweep_log import list_sweeps, read_losses, read_record, read_sweep

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

SWEEP = (
    *("sweep", "mnist_hidden100_mlp", "--data", "synthetic", "--vary", "training.global_batch_size=32,512"),
    *("--arm", "default cpu:0", "--arm", "default cpu:0 intra_op_threads=1", "--repeats", "2"),
    *("--set", "measurement.steps=5", "--no-mlflow", "--format", "json", *NO_CHECKS),
)
PARTITIONS = """
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/none
CredType=cred/none
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
SlurmctldPort={ports[0]}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
SlurmdTimeout=10
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[1]} CPUs=1 State=UNKNOWN
NodeName=n2 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[2]} CPUs=1 State=UNKNOWN
PartitionName=test Nodes=n1,n2 Default=YES MaxTime=INFINITE State=UP OverSubscribe=EXCLUSIVE
"""


def free_ports(number: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(number)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


def kill_tree(process: psutil.Process) -> None:
    """Kills a process and all below it, as a machine dies."""
    for one in (process, *process.children(recursive=True)):
        with contextlib.suppress(psutil.Error):
            one.send_signal(signal.SIGKILL)


def results_of(store: Store) -> dict[int, Any]:
    sweeps = list_sweeps(store)
    return {one.cell: one for one in read_record(store.root / "sweeps" / f"{sweeps[0]}.jsonl")[1]} if sweeps else {}


def require_whole(store: Store) -> tuple[SweepPlan, set[str]]:
    """Holds that all runs are there, each task's on one machine, and no two at once on one; returns the machines."""
    (sweep_id,) = list_sweeps(store)
    plan, results = read_sweep(store, sweep_id)
    assert sorted(results) == list(range(8))
    for task in list_tasks(plan):
        assert len({results[cell.number].machine for cell in task.cells}) == 1
    spans: dict[str, list[tuple[float, float]]] = {}
    for result in read_record(store.root / "sweeps" / f"{sweep_id}.jsonl")[1]:
        records = read_records(store.journal_path(str(result.run_id)))
        spans.setdefault(result.machine, []).append((records[0]["time"], last_time(records)))
        (ready,) = [record for record in records if record["kind"] == "ready"]
        assert ready["environment"]["thread_variables"] == ""  # Ray sets OMP_NUM_THREADS in its workers
    for of_machine in spans.values():
        of_machine.sort()
        assert all(first[1] <= second[0] for first, second in itertools.pairwise(of_machine))
    return plan, set(spans)


@pytest.fixture
def ray(tmp_path: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """A cluster of two nodes: its address, and the environment that its commands need."""
    pytest.importorskip("ray")
    port, *_ = free_ports(1)
    temporary = Path("/tmp", f"tfbench-ray-{os.getpid()}")  # paths of Ray's sockets must be short
    environment = clean_environment() | {"RAY_USAGE_STATS_ENABLED": "0", "PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    before = {process.pid for process in psutil.process_iter()}
    start = [sys.executable, "-m", "ray.scripts.scripts", "start", "--resources", '{"tfbench": 1}']
    start += ["--object-store-memory", "80000000", "--num-cpus", "1"]
    head = ["--head", "--port", str(port), "--include-dashboard=false", f"--temp-dir={temporary}"]
    try:
        for words in (head, [f"--address=127.0.0.1:{port}"]):
            subprocess.run([*start, *words], env=environment, check=True, capture_output=True, timeout=120)
        yield f"127.0.0.1:{port}", environment
    finally:
        for process in psutil.process_iter(["cmdline"]):
            if process.pid not in before and any(str(temporary) in word for word in process.info["cmdline"] or ()):
                kill_tree(process)
        shutil.rmtree(temporary, ignore_errors=True)


def test_a_node_of_ray_that_dies_costs_the_run_that_it_was_at(tmp_path: Path, ray: tuple[str, dict[str, str]]) -> None:
    address, _ = ray
    store = Store(tmp_path / "mlruns")
    command = Command(
        *SWEEP, "--engine", "ray", "--engine-option", f"address={address}", cwd=tmp_path, RAY_USAGE_STATS_ENABLED="0"
    )
    wait_until(lambda: len({one.machine for one in results_of(store).values()}) == 2, "a run of each node")
    raylets = [
        process
        for process in psutil.process_iter(["name", "cmdline"])
        if process.info["name"] == "raylet"
        and any(f"tfbench-ray-{os.getpid()}" in word for word in process.info["cmdline"])
    ]
    kill_tree(max(raylets, key=lambda process: process.create_time()))  # not the first, which the cluster stands on
    finished = command.wait()
    assert finished.exit_code == 0, finished.stderr
    plan, machines = require_whole(store)
    (loss,) = read_losses(store, plan.sweep_id)
    assert {loss.machine} < machines
    assert finished.document["lost"][0]["machine"] == loss.machine
    assert set(finished.document["made_on"].values()) == machines - {loss.machine}


@pytest.fixture
def slurm(tmp_path: Path) -> Iterator[dict[str, str]]:
    """Two nodes of Slurm: the environment that its commands need."""
    if not (shutil.which("slurmctld") and shutil.which("slurmd") and shutil.which("sbatch")):
        pytest.skip("Slurm is not installed")
    folder = tmp_path / "slurm"
    for name in ("state", "spool-n1", "spool-n2"):
        (folder / name).mkdir(parents=True)
    user, host = psutil.Process().username(), socket.gethostname()
    text = PARTITIONS.format(host=host, user=user, folder=folder, ports=free_ports(3))
    (folder / "slurm.conf").write_text(text)
    environment = clean_environment() | {"SLURM_CONF": str(folder / "slurm.conf")}
    try:
        for words in (["slurmctld", "-c"], ["slurmd", "-N", "n1"], ["slurmd", "-N", "n2"]):
            subprocess.run(words, env=environment, check=True, capture_output=True, timeout=60)

        def are_idle() -> bool:
            done = subprocess.run(
                ["sinfo", "-h", "-o%T %D"], env=environment, capture_output=True, text=True, check=False
            )
            return done.stdout.split() == ["idle", "2"]

        wait_until(are_idle, "two idle nodes", 60.0)
        yield environment
    finally:
        subprocess.run(["scancel", "--signal=KILL", "--user", user], env=environment, check=False, capture_output=True)
        for path in folder.glob("*.pid"):
            with contextlib.suppress(psutil.Error, ValueError):
                kill_tree(psutil.Process(int(path.read_text())))
        for process in psutil.process_iter(["name", "environ"]):
            if process.info["name"] == "slurmstepd" and (process.info["environ"] or {}).get(
                "SLURM_CONF", ""
            ).startswith(str(folder)):
                kill_tree(process)


def test_slurm_makes_a_sweep_and_goes_on_with_it_when_the_head_is_killed(tmp_path: Path, slurm: dict[str, str]) -> None:
    own = {"SLURM_CONF": slurm["SLURM_CONF"]}
    store = Store(tmp_path / "mlruns")
    command = Command(*SWEEP, "--engine", "slurm", cwd=tmp_path, **own)
    wait_until(lambda: len(results_of(store)) >= 2, "two runs")
    command.send(signal.SIGKILL)
    command.wait()
    again = ("sweep", "--resume", "@last", "--engine", "slurm", "--no-mlflow", "--format", "json")
    finished = run(*again, cwd=tmp_path, **own)
    assert finished.exit_code == 0, finished.stderr
    assert "jobs of an earlier command go on: tasks 0, 1." in finished.stderr
    plan, machines = require_whole(store)
    assert machines == {"n1", "n2"}
    assert len(store.run_ids()) == 8  # nothing was made twice
    assert read_losses(store, plan.sweep_id) == []
