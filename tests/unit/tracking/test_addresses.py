"""Addresses of servers and databases: rejected in words, and without their passwords in notes, messages, tracebacks."""

import json
import sys
import threading
import time
import traceback
from pathlib import Path

import pytest

from journals import build_sized_result, write_journal
from tfbench.errors import TrackingError
from tfbench.runs.run_maker import choose_place, open_tracker
from tfbench.store.store import Store
from tfbench.store.tracking_state import TrackingState
from tfbench.tracking import follow
from tfbench.tracking.address import find_named, require_address
from tfbench.tracking.mlflow_calls import explained
from tfbench.tracking.mlflow_tracker import MlflowTracker

SERVER = "https://me:s3cret@mlflow.example/team"
DATABASE = "postgresql+psycopg2://me:s3cret@127.0.0.1:1/mlflow"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = Store(tmp_path / "mlruns")
    write_journal(store, build_sized_result(0))
    return store


@pytest.mark.parametrize(
    "uri",
    [
        SERVER,
        DATABASE,
        "https://t0ken-s3cret@h",
        "postgresql://h/db?password=s3cret",
        "postgresql://me.x:12/s3cret@h/db",  # SQLAlchemy takes 12/s3cret for the password
    ],
)
def test_a_store_notes_where_to_and_no_password(store: Store, uri: str) -> None:
    (run_id,) = store.run_ids()
    store.write_state(run_id, TrackingState(tracking_uri=uri, experiment="x"))
    state = store.read_state(run_id)
    assert state and "***" in state.tracking_uri
    assert not [path for path in store.journals.iterdir() if b"s3cret" in path.read_bytes()]
    assert find_named(state.tracking_uri, ("https://other", None, uri)) == uri


@pytest.mark.parametrize("uri", [SERVER, DATABASE])
def test_the_password_comes_from_the_user_s_call_or_environment(
    store: Store, monkeypatch: pytest.MonkeyPatch, uri: str
) -> None:
    state = TrackingState(tracking_uri=uri.replace("s3cret", "***"), experiment="x")
    with pytest.raises(TrackingError, match=r"with the password in place of \*\*\*"):
        open_tracker(state, store)
    assert open_tracker(state, store, uri)._place[0] == uri
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    assert open_tracker(state, store)._place[0] == uri
    without = uri.replace("me:s3cret@", "")  # it may be in MLFLOW_TRACKING_PASSWORD, or in PGPASSWORD
    assert open_tracker(state, store, without)._place[0] == without


@pytest.mark.parametrize(
    ("uri", "reason"),
    [
        ("https://mlflow.example/?token=s3cret", "must end with the path: MLflow takes a token from MLFLOW_TRACKING_T"),
        ("https://me:pw#s3cret@mlflow.example", "a password with ?, # or / in it as %3F, %23 or %2F"),
        ("https://me:***@mlflow.example", r"*** stands for a password, which is shown nowhere. Write it."),
        ("https://me:s3 cret\"'s3cret@mlflow.example", "must have no spaces, quotes, < or > in it"),
        ("postgresql://me:<s3cret>@db/mlflow", "must have no spaces, quotes, < or > in it"),
        ("http://[s3cret", "is none: "),
        ("http://me:12/s3cret@localhost:5000", "must be like http://USER:PASSWORD@HOST:PORT, the port a number"),
        ("http://me.x:12/s3cret@localhost:5000", "write :, /, ?, # and @ as %3A, %2F, %3F, %23 and %40"),
        ("http://me:s3cret", "must be like http://"),
        ("postgresql+psycopg2://me:s3cret", "must be like postgresql://"),
        ("postgresql://me:pw@h:s3cret/db", "must be like postgresql://"),
        ("sqlite:////data/50%/mlflow.db", "a path of SQLite must have no ?, # or %"),
        ("sqlite:////data/a?b/mlflow.db", "a path of SQLite must have no ?, # or %"),
        ("sqlite:////data/a#b/mlflow.db", "a path of SQLite must have no ?, # or %"),
    ],
)
def test_an_address_that_cannot_be_used_is_rejected_and_its_password_not_shown(
    store: Store, uri: str, reason: str
) -> None:
    for reject in (
        lambda: require_address(uri),
        lambda: choose_place(store, tracking_uri=uri, experiment=None),  # though nothing is tracked
        lambda: MlflowTracker(uri, "x", store),
    ):
        with pytest.raises(TrackingError) as caught:
            reject()
        assert reason in str(caught.value)
        assert "s3cret" not in str(caught.value).replace("http://[s3cret", "")


@pytest.mark.parametrize(
    "uri",
    [
        "sqlite:////my data/mlflow.db",
        "https://me:pw@mlflow.example:5000/team/",
        "http://[::1]:5000",
        "mysql+pymysql://me:p/w@[::1]:3306/db?unix_socket=/tmp/x",
        "postgresql:///db?host=/var/run",
        "mssql+pyodbc:///?odbc_connect=DSN%3Dx",
        "databricks://profile",
        "databricks",
    ],
)
def test_addresses_of_all_kinds_are_taken(uri: str) -> None:
    require_address(uri)


def test_a_traceback_has_no_password_of_mlflow_s_own_error() -> None:
    from mlflow.exceptions import MlflowException

    with pytest.raises(TrackingError) as caught, explained(SERVER, "Try again."):
        try:
            raise OSError(f"for url {SERVER}")
        except OSError as error:
            raise MlflowException("rejected") from error
    shown = "".join(traceback.format_exception(caught.value))
    assert "MLflow at https://me:***@mlflow.example/team: rejected. Try again." in shown
    assert "s3cret" not in shown

    with pytest.raises(TrackingError) as caught, explained(SERVER, "Try again."):
        raise MlflowException("rejected")
    assert isinstance(caught.value.__cause__, MlflowException)


def test_an_answer_that_is_no_utf_8_or_no_json_is_an_error_of_the_server() -> None:
    for make in (lambda: b"\xe9".decode(), lambda: json.loads("<html>")):
        with (
            pytest.raises(TrackingError, match=r"MLflow at postgresql\+psycopg2://me:\*\*\*@"),
            explained(DATABASE, "Try again."),
        ):
            make()


def test_a_bug_in_mlflow_s_process_is_told_without_a_password() -> None:
    def fail() -> None:
        raise RuntimeError(f"{SERVER} is odd")

    kind, error = follow._answer(fail, (), {})
    assert (kind, type(error)) == ("raise", RuntimeError)
    assert "https://me:***@mlflow.example/team is odd" in str(error)
    assert "s3cret" not in str(error)


def test_a_database_without_its_driver_is_rejected_at_once(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg2", None)
    with pytest.raises(TrackingError) as caught:
        MlflowTracker(DATABASE, "x", store).prepare()
    assert str(caught.value) == (
        "MLflow at postgresql+psycopg2://me:***@127.0.0.1:1/mlflow: the driver psycopg2 is not installed. Install it; "
        "psycopg2-binary, for one, is that of an address that begins with postgresql+psycopg2://."
    )


def test_a_database_that_is_down_is_asked_once(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("psycopg2")
    here, sleep = threading.current_thread(), time.sleep

    def reject(seconds: float) -> None:  # MLflow's own waiting, too, and that of no other thread
        if threading.current_thread() is here:
            pytest.fail("it was tried again")
        sleep(seconds)

    monkeypatch.setattr(time, "sleep", reject)
    with pytest.raises(
        TrackingError, match=r"MLflow at postgresql\+psycopg2://me:\*\*\*@127.0.0.1:1/mlflow: .*refused"
    ):
        MlflowTracker(DATABASE, "x", store).prepare()
