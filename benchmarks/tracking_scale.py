"""What tracking costs at scale, and whether anything is lost.

A sweep from four clients, MLflow's server, PostgreSQL.

    apt-get install postgresql && pip install psycopg2-binary
    python benchmarks/tracking_scale.py
    python benchmarks/tracking_scale.py --runs 100 --kill server

Starts a PostgreSQL and an `mlflow server` of its own, in a temporary folder. Runs of known truth
are brought into it as `tfbench` does it while it measures: the run is made when the model is ready,
each epoch is sent when it ends, all the rest and the files when the run is over. Nothing is
measured in between, so that a run takes as long as its tracking.

First one client, then four at once, for the time. Then, for each of `--kill`, four clients with the
whole sweep: in the middle, the MLflow server or PostgreSQL is killed with SIGKILL, and one of the
clients; what was killed is started again, but for the client. The runs that met a dead server, and
those of the dead client, are brought by `tfbench recover`, one a store and all at once. Then all is
read back, and compared with the truth: runs, every value of every epoch, parameters, tags,
statuses, files.
"""

import collections
import contextlib
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click
from footer import describe_machine

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests" / "support"))

from postgres import Postgres  # noqa: E402
from tracking_truth import build_stores, verify  # noqa: E402

from servers import MlflowServer  # noqa: E402
from tfbench.errors import TrackingError  # noqa: E402
from tfbench.store.journal import Replay, read_records  # noqa: E402
from tfbench.store.store import Store  # noqa: E402
from tfbench.tracking.mlflow_tracker import MlflowTracker  # noqa: E402

CLIENTS = 4
TIMED = 25  # runs a client, where the time is taken
AFTER_FAILURE_SECONDS = 0.5  # in which a client would measure its next run
MIDDLE = 0.4  # of the runs are done when something is killed
KINDS = {  # of requests, by the end of their path
    "runs/create": "create the run",
    "runs/search": "look for the run",
    "runs/get": "look for the run",
    "runs/update": "end the run",
    "runs/log-batch": "values, parameters, tags",
    "artifacts": "files",
}


def track_all(root: Path, uri: str, experiment: str) -> None:
    """Is a client.

    Tracks the runs of a store one after another, and prints what became of each, a line a run.
    """
    from requests import Session

    store = Store(root)
    spent = collections.Counter[str]()
    send = Session.send

    def timed_send(session: Session, request: Any, **options: Any) -> Any:
        began = time.perf_counter()
        try:
            return send(session, request, **options)
        finally:
            path = request.url.partition("?")[0]
            kind = next((name for end, name in KINDS.items() if path.endswith(end)), "")
            spent[kind or ("files" if "/mlflow-artifacts/" in path else "the experiment")] += (
                time.perf_counter() - began
            )

    Session.send = timed_send  # type: ignore[method-assign]
    tracker = MlflowTracker(uri, experiment, store)
    tracker.prepare()
    for run_id in store.run_ids():
        spent.clear()
        began = time.perf_counter()
        problem = track_one(store, run_id, tracker)
        seconds = time.perf_counter() - began
        print(json.dumps({"seconds": seconds, "problem": problem, "spent": spent}), flush=True)
        if problem:
            time.sleep(AFTER_FAILURE_SECONDS)


def track_one(store: Store, run_id: str, tracker: MlflowTracker) -> str:
    """Tracks a run as it is tracked while it is measured.

    Returns what went wrong at its end, "" if nothing did.
    """
    replay = Replay()
    is_tracked = True
    for record in read_records(store.journal_path(run_id)):
        replay.apply(record)
        if record["kind"] in ("ready", "epoch") and is_tracked:
            try:
                tracker.update(replay.result(), None)
            except TrackingError:  # it is left alone until the run is over
                is_tracked = False
    try:
        tracker.project(run_id)
    except TrackingError as error:
        return str(error)
    return ""


class Client:
    """A process that tracks the runs of a store."""

    def __init__(self, store: Store, uri: str, experiment: str) -> None:
        self._output = store.root / "client.txt"
        with self._output.open("wb") as output, (store.root / "client.err").open("wb") as errors:
            command = [sys.executable, __file__, "--client", str(store.root), uri, experiment]
            self._process = subprocess.Popen(
                command, stdout=output, stderr=errors, env=environment()
            )

    @property
    def runs(self) -> list[dict[str, Any]]:
        """What became of the runs so far."""
        return [
            json.loads(line)
            for line in self._output.read_text().splitlines(keepends=True)
            if line[-1] == "\n"
        ]

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        return self._process.poll() is not None

    def kill(self) -> None:
        """Kills it."""
        self._process.kill()
        self._process.wait()

    def wait(self) -> None:
        """Waits for its end."""
        if self._process.wait() not in (0, -signal.SIGKILL):
            raise SystemExit(self._output.with_suffix(".err").read_text())


def environment() -> dict[str, str]:
    """Returns the variables of a child that imports this checkout."""
    return os.environ | {"PYTHONPATH": str(ROOT), "MLFLOW_DISABLE_TELEMETRY": "true"}


@contextlib.contextmanager
def clients(stores: Sequence[Store], uri: str, experiment: str) -> Iterator[list[Client]]:
    """Starts a client for each store, and waits for all of them."""
    started = [Client(store, uri, experiment) for store in stores]
    try:
        yield started
        for client in started:
            client.wait()
    finally:
        for client in started:
            client.kill()


