"""Measuring processes that are forked from a prepared one.

Which are, what they have, and whose end ends whose.
"""

import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

import fake_forks
from builders import build_recipe, build_request
from fake_workers import wait_for
from groups import RUN, start_fakes
from runs import wait_for_the_end_of, wait_until
from tfbench.errors import MeasurementError, RecipeError
from tfbench.machine import children
from tfbench.machine.children import Patience
from tfbench.machine.facts import Gpu
from tfbench.runs import forked, session
from tfbench.runs.forked import START_VARIABLE, Forked, Forker
from tfbench.runs.observer import Observer
from tfbench.runs.stored_run import Run
from tfbench.store.store import Store, TrackingState
from tfbench.tags import GROUP_TAG, ROUND_TAG, SWEEP_TAG, TRIAL_TAG

Fork = Callable[..., Forked]
ROUND_1 = {SWEEP_TAG: "abc", ROUND_TAG: "1"}
WAIT = "import time; time.sleep(60)"
# ends once the pipe from the parent does, as a worker
FOLLOW = "import os, sys; os.read(0, 1); os._exit(7)"


@pytest.fixture
def forker(monkeypatch: pytest.MonkeyPatch) -> Iterator[Forker]:
    monkeypatch.setattr(children, "FORKS_MODULE", "fake_forks")
    monkeypatch.setenv("PYTHONPATH", str(Path(fake_forks.__file__).parent), prepend=os.pathsep)
    found = Forker()
    yield found
    found.close()


def prepare(forker: Forker, tags: dict[str, str] | None = None, **sections: Any) -> Any:
    recipe = build_recipe(**sections)
    request = build_request(recipe=recipe, tags=ROUND_1 if tags is None else tags)
    return forker.prepare(request, {}, lambda: False)


@pytest.fixture
def fork(forker: Forker, tmp_path: Path) -> Iterator[Fork]:
    """Forks what executes some code; what it prints goes to "output"."""
    made = []

    def fork(code: str, **environment: str) -> Forked:
        path = tmp_path / "request.json"
        path.write_text(code, encoding="utf-8")
        with (tmp_path / "output").open("wb") as output:
            made.append(
                Forked(prepare(forker), path, output, {"PATH": os.environ["PATH"], **environment})
            )
        return made[-1]

    yield fork
    for one in made:
        one.send_signal(signal.SIGKILL)
        one.wait()
        one.stdin.close()


def list_prepared() -> set[int]:
    children = psutil.Process().children()
    return {child.pid for child in children if "fake_forks" in child.cmdline()}


def prepared_by(one: psutil.Process | Any) -> psutil.Process:
    """Returns the prepared process that something was forked from."""
    return psutil.Process(one.pid).parent().parent()


def test_an_exit_code_is_that_of_a_process_that_was_started(fork: Fork) -> None:
    one = fork("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)")
    assert one.wait() == one.poll() == one.returncode == -signal.SIGSEGV


def test_a_forked_process_is_as_separate_as_one_that_was_started(
    fork: Fork, tmp_path: Path, in_tmp_path: Path
) -> None:
    names = (
        "os.getsid(0) == os.getpid(), dict(os.environ), os.getcwd(), sys.argv[1:],"
        " signal.getsignal(17) == 0"
    )
    one = fork(
        f"import json, os, signal, sys; print(json.dumps([{names}]), flush=True); {WAIT}",
        OWN="1",
        TMPDIR="/x",
    )
    wait_until(lambda: (tmp_path / "output").read_bytes().endswith(b"\n"), "what it prints")
    leads, environment, folder, arguments, has_default = json.loads(
        (tmp_path / "output").read_text(encoding="utf-8")
    )
    assert leads and has_default
    assert environment.items() >= {"PATH": os.environ["PATH"], "OWN": "1", "TMPDIR": "/x"}.items()
    assert START_VARIABLE not in environment and "PYTHONPATH" not in environment
    assert folder == str(Path.cwd())
    assert arguments == [str(tmp_path / "request.json")]
    opened = {Path(file).name for file in Path(f"/proc/{one.pid}/fd").iterdir()}
    assert opened == {"0", "1", "2"}
    one.send_signal(signal.SIGTERM)
    assert one.wait() == -signal.SIGTERM


def test_it_hears_of_the_parents_end_by_the_pipe_and_ends_when_nobody_waits_for_it(
    fork: Fork,
) -> None:
    one = fork(FOLLOW)
    one.stdin.close()
    assert one.wait() == 7
    deaf = fork(WAIT)
    process = psutil.Process(deaf.pid)
    deaf._answers.close()
    wait_for_the_end_of(process)
    deaf.returncode = 0  # which nobody has heard


def test_it_does_not_outlive_the_one_who_watches_it(fork: Fork) -> None:
    one = fork(WAIT)
    process = psutil.Process(one.pid)
    process.parent().kill()
    assert one.wait() == -signal.SIGKILL
    wait_for_the_end_of(process)


@pytest.fixture
def measure_forked(
    forker: Forker, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str], Run]:
    """Makes a run whose forked process has a fate."""
    meet = start_fakes(monkeypatch, tmp_path)
    monkeypatch.setattr(forked, "ANSWER_SECONDS", 0.5)

    def measure(fate: str) -> Run:
        meet(w0=fate)
        state = TrackingState(tracking_uri=store.tracking_uri, experiment="test")
        request = build_request(run_id=RUN, tags=ROUND_1)
        return session.execute_run(request, state, store, None, Observer(), forker=forker)

    return measure


