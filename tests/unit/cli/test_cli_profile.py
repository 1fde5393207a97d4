"""`tfbench profile`: which profiles it makes, what it shows of them, and what it rejects."""

from pathlib import Path
from typing import Any

import pytest

from kinds import Cli
from profile_runs import KILLED, build_profile_run
from tfbench.errors import DeviceError
from tfbench.profiles.readings import ProfileRequest
from tfbench.runs.maker import RunMaker
from tfbench.runs.record import RunRequest, TrackedRun
from tfbench.runs.stored_run import Run, RunLimits
from tfbench.runs.summary import summarize_run

TRACKED = TrackedRun(tracking_uri="sqlite:////mlruns/mlflow.db", experiment_id="1", run_id="m1")


class Profiles:
    """Stands in for the measuring processes, which end by kind as `fates` says.

    With an error, or killed.
    """

    def __init__(self) -> None:
        self.requests = []
        self.limits = []
        self.fates = {}

    @property
    def kinds(self) -> list[str]:
        return [request.profile.kind for request in self.requests if request.profile]

    def make(self, request: RunRequest, observer: Any, limits: RunLimits) -> Run:
        self.requests.append(request)
        self.limits.append(limits)
        fate = self.fates.get(self.kinds[-1])
        if isinstance(fate, Exception):
            raise fate
        result = build_profile_run(
            request, **({"exit": KILLED, "stage": "timing in turns"} if fate else {})
        )
        summary = summarize_run(result)
        journal = Path("run.jsonl")
        run = Run(
            result=result,
            summary=summary,
            tracked=TRACKED,
            journal=journal,
            was_interrupted=bool(fate),
        )
        observer.finish(run)
        return run


@pytest.fixture
def profiles(monkeypatch: pytest.MonkeyPatch, in_tmp_path: Path) -> Profiles:
    monkeypatch.setenv("COLUMNS", "120")
    profiles = Profiles()
    monkeypatch.setattr(RunMaker, "make", lambda maker, *arguments: profiles.make(*arguments))
    return profiles


def profile(tfbench: Cli, *arguments: str) -> Any:
    return tfbench("profile", "mnist_mlp", "--data", "synthetic", *arguments)


def test_each_thing_that_is_asked_for_gets_a_process_of_its_own(
    tfbench: Cli, profiles: Profiles
) -> None:
    done = profile(tfbench, "--trace")
    assert (done.exit_code, done.stderr, profiles.kinds) == (0, "", ["step", "trace"])
    assert len({request.run_id for request in profiles.requests}) == 2


def test_options_reach_the_measuring_process(tfbench: Cli, profiles: Profiles) -> None:
    options = (
        "--seconds 1.5m --global-batch-size 8 --devices cpu:0 --strategy one_device"
        " --run-timeout 1.5h --memory-limit 512MiB"
    )
    assert profile(tfbench, *options.split()).exit_code == 0
    (request,) = profiles.requests
    assert request.profile == ProfileRequest(kind="step", seconds=90.0)
    assert request.name == "mnist_mlp-1000x1000-b8-one_device-cpu:0-profile"
    assert request.recipe.training.global_batch_size == 8
    assert profiles.limits == [RunLimits(timeout_seconds=5400.0, memory_bytes=2**29)]
    profile(tfbench)
    assert profiles.requests[1].profile == ProfileRequest(kind="step", seconds=20.0)


def test_json_is_one_document_with_null_for_what_was_not_asked_for(
    tfbench: Cli, profiles: Profiles
) -> None:
    done = profile(tfbench, "--trace", "--format", "json")
    document = done.document
    assert list(document) == ["format_version", "profile", "trace"]
    assert document["profile"]["step"]["bottleneck"]["name"] == "backward of pool"
    assert document["profile"]["mlflow"]["run_id"] == "m1"
    assert document["trace"]["step"] is None
    assert document["trace"]["readings"]["operations"][0]["name"] == "dense/MatMul"
    assert document["trace"]["run_id"] == profiles.requests[1].run_id
    assert "Bottleneck: " in done.stderr
    assert profile(tfbench, "--format", "json").document["trace"] is None


@pytest.mark.parametrize(
    ("kind", "fate", "code", "made", "said"),
    [
        ("step", DeviceError("it has replicas."), 2, ["step"], "Error: it has replicas."),
        ("step", "killed", 130, ["step"], "KILLED while timing in turns: interrupted by SIGINT"),
        # costs only its own
        ("trace", DeviceError("none."), 1, ["step", "trace"], "Error: no trace: none."),
    ],
)
def test_a_profile_that_is_not_made_is_said_and_an_early_one_ends_all(
    tfbench: Cli, profiles: Profiles, kind: str, fate: Any, code: int, made: list[str], said: str
) -> None:
    profiles.fates[kind] = fate
    done = profile(tfbench, "--trace")
    assert (done.exit_code, profiles.kinds) == (code, made)
    assert said in done.stdout + done.stderr