def time_clients(folder: Path, uri: str, num_clients: int) -> str:
    """Returns a row of the table of times: seconds a run, and of what."""
    name = f"timed-{num_clients}"
    with clients(
        build_stores(folder, uri, name, TIMED * num_clients, num_clients), uri, name
    ) as started:
        pass
    runs = [
        run for client in started for run in client.runs[1:]
    ]  # the first one makes the experiment
    assert not any(run["problem"] for run in runs), runs
    seconds = [run["seconds"] for run in runs]
    spent = collections.Counter[str]()
    for run in runs:
        spent.update(run["spent"])
    spent["plots, figures, notes: here"] = sum(seconds) - spent.total()
    parts = ", ".join(f"{kind} {part / sum(seconds):.0%}" for kind, part in spent.most_common(5))
    return (
        f"| {num_clients} | {len(runs)} | **{statistics.median(seconds):.3f} s** |"
        f" {statistics.mean(seconds):.3f} s | {num_clients * len(runs) / sum(seconds):.1f} |"
        f" {parts} |"
    )


def survive(
    folder: Path, uri: str, num_runs: int, kill: str, killed: "MlflowServer | Postgres"
) -> Iterator[str]:
    """Has four clients track a sweep, kills what is to be killed in the middle, and recovers.

    Yields what was seen.
    """
    name = f"kill-{kill}"
    stores = build_stores(folder, uri, name, num_runs, CLIENTS)
    began = time.perf_counter()
    with clients(stores, uri, name) as started:
        while sum(len(client.runs) for client in started) < MIDDLE * num_runs:
            if all(client.is_over for client in started):
                raise SystemExit("the clients are done before anything was killed: more --runs")
            time.sleep(0.05)
        killed.kill()
        time.sleep(2)
        killed.start()
        started[-1].kill()
    seconds = time.perf_counter() - began
    done = [run for client in started for run in client.runs]
    failed = sum(bool(run["problem"]) for run in done)
    yield (
        f"{len(done)} of {num_runs} runs by {CLIENTS} clients in {seconds:.0f} s; {failed} of them"
        f" met a dead {kill}"
    )
    began = time.perf_counter()
    outcomes = recover(stores, uri)
    yield (
        f"`tfbench recover`, {CLIENTS} at once: {dict(outcomes)} in"
        f" {time.perf_counter() - began:.0f} s"
    )
    again = recover(stores, uri)
    yield f"`tfbench recover` again: {dict(again) or 'nothing to recover'}"


def recover(stores: Sequence[Store], uri: str) -> "collections.Counter[str]":
    """Runs `tfbench recover` on all stores at once; returns how often which outcome was told."""
    command = [
        sys.executable,
        "-m",
        "tfbench",
        "recover",
        "--tracking-uri",
        uri,
        "--format",
        "json",
        "--store",
    ]
    started = [
        subprocess.Popen(
            [*command, str(store.root)], stdout=subprocess.PIPE, env=environment(), cwd=ROOT
        )
        for store in stores
    ]
    outputs = [process.communicate()[0] for process in started]
    runs = [run for output in outputs for run in json.loads(output)["runs"]]
    for run in runs:
        if run["status"] != "recovered":
            click.echo(f"{run['run_id']}: {run['outcome']}: {run['message']}", err=True)
    return collections.Counter(run["status"] for run in runs)


@click.command()
@click.option(
    "--runs", "num_runs", default=1000, show_default=True, help="Of the sweep of four clients."
)
@click.option(
    "--kill",
    "kills",
    type=click.Choice(["server", "PostgreSQL"]),
    multiple=True,
    default=["server", "PostgreSQL"],
    show_default=True,
    help="What is killed in the middle; a sweep each.",
)
@click.option("--workers", default=2, show_default=True, help="Processes of the MLflow server.")
@click.option("--client", "client", nargs=3, hidden=True)
def main(
    num_runs: int, kills: tuple[str, ...], workers: int, client: tuple[str, str, str] | None
) -> None:
    """Prints a table of times, and what was lost."""
    if client:
        track_all(Path(client[0]), *client[1:])
        return
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        folder = Path(name)
        folder.chmod(0o755)  # PostgreSQL's user goes through
        postgres = Postgres(folder / "postgres")
        stack.callback(postgres.close)
        postgres.start()
        server = MlflowServer(folder, postgres.uri, workers=workers)
        stack.callback(server.close)
        server.start()
        click.echo(
            "| clients | runs | median of a run | mean | runs/s | of that |\n| --- | --- | --- |"
            " --- | --- | --- |"
        )
        for num_clients in (1, CLIENTS):
            click.echo(time_clients(folder, server.uri, num_clients))
        for kill in kills:
            click.echo(f"\nkill -9 of {kill}:\n")
            for line in survive(
                folder, server.uri, num_runs, kill, server if kill == "server" else postgres
            ):
                click.echo(f"- {line}")
            for line in verify(folder, server, postgres.uri, f"kill-{kill}", num_runs):
                click.echo(f"- {line}")
    click.echo(f"\n{describe_machine()}")


if __name__ == "__main__":
    main()
