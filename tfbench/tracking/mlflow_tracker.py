"""`python -m tfbench.tracking.mlflow_tracker` brings MLflow up to journals of runs on request.

A `tfbench.tracking.tracker.Tracker` sends the requests over a socket that this process inherits,
and ends it.
"""

import collections
import contextlib
import dataclasses
import functools
import os
import resource
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfbench.errors import SilentServerError, TfbenchError, TrackingError
from tfbench.machine.usage import read_memory
from tfbench.runs.record import RunResult, Summary, TrackedRun
from tfbench.runs.summary import summarize_run
from tfbench.store import sweep_log
from tfbench.store.journal import Replay, read_result
from tfbench.store.json_lines import Follower
from tfbench.store.run_folder import work_folder
from tfbench.store.store import Store, TrackingState
from tfbench.sweeps.plan import SweepPlan
from tfbench.tags import DATA_TAG, RUN_TAG
from tfbench.tracking import database, fields, mlflow_sweep
from tfbench.tracking.address import database_of, is_server, require_address
from tfbench.tracking.mlflow_calls import (
    MAX_ANSWER_BYTES,
    create_run,
    end_of,
    endless_server,
    explained,
    find_patience,
    get_run,
    log_dataset,
    log_whole,
    metrics_at,
    milliseconds,
    search_run,
    set_up_mlflow,
    silent_server,
    write_view,
)
from tfbench.tracking.mlflow_view import EXPERIMENT_TAGS, OVERVIEW
from tfbench.tracking.run_files import write_files
from tfbench.tracking.tracker import Curve, TrackedSweep, describe_recovery
from tfbench.wording import without_secrets

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Experiment, Run


Bounded = Callable[[float], contextlib.AbstractContextManager[object]]
_BYTES_PER_SECOND = 2**20  # of files, on a slow line
_SECONDS_PER_RUN = 1.0  # of a sweep, each of which takes a call
_LOOK_SECONDS = 0.1  # between looks at what a call takes
_MARGIN = 1.25  # MLflow's own patience ends first, and knows more of what is wrong


