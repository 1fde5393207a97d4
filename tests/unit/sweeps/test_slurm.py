"""What is asked of Slurm, and what its answers mean; Slurm's own commands are stood in for by scripts on PATH."""

import os
from pathlib import Path

import pytest

from nodes import engine_setting
from sweeps import TWO_ARMS, build_plan
from tfbench.errors import DeviceError, RecipeError
from tfbench.records.tasks import list_tasks
from tfbench.sweeps.engines import slurm
from tfbench.sweeps.engines.engine import EngineSetting, TaskEnd
from tfbench.sweeps.engines.slurm import SlurmEngine
from tfbench.sweeps.plan import parse_arm

PLAN = build_plan(arms=(*TWO_ARMS, parse_arm("default cpu:0 @a100")))  # tasks 0 and 3 on any machine, 1 and 2 on a100
SBATCH = 'echo "sbatch $*" >> calls; n=$(cat jobs 2>/dev/null || echo 10); echo $((n + 1)) > jobs; echo "$n;cluster"'
SQUEUE = 'echo "squeue $*" >> calls; [ -e down ] && { echo "no controller" >&2; exit 1; }; cat states 2>/dev/null; true'
SCANCEL = 'echo "scancel $*" >> calls; : > states'


@pytest.fixture
def folder(in_tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, in which the scripts note how they were called, and `states` is what squeue answers."""
    monkeypatch.setenv("PATH", f"{in_tmp_path}/bin:{os.environ['PATH']}")
    (in_tmp_path / "bin").mkdir()
    for name, text in (("sbatch", SBATCH), ("squeue", SQUEUE), ("scancel", SCANCEL)):
        path = in_tmp_path / "bin" / name
        path.write_text(f"#!/bin/sh\ncd {in_tmp_path}\n{text}\n")
        path.chmod(0o755)
    return in_tmp_path


def open_engine(folder: Path, **options: str) -> SlurmEngine:
    return SlurmEngine(engine_setting(folder, PLAN, options))


def calls(folder: Path, name: str) -> list[str]:
    return [line for line in (folder / "calls").read_text().splitlines() if line.startswith(name)]


def test_a_kind_of_machine_gets_an_array_each_job_of_which_has_its_node_alone(folder: Path) -> None:
    engine = open_engine(folder, partition="gpu", time="2:00:00", **{"cpu-freq": "high", "spread-job": ""})
    engine.submit(list_tasks(PLAN))
    common = (
        f"--exclusive --no-requeue --nodes=1 --ntasks=1 --output={folder}/nodes/slurm/%x.%A_%a.out{{}}"
        " --partition=gpu --time=2:00:00 --cpu-freq=high --spread-job "
        f"{folder}/nodes/slurm/tfbench-abc.sh"
    )
    assert calls(folder, "sbatch") == [
        f"sbatch --parsable --job-name=tfbench-abc --array=0,3 {common.format('')}",
        f"sbatch --parsable --job-name=tfbench-abc --array=1,2 {common.format(' --constraint=a100')}",
    ]
    script = (folder / "nodes" / "slurm" / "tfbench-abc.sh").read_text()
    assert f" -m tfbench sweep --plan {folder}/plan.json --store {folder}/nodes --task" in script
    assert '--task "$SLURM_ARRAY_TASK_ID" --machine "$SLURMD_NODENAME"' in script


def test_what_becomes_of_a_job_is_what_becomes_of_its_task(folder: Path) -> None:
    engine = open_engine(folder)
    engine.submit(list_tasks(PLAN))
    (folder / "states").write_text("10_0|RUNNING|n1\n10_3|PENDING|\n11_1|RUNNING|n2\n11_2|RUNNING|n3\n")
    assert engine.poll() == []
    (folder / "nodes" / "slurm" / "tfbench-abc.11_2.out").write_text("Traceback\nError: no module\n")
    (folder / "nodes" / "slurm" / "tfbench-abc.10_0.out").write_text("python: No module named tfbench\n")
    (folder / "states").write_text("10_0|COMPLETED|n1\n10_3|RUNNING|n4\n11_1|NODE_FAIL|n2\n11_2|FAILED|n3\n")
    assert engine.poll() == [
        TaskEnd(0, "ENDED", "n1", "python: No module named tfbench"),
        TaskEnd(1, "LOST", "n2", "Slurm says NODE_FAIL of job 11_1"),
        TaskEnd(2, "FAILED", "n3", "Slurm says FAILED of job 11_2: Error: no module"),
    ]
    (folder / "states").write_text("")
    assert engine.poll() == [TaskEnd(3, "LOST", "n4", "Slurm knows nothing of job 10_3 any more")]
    asked = len(calls(folder, "squeue"))
    assert engine.poll() == []
    assert len(calls(folder, "squeue")) == asked  # nothing is left to ask for
    assert not any("--jobs" in call for call in calls(folder, "squeue"))  # of a forgotten job, that is an error


def test_a_folder_with_a_percent_sign_is_none_of_sbatchs_own(in_tmp_path: Path, folder: Path) -> None:
    engine = SlurmEngine(EngineSetting(PLAN, folder / "plan.json", folder / "mlruns", folder / "50%x", {}))
    engine.submit(list_tasks(PLAN)[:1])
    assert f"--output={folder}/50%%x/slurm/%x.%A_%a.out" in calls(folder, "sbatch")[0]


@pytest.mark.parametrize(("state", "outcome"), [("TIMEOUT", "FAILED"), ("CANCELLED", "FAILED"), ("PREEMPTED", "LOST")])
def test_a_limit_of_time_is_met_again_and_a_machine_that_was_taken_away_is_not(
    folder: Path, state: str, outcome: str
) -> None:
    engine = open_engine(folder)
    engine.submit(list_tasks(PLAN)[:1])
    (folder / "states").write_text(f"10_0|{state}|n1\n")
    assert [(end.outcome, end.machine) for end in engine.poll()] == [(outcome, "n1")]


def test_jobs_of_an_earlier_command_are_found(folder: Path) -> None:
    (folder / "states").write_text("7_0|RUNNING|n1\n7_3|COMPLETED|n2\n8_1|PENDING|\n8_9|RUNNING|n3\n")
    engine = open_engine(folder)
    assert engine.attach(list_tasks(PLAN)) == [0, 1]
    assert engine.notes == ["jobs of an earlier command go on: tasks 0, 1."]
    assert "--name=tfbench-abc" in calls(folder, "squeue")[0]
    (folder / "states").write_text("7_0|COMPLETED|n1\n8_1|RUNNING|n2\n")
    assert engine.poll() == [TaskEnd(0, "ENDED", "n1")]


def test_a_controller_that_is_started_anew_is_waited_for_and_one_that_is_gone_is_not(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = open_engine(folder)
    engine.submit(list_tasks(PLAN)[:1])
    (folder / "down").touch()
    assert engine.poll() == []
    monkeypatch.setattr(slurm, "_SILENT_SECONDS", 0.0)
    with pytest.raises(DeviceError, match="squeue: no controller"):
        engine.poll()


def test_a_request_to_stop_cancels_the_jobs(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slurm.time, "sleep", lambda seconds: None)
    engine = open_engine(folder)
    engine.submit(list_tasks(PLAN)[:1])
    (folder / "states").write_text("10_0|RUNNING|n1\n")
    engine.cancel()
    assert calls(folder, "scancel") == ["scancel 10_0"]
    engine.cancel()
    assert len(calls(folder, "scancel")) == 1


@pytest.mark.parametrize("key", ["array", "requeue", "exclusive", "a b", "x;y"])
def test_options_that_tfbench_sets_are_refused(folder: Path, key: str) -> None:
    with pytest.raises(RecipeError, match=r"--engine-option .*: must be a long option of sbatch"):
        open_engine(folder, **{key: "1"})


def test_a_machine_without_slurm_is_said(in_tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(in_tmp_path))
    with pytest.raises(DeviceError, match="--engine slurm: squeue is not installed on this machine"):
        open_engine(in_tmp_path).attach(list_tasks(PLAN))


def test_what_sbatch_refuses_is_said(folder: Path) -> None:
    (folder / "bin" / "sbatch").write_text("#!/bin/sh\necho 'sbatch: error: invalid partition' >&2; exit 1\n")
    with pytest.raises(DeviceError, match="sbatch: sbatch: error: invalid partition"):
        open_engine(folder).submit(list_tasks(PLAN))
    (folder / "bin" / "sbatch").write_text("#!/bin/sh\necho done\n")
    with pytest.raises(DeviceError, match="answered what is no number of a job: 'done'"):
        open_engine(folder).submit(list_tasks(PLAN))
