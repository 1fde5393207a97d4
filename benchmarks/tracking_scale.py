"""What tracking costs at scale, and whether anything is lost: clients, MLflow's server, PostgreSQL.

    apt-get install postgresql && pip install psycopg2-binary
    python benchmarks/tracking_scale.py
    python benchmarks/tracking_scale.py --runs 100 --kill server

Starts a PostgreSQL and an `mlflow server` of its own, in a temporary folder. Runs of known truth
are brought into it by `tfbench recover`, one client a store and all at once.

First one client, then four, for the time. Then, for each of `--kill`, four clients with the whole
sweep: in the middle, the MLflow server or PostgreSQL is killed with SIGKILL, and one client. What
was killed is started again, but for the client. What is missing then is brought by a second
`tfbench recover`. Then all is read back, and compared with the truth: runs, every value of every
epoch, parameters, tags, statuses, files.
"""

import collections
import contextlib
import dataclasses
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import click
from harness import describe_machine, print_head, print_row

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests" / "support"))

from postgres import Postgres  # noqa: E402

from builders import build_epoch  # noqa: E402
from journals import build_sized_result, write_journal  # noqa: E402
from servers import MlflowServer, require_tracked, search_runs  # noqa: E402
from tfbench.runs.record import RunExit, RunResult  # noqa: E402
from tfbench.store.store import Store, TrackingState  # noqa: E402

CLIENTS = 4
TIMED = 50  # runs a client, where the time is taken
MIDDLE = 0.4  # of the runs are there when something is killed
LONG_EPOCHS = 150  # of one run: more values than MLflow takes in one call
EXITS = {
    7: RunExit(status="FAILED", reason="planted"),
    11: RunExit(status="KILLED", reason="planted, too"),
}


def build_run(index: int) -> RunResult:
    """Builds a run of a few epochs, each value its own; some failed, some were killed."""
    plain = build_sized_result(index)
    epochs = []
    for number in range(1, 1 + (LONG_EPOCHS if index == 3 else 3)):
        epochs.append(
            build_epoch(
                epoch=number,
                samples_per_second=1000.0 + index + number / 1000,
                loss=1.0 / (index + number),
                val_accuracy=index / 1e4 + number / 1e6,
                finished_at=1_700_000_010.0 + index + number,
            )
        )
    ended_at = epochs[-1].finished_at + 3.0
    exit_ = EXITS.get(index % 50, plain.exit)
    return dataclasses.replace(plain, epochs=tuple(epochs), exit=exit_, ended_at=ended_at)


def build_stores(folder: Path, uri: str, name: str, num_runs: int, num_clients: int) -> list[Store]:
    """Writes the journals of runs into a store a client, none of them tracked yet."""
    stores = [Store(folder / f"{name}-{client}") for client in range(num_clients)]
    for index in range(num_runs):
        store = stores[index % num_clients]
        result = build_run(index)
        write_journal(store, result)
        store.write_state(result.request.run_id, TrackingState(tracking_uri=uri, experiment=name))
    return stores


def start_clients(stores: Sequence[Store]) -> list["subprocess.Popen[bytes]"]:
    """Starts to bring the runs of all stores to the server."""
    command = [sys.executable, "-m", "tfbench", "recover", "--format", "json", "--store"]
    variables = os.environ | {"PYTHONPATH": str(ROOT), "MLFLOW_DISABLE_TELEMETRY": "true"}
    clients = []
    for store in stores:
        words = [*command, str(store.root)]
        clients.append(subprocess.Popen(words, stdout=subprocess.PIPE, env=variables, cwd=ROOT))
    return clients


def wait_for(clients: Sequence["subprocess.Popen[bytes]"]) -> "collections.Counter[str]":
    """Waits for the end of clients; returns how many runs had which outcome, where they told."""
    outcomes = collections.Counter[str]()
    for client in clients:
        text, _ = client.communicate()
        outcomes.update(run["status"] for run in (json.loads(text)["runs"] if text else ()))
    return outcomes


def time_clients(folder: Path, uri: str, num_clients: int) -> None:
    """Prints a row of the table of times."""
    num_runs = TIMED * num_clients
    stores = build_stores(folder, uri, f"timed-{num_clients}", num_runs, num_clients)
    began = time.perf_counter()
    outcomes = wait_for(start_clients(stores))
    seconds = time.perf_counter() - began
    assert outcomes == {"recovered": num_runs}, outcomes
    print_row(num_clients, num_runs, f"{seconds:.1f} s", f"**{num_runs / seconds:.1f}**")


def count_tracked(stores: Sequence[Store]) -> int:
    """Returns how many runs were sent whole."""
    num_tracked = 0
    for store in stores:
        for run_id in store.run_ids():
            state = store.read_state(run_id)
            num_tracked += bool(state and state.projected_bytes)
    return num_tracked


def survive(folder: Path, uri: str, num_runs: int, killed: MlflowServer | Postgres) -> list[Store]:
    """Kills something while four clients track a sweep, recovers, and prints what was seen."""
    stores = build_stores(folder, uri, f"kill-{type(killed).__name__}", num_runs, CLIENTS)
    clients = start_clients(stores)
    while count_tracked(stores) < MIDDLE * num_runs:
        if all(client.poll() is not None for client in clients):
            raise SystemExit("the clients are done before anything was killed: more --runs")
        time.sleep(0.05)
    killed.close(signal.SIGKILL)
    time.sleep(2)
    killed.start()
    clients[-1].kill()
    outcomes = dict(wait_for(clients))
    click.echo(f"- {CLIENTS} clients, of which one was killed: {outcomes} of {num_runs} runs")
    for _ in range(2):
        outcomes = dict(wait_for(start_clients(stores)))
        click.echo(f"- `tfbench recover`, {CLIENTS} at once: {outcomes or 'nothing to recover'}")
    return stores


def verify(server: MlflowServer, experiment: str, stores: Sequence[Store]) -> None:
    """Reads a sweep back from a server; prints what was found, and what is not as it should be."""
    expected = {run_id: store for store in stores for run_id in store.run_ids()}
    found = collections.Counter[str]()
    faults = []
    for run in search_runs(server, experiment):
        run_id = run.data.tags["tfbench.run_id"]
        found[run_id] += 1
        try:
            require_tracked(server, run, build_run(int(run_id, 16)), expected[run_id])
        except AssertionError as error:
            faults.append(f"run {run_id}: {error}")
    for run_id in expected:
        if found[run_id] != 1:
            faults.append(f"run {run_id}: {found[run_id]} times")
    click.echo(f"- read back: {found.total():,} runs")
    click.echo("\n  - ".join([f"- **{len(faults)} faults**", *faults[:20]]))


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
def main(num_runs: int, kills: tuple[str, ...], workers: int) -> None:
    """Prints a table of times, and what was lost."""
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        folder = Path(name)
        folder.chmod(0o755)  # PostgreSQL's user goes through
        postgres = Postgres(folder / "postgres")
        stack.callback(postgres.close)
        postgres.start()
        server = MlflowServer(folder, postgres.uri, workers=workers)
        stack.callback(server.close)
        server.start()
        print_head("clients", "runs", "time, start included", "runs/s")
        for num_clients in (1, CLIENTS):
            time_clients(folder, server.uri, num_clients)
        for kill in kills:
            click.echo(f"\nkill -9 of {kill}:\n")
            killed = server if kill == "server" else postgres
            stores = survive(folder, server.uri, num_runs, killed)
            verify(server, f"kill-{type(killed).__name__}", stores)
    click.echo(f"\n{describe_machine()}")


if __name__ == "__main__":
    main()
