"""Tasks under Slurm: an array of jobs for each kind of machine, each alone on its node, in a folder that all share."""

import contextlib
import shlex
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from tfbench.errors import DeviceError, RecipeError, TrackingError
from tfbench.records.tasks import Task
from tfbench.records.whole_files import write_whole
from tfbench.sweeps.engines.engine import EngineSetting, TaskEnd

_OURS = ("array", "constraint", "exclusive", "job-name", "no-requeue", "nodes", "ntasks", "output", "requeue")
_ASK_SECONDS = 60.0  # for a command of Slurm to answer
_SILENT_SECONDS = 300.0  # for a controller that does not answer to come back
_CANCEL_SECONDS = 60.0  # for jobs to end; Slurm kills them 30 s after it asked
_POLL_SECONDS = 2.0
_GONE = ("NODE_FAIL", "BOOT_FAIL", "PREEMPTED", "REVOKED")  # with the machine, or to somebody else
_OVER = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "DEADLINE", "OUT_OF_MEMORY", *_GONE)


class SlurmEngine:
    """Slurm, spoken to by its own commands."""

    def __init__(self, setting: EngineSetting) -> None:
        """Notes what it is told; nothing is asked of Slurm yet.

        Raises:
            RecipeError: An option is one that tfbench sets.
        """
        for key in setting.options:
            if key in _OURS or not key.replace("-", "").isalnum():
                raise RecipeError(
                    f"--engine-option {key}: must be a long option of sbatch, such as partition or time, and none of "
                    f"{', '.join(_OURS)}, which tfbench sets."
                )
        self._setting = setting
        self._name = f"tfbench-{setting.plan.sweep_id}"
        self._jobs: dict[str, int] = {}  # by id, "12_3": the number of the task
        self._places: dict[str, str] = {}  # node that a job is on
        self._logs = setting.node_store / "slurm"
        self._answered = time.monotonic()
        self.notes: list[str] = []

    def attach(self, tasks: Sequence[Task]) -> list[int]:
        """Finds the jobs of an earlier command that still wait or run."""
        numbers = {task.number for task in tasks}
        for job, state, node in self._ask_queue():
            number = job.rpartition("_")[2]
            if state not in _OVER and number.isdigit() and int(number) in numbers:
                self._jobs[job] = int(number)
                self._places[job] = node
        found = sorted(self._jobs.values())
        if found:
            self.notes.append(f"jobs of an earlier command go on: tasks {', '.join(map(str, found))}.")
        return found

    def submit(self, tasks: Sequence[Task]) -> None:
        """Submits an array of jobs for each kind of machine."""
        try:
            self._logs.mkdir(parents=True, exist_ok=True)
            script = self._logs / f"{self._name}.sh"
            write_whole(script, self._script())
        except OSError as error:
            raise TrackingError(f"{error.filename}: cannot be written: {error.strerror}.") from error
        logs = str(self._logs).replace("%", "%%")  # which sbatch expands
        for machine in dict.fromkeys(task.machine for task in tasks):
            numbers = [task.number for task in tasks if task.machine == machine]
            words = ["sbatch", "--parsable", f"--job-name={self._name}", f"--array={','.join(map(str, numbers))}"]
            words += ["--exclusive", "--no-requeue", "--nodes=1", "--ntasks=1", f"--output={logs}/%x.%A_%a.out"]
            words += [f"--constraint={machine}"] if machine else []
            words += [f"--{key}={value}" if value else f"--{key}" for key, value in self._setting.options.items()]
            job = _run([*words, str(script)]).strip().partition(";")[0]
            if not job.isdigit():
                raise DeviceError(f"sbatch: answered what is no number of a job: {job!r}.")
            self._jobs |= {f"{job}_{number}": number for number in numbers}

    def poll(self) -> list[TaskEnd]:
        """Asks for the state of all jobs."""
        if not self._jobs:
            return []
        try:
            found = {job: (state, node) for job, state, node in self._ask_queue("--states=all")}
        except DeviceError:
            if time.monotonic() - self._answered > _SILENT_SECONDS:
                raise
            return []  # its controller may be started anew
        self._answered = time.monotonic()
        self._places |= {job: node for job, (_, node) in found.items() if node}
        ends = []
        for job, number in list(self._jobs.items()):
            state = found[job][0] if job in found else "gone"
            if state in _OVER or job not in found:
                ends.append(self._end_of(job, number, state))
                del self._jobs[job]
        return ends

    def list_sources(self) -> list[Path]:
        """Returns the store that the nodes share."""
        return [self._setting.node_store]

    def cancel(self) -> None:
        """Cancels the jobs, and waits until they are over."""
        deadline = time.monotonic() + _CANCEL_SECONDS
        with contextlib.suppress(DeviceError):
            if self._jobs:
                _run(["scancel", *self._jobs])
            while self._jobs and time.monotonic() < deadline:
                time.sleep(_POLL_SECONDS)
                self.poll()

    def forget(self) -> None:
        """Does nothing: what the nodes wrote is theirs."""

    def close(self) -> None:
        """Does nothing: there is no connection."""

    def _script(self) -> str:
        setting = self._setting
        # As the head runs: the same folder, which all share.
        words = [sys.executable, "-P", "-m", "tfbench", "sweep", "--plan", str(setting.plan_path)]
        words += ["--store", str(setting.node_store), *(["--allow-code"] if setting.plan.allows_code else [])]
        variables = '--task "$SLURM_ARRAY_TASK_ID" --machine "$SLURMD_NODENAME"'
        # A run that failed is a result: 1 is no failure of the job.
        return f"#!/bin/sh\n{shlex.join(words)} {variables}\ncode=$?\n[ $code -eq 1 ] || exit $code\n"

    def _ask_queue(self, *options: str) -> list[tuple[str, str, str]]:
        """Returns id, state and node of jobs of the sweep."""
        # By name: asked for an id that it has forgotten, as it does some minutes after a job's end, Slurm refuses.
        text = _run(["squeue", "--noheader", "--array", f"--name={self._name}", *options, "--format=%i|%T|%N"])
        rows = [line.strip().split("|") for line in text.splitlines() if line.count("|") == 2]
        return [(job, state, node) for job, state, node in rows]

    def _end_of(self, job: str, number: int, state: str) -> TaskEnd:
        machine = self._places.get(job, "")
        if state == "COMPLETED":
            return TaskEnd(number, "ENDED", machine, self._read_last_line(job))
        if state in _GONE:
            return TaskEnd(number, "LOST", machine, f"Slurm says {state} of job {job}")
        if state == "gone":  # Slurm forgets jobs some minutes after their end
            return TaskEnd(number, "LOST", machine, f"Slurm knows nothing of job {job} any more")
        last = self._read_last_line(job)
        return TaskEnd(number, "FAILED", machine, f"Slurm says {state} of job {job}{f': {last}' if last else ''}")

    def _read_last_line(self, job: str) -> str:
        with contextlib.suppress(OSError):
            lines = (self._logs / f"{self._name}.{job}.out").read_text(errors="replace").strip().splitlines()
            return lines[-1] if lines else ""
        return ""


def _run(words: Iterable[str]) -> str:
    """Runs a command of Slurm, and returns what it says.

    Raises:
        DeviceError: It is not there, or refuses.
    """
    command = list(words)
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_ASK_SECONDS, check=False)
    except FileNotFoundError as error:
        raise DeviceError(f"--engine slurm: {command[0]} is not installed on this machine.") from error
    except subprocess.TimeoutExpired as error:
        raise DeviceError(f"{command[0]}: did not answer within {_ASK_SECONDS:.0f} s.") from error
    if done.returncode:
        said = " ".join((done.stderr.strip() or done.stdout.strip() or "it said nothing").splitlines())
        raise DeviceError(f"{command[0]}: {said}")
    return done.stdout