class MlflowTracker:
    """Sends runs to one MLflow experiment; may serve several runs, one after another.

    Args:
        tracking_uri: Of a server, or of a database.
        experiment: Made if it is not there.
        store: Where it is noted which MLflow run stands for which run.
        bounded: Ends a server's call that lasts so many seconds longer than MLflow's patience, or
            whose answer is too long.

    Raises:
        TrackingError: The tracking URI can be none; whether anything answers there is not asked
            yet.
    """

    def __init__(
        self,
        tracking_uri: str,
        experiment: str,
        store: Store,
        bounded: Bounded = contextlib.nullcontext,
    ) -> None:
        require_address(tracking_uri)
        self._database = database_of(tracking_uri)
        self._uri = f"sqlite:///{self._database}" if self._database else tracking_uri
        self._experiment = experiment
        self._store = store
        self._bounded = bounded
        self._recover = describe_recovery(tracking_uri, store)
        self._client: MlflowClient | None = None
        self._experiment_id: str | None = None
        self._runs: dict[str, Run] = {}  # MLflow's, as they were found, with what was sent since
        self._num_epochs = collections.Counter[str]()  # that were sent of each
        # The run that is followed, and what was read of its journal.
        self._followed = ""
        self._journal = Follower(store.root)
        self._replay = Replay()

    def prepare(self) -> None:
        """Imports MLflow and connects; a database that is not there yet is not made."""
        with self._asking():
            if not self._database or self._database.exists():
                self._connected().get_experiment_by_name(self._experiment)
            else:
                import mlflow.store.tracking.sqlalchemy_store  # noqa: F401  # takes seconds, too

    def follow(self, run_id: str) -> None:
        """Brings MLflow up to a journal that grows, of which only what was added is read."""
        if run_id != self._followed:
            self._followed = run_id
            self._journal = Follower(self._store.journal_path(run_id))
            self._replay = Replay()
        for record in self._journal.read():
            self._replay.apply(record)
        self.update(self._replay.result(), None)

    def project(self, run_id: str) -> TrackedRun:
        """Brings MLflow up to the journal of a run that is over, and notes that it was wholly sent.

        Raises:
            TrackingError: The journal cannot be read or has no end yet, or the server, or the disk,
                cannot take it.
        """
        path = self._store.journal_path(run_id)
        result = read_result(path)
        if result.exit is None:
            raise TrackingError(
                f"run {run_id}: its journal has no end; `{self._store.command('recover')}` writes"
                " one."
            )
        summary = summarize_run(result)
        try:
            size = path.stat().st_size
            tracked = self.update(result, summary)
            with work_folder(path) as folder:
                write_files(result, summary, path, Path(folder), tracked)
                self.finish(result, Path(folder))
            state = self._store.read_state(run_id) or self._store.default_state
            self._store.write_state(
                run_id, dataclasses.replace(state, run=tracked, projected_bytes=size)
            )
        except OSError as error:
            where = f": {error.filename}" if error.filename else ""
            raise TrackingError(
                f"run {run_id}: {error.strerror or error}{where}. {self._recover}"
            ) from error
        return tracked

    def update(self, result: RunResult, summary: Summary | None) -> TrackedRun:
        """Brings the MLflow run up to `result`, and makes it first where it is not there.

        It sends only what was not sent before.
        """
        with self._asking():
            run = self._runs.get(result.request.run_id) or self._attach(result)
            if not _is_deleted(run):
                self._send(run, result, summary)
            return self._place_of(run)

    def finish(self, result: RunResult, files: Path) -> None:
        """Ends an MLflow run that was brought up to `result`, and adds a folder's files to it."""
        size = sum(path.stat().st_size for path in files.rglob("*") if path.is_file())
        run = self._runs[result.request.run_id]
        if _is_deleted(run):
            return
        with self._asking(more=size / _BYTES_PER_SECOND):
            client = self._connected()
            mlflow_id = run.info.run_id
            if not self._database:
                # A call that was given up may have made a second run there since.
                search_run(client, run.info.experiment_id, result.request.run_id)
            # Before the files: the status is true even if the files cannot be stored.
            client.set_terminated(
                mlflow_id, status=result.status, end_time=milliseconds(end_of(result))
            )
            client.log_artifacts(mlflow_id, str(files))

    def show_sweep(
        self, plan: SweepPlan, curves: Sequence[Curve], verdict: Sequence[str]
    ) -> TrackedSweep:
        """Writes the view and the findings of a finished sweep into the experiment.

        It writes nothing where no run of the sweep is.
        """
        again = self._store.command("ui", "--sweep", plan.sweep_id)
        remedy = f"Nothing measured is lost; `{again}` tries again."
        num_runs = sum(len(curve.run_ids) for curve in curves)
        with self._asking(remedy, num_runs * _SECONDS_PER_RUN):
            has_place = not self._database or self._database.exists()
            experiment = self._find_experiment() if has_place else None
            if experiment is None:
                return TrackedSweep("", frozenset())
            folder = self._store.root / sweep_log.FOLDER
            run_ids = mlflow_sweep.write_sweep(
                self._connected(), experiment, plan, curves, verdict, folder
            )
            return TrackedSweep(str(experiment.experiment_id), run_ids)

    def _connected(self) -> "MlflowClient":
        if self._client is None:
            from mlflow import MlflowClient

            if self._database:
                if not self._database.exists():
                    database.create(self._database)
                # It fails at a damaged file, which MLflow would try again for minutes.
                database.experiment_ids(self._database)
                if self._database == self._store.database.absolute():
                    database.relocate(self._database, self._store.artifacts)
            self._client = MlflowClient(tracking_uri=self._uri, registry_uri=self._uri)
        return self._client

    def _send(self, run: "Run", result: RunResult, summary: Summary | None) -> None:
        run_id = result.request.run_id
        sent = run.data
        figures = fields.summary_metrics(summary) if summary else {}
        metrics = metrics_at(figures, timestamp=milliseconds(end_of(result)))
        for epoch in result.epochs[self._num_epochs[run_id] :]:
            at = milliseconds(epoch.finished_at)
            metrics += metrics_at(fields.epoch_metrics(epoch), timestamp=at, step=epoch.epoch)
        params = fields.params(result)
        params = {key: value for key, value in params.items() if key not in sent.params}
        tags = fields.tags(result, summary)
        tags = {key: value for key, value in tags.items() if sent.tags.get(key) != value}
        if fields.COLOR_TAG in sent.tags:  # a user of MLflow may have chosen another one
            tags.pop(fields.COLOR_TAG, None)
        if result.dataset and DATA_TAG in tags:
            log_dataset(self._connected(), run.info.run_id, result.dataset)
        log_whole(self._connected(), run.info.run_id, metrics=metrics, params=params, tags=tags)
        self._num_epochs[run_id] = len(result.epochs)
        sent.params.update(params)
        sent.tags.update(tags)

    def _attach(self, result: RunResult) -> "Run":
        """Finds the MLflow run that stands for a result, or creates it.

        The id that was noted for it counts, whatever the experiment is.
        """
        run_id = result.request.run_id
        client = self._connected()
        state = self._store.read_state(run_id)
        run = None
        if state and state.run and state.run.tracking_uri == without_secrets(self._uri):
            run = get_run(client, state.run.run_id, run_id)
        if run is None:
            experiment_id = self._resolve_experiment()
            at = milliseconds(result.request.created)
            find = functools.partial(search_run, client, experiment_id, run_id)
            run = find() or create_run(
                client, find, experiment_id, at, {RUN_TAG: run_id}, fields.run_name(result)
            )
        self._runs[run_id] = run
        tracked = self._place_of(run)
        if state is None or state.run != tracked:
            new = TrackingState(tracking_uri=self._uri, experiment=self._experiment, run=tracked)
            self._store.write_state(run_id, new)
        return run

    def _place_of(self, run: "Run") -> TrackedRun:
        uri = without_secrets(self._uri)
        return TrackedRun(
            tracking_uri=uri, experiment_id=run.info.experiment_id, run_id=run.info.run_id
        )

    def _resolve_experiment(self) -> str:
        """Returns the id of the experiment, which it makes with its view where they are missing."""
        if self._experiment_id is None:
            from mlflow.exceptions import MlflowException

            client = self._connected()
            experiment = self._find_experiment()
            if experiment is None:
                folder = None  # a server has a place of its own
                if self._database:
                    folder = (self._database.parent / "artifacts").as_uri()
                try:
                    client.create_experiment(self._experiment, folder, EXPERIMENT_TAGS)
                except MlflowException as error:
                    if error.error_code != "RESOURCE_ALREADY_EXISTS":  # another process was faster
                        raise
                experiment = self._find_experiment()
            if experiment is None:
                where = f"{without_secrets(self._uri)}: experiment '{self._experiment}'"
                raise TrackingError(
                    f"{where} exists, but MLflow does not return it. Name another one with"
                    " --experiment."
                )
            write_view(client, experiment, OVERVIEW)
            self._experiment_id = str(experiment.experiment_id)
        return self._experiment_id

    def _find_experiment(self) -> "Experiment | None":
        experiment = self._connected().get_experiment_by_name(self._experiment)
        if experiment is not None and experiment.lifecycle_stage == "deleted":
            raise TrackingError(
                f"{without_secrets(self._uri)}: experiment '{self._experiment}' was deleted."
                " Restore it in MLflow, or name another one with --experiment."
            )
        return experiment

    @contextlib.contextmanager
    def _asking(self, remedy: str = "", more: float = 0.0) -> Iterator[None]:
        with explained(self._uri, remedy or self._recover):
            set_up_mlflow()
            with self._bounded(more):
                yield