UNWATCHED = "the process that watched the measuring process was killed, or stopped by SIGSTOP"


def test_a_run_is_over_although_the_process_that_watched_it_is_stopped(
    measure_forked: Callable[[str], Run],
) -> None:
    run = measure_forked("unwatch")
    assert run.result.status == "FINISHED"
    assert len(run.result.spans) == 5
    assert any(UNWATCHED in note for note in run.result.notes)


def test_ctrl_c_ends_a_run_whose_watching_process_is_stopped(
    measure_forked: Callable[[str], Run], store: Store
) -> None:
    def stop() -> None:
        wait_for(store.journal_path(RUN), "spans")
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=stop, daemon=True).start()
    run = measure_forked("unwatch and wait")
    assert (run.result.status, run.was_interrupted) == ("KILLED", True)
    assert run.result.exit and run.result.exit.reason == "interrupted by SIGINT"


def test_a_prepared_process_that_is_stopped_is_ended_and_another_takes_its_place(
    fork: Fork, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forked, "_FORK_SECONDS", 0.5)
    one = fork(FOLLOW)
    first = prepared_by(one)
    first.suspend()
    with pytest.raises(MeasurementError, match="the prepared process does not answer"):
        fork(FOLLOW)
    other = fork(FOLLOW)
    assert prepared_by(other) != first
    assert not first.is_running()
    assert one.poll() is None


def test_a_prepared_process_that_never_gets_ready_is_given_up(
    forker: Forker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Patience.__init__, "__defaults__", (0.5,))
    monkeypatch.setenv(fake_forks.STOPS, "1")
    with pytest.raises(MeasurementError, match="has not computed for"):
        prepare(forker)
    assert not list_prepared()
    assert prepare(forker) is None


def test_each_round_and_each_backend_has_a_prepared_process_of_its_own(
    forker: Forker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0})
    first = prepare(forker)
    assert prepare(forker) is first
    second = prepare(forker, ROUND_1 | {ROUND_TAG: "2"})
    assert second is not first
    assert prepare(forker, ROUND_1 | {ROUND_TAG: "2"}, training={"backend": "jax"}) is not second
    assert prepare(forker, ROUND_1 | {ROUND_TAG: "2"}, model={"name": "mine:make"}) is not second
    trials = prepare(forker, {GROUP_TAG: "abc", TRIAL_TAG: "1"})
    assert trials is prepare(forker, {GROUP_TAG: "abc", TRIAL_TAG: "2"})
    assert len(list_prepared()) == 1


@pytest.mark.parametrize(
    "num_cores, waiting_at", [(1, [1, 1, 1]), (2, [1, 2, 1, 2]), (3, [2, 1, 3]), (64, [4, 3, 2, 1])]
)
def test_the_processes_of_several_rounds_are_started_at_once_and_each_is_used_by_one(
    forker: Forker, monkeypatch: pytest.MonkeyPatch, num_cores: int, waiting_at: list[int]
) -> None:
    """The first time, a core is left to MLflow's process."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(num_cores)))
    links = []
    for number, num_waiting in enumerate(waiting_at):
        links.append(prepare(forker, ROUND_1 | {ROUND_TAG: str(number)}))
        assert len(list_prepared()) == num_waiting
    assert len(set(links)) == len(waiting_at)


def test_a_spare_process_that_has_ended_is_replaced(
    forker: Forker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2})
    first = prepare(forker)
    ended = list_prepared()
    for pid in ended:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    second = prepare(forker, ROUND_1 | {ROUND_TAG: "2"})
    assert second not in (None, first)
    assert not ended & list_prepared()


def test_a_run_alone_and_repeats_and_whoever_asks_for_it_start_a_process(
    forker: Forker, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert prepare(forker, {}) is None
    assert prepare(forker, {GROUP_TAG: "abc", "tfbench.repeat": "1"}) is None
    monkeypatch.setenv(START_VARIABLE, "own")
    assert prepare(Forker()) is None
    monkeypatch.setenv(START_VARIABLE, "forked")
    with pytest.raises(RecipeError, match="must be one of own, prepared"):
        Forker()


def test_a_run_in_no_round_ends_what_the_round_before_was_forked_from(forker: Forker) -> None:
    prepare(forker)
    assert prepare(forker, {}) is None
    assert not list_prepared()


def test_nothing_is_forked_that_pytorch_is_to_compute_on_a_gpu(
    forker: Forker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forked, "read_gpus", lambda: [Gpu(name="H100")])
    with pytest.raises(MeasurementError, match="PyTorch"):
        prepare(forker, training={"backend": "torch"})
    assert prepare(forker) is not None


def test_nothing_is_forked_beside_threads_that_a_fork_would_lose(
    fork: Fork, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(fake_forks.THREADS, "1")
    with pytest.raises(MeasurementError, match="threads"):
        fork(WAIT)


def test_what_cannot_be_imported_is_left_to_a_process_of_its_own(
    forker: Forker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(fake_forks.FAILS, "1")
    assert prepare(forker) is None


def test_nobody_waits_for_the_import_of_a_run_that_is_over(forker: Forker) -> None:
    start = time.monotonic()
    assert forker.prepare(build_request(tags=ROUND_1), {}, lambda: True) is None
    assert time.monotonic() - start < 60