def _is_deleted(run: "Run") -> bool:
    """Says whether a user of MLflow has deleted a run, which he will not want back."""
    return bool(run.info.lifecycle_stage == "deleted")


def main() -> None:
    """Imports MLflow, and answers what is asked until the other end of the socket is closed."""
    with contextlib.suppress(EOFError, OSError), Connection(int(sys.argv[1])) as connection:
        uri, experiment, root = connection.recv()
        with contextlib.suppress(ImportError):  # which is said once MLflow is asked
            set_up_mlflow()

        @contextlib.contextmanager
        def bounded(more: float) -> Iterator[None]:
            """Ends this process with its call, to which a server's answer may have no end."""
            is_over = threading.Event()
            latest = time.monotonic() + _MARGIN * find_patience() + more
            most_bytes = read_memory() + MAX_ANSWER_BYTES

            def watch() -> None:
                remedy = describe_recovery(uri, Store(root))
                while not is_over.wait(_LOOK_SECONDS):
                    if time.monotonic() > latest:
                        give_up(silent_server(uri, remedy))
                    if read_memory() > most_bytes:
                        give_up(endless_server(uri, remedy))

            def give_up(error: SilentServerError) -> None:
                connection.send((False, error))
                os._exit(1)

            threading.Thread(target=watch, daemon=True).start()
            limits = resource.getrlimit(resource.RLIMIT_DATA)
            # Where Python does not let the watch run, as it parses an answer.
            resource.setrlimit(resource.RLIMIT_DATA, (_read_data() + MAX_ANSWER_BYTES, limits[1]))
            try:
                yield
            except Exception as error:
                resource.setrlimit(resource.RLIMIT_DATA, limits)
                if _is_of_memory(error):
                    give_up(endless_server(uri, describe_recovery(uri, Store(root))))
                raise
            finally:
                is_over.set()
                resource.setrlimit(resource.RLIMIT_DATA, limits)

        bound = bounded if is_server(uri) else contextlib.nullcontext
        tracker = MlflowTracker(uri, experiment, Store(root), bound)
        while True:
            name, arguments = connection.recv()
            connection.send(_answer(getattr(tracker, name), arguments))


def _is_of_memory(error: BaseException) -> bool:
    """Says whether an error, which MLflow may have raised in place of another, is of memory."""
    cause: BaseException | None = error
    while cause and not isinstance(cause, MemoryError):
        cause = cause.__cause__ or cause.__context__
    return cause is not None


def _read_data() -> int:
    """Returns the bytes that this process may write to, as the kernel counts them."""
    for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
        if line.startswith("VmData:"):
            return 1024 * int(line.split()[1])
    raise OSError("/proc/self/status: has no VmData")


def _answer(method: Callable[..., Any], arguments: Iterable[Any]) -> tuple[bool, Any]:
    """Returns True and what a method returns, or False and the error that it raises."""
    try:
        return True, method(*arguments)
    except (TfbenchError, OSError) as error:
        return False, error
    except Exception as error:  # a bug, whose place is here
        return False, RuntimeError(
            without_secrets(f"{error}\n\nIn MLflow's process:\n{traceback.format_exc()}")
        )


if __name__ == "__main__":
    main()
