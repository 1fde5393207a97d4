"""Addresses of servers and databases.

Rejected in words, and without their passwords in notes, messages, tracebacks.
"""

import json
import traceback
from pathlib import Path

import pytest

from journals import build_sized_result, write_journal
from outcomes import error_of
from tfbench.errors import TrackingError
from tfbench.runs.maker import open_maker, open_tracker
from tfbench.store.store import Store, TrackingState
from tfbench.tracking import mlflow_tracker
from tfbench.tracking.address import require_address
from tfbench.tracking.mlflow_calls import explained
from tfbench.tracking.mlflow_tracker import MlflowTracker

SERVER = "https://me:s3cret@mlflow.example/team"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = Store(tmp_path / "mlruns")
    write_journal(store, build_sized_result(0))
    return store


def test_the_password_comes_from_the_user_s_call_or_environment(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri = SERVER
    masked = uri.replace("s3cret", "***")
    with pytest.raises(TrackingError, match=r"with its password for \*\*\*"):
        open_tracker(masked, "x", store)
    assert open_tracker(masked, "x", store, uri)._place[0] == uri
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    assert open_tracker(masked, "x", store)._place[0] == uri
    without = uri.replace(
        "me:s3cret@", ""
    )  # it may be in MLFLOW_TRACKING_PASSWORD, or in PGPASSWORD
    assert open_tracker(masked, "x", store, without)._place[0] == without


def test_the_experiment_of_new_runs_is_that_of_mlflow_s_variable(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def choose(experiment: str | None, before: TrackingState | None = None) -> str:
        return open_maker(store, False, None, experiment, before).state.experiment

    before = TrackingState(tracking_uri=store.tracking_uri, experiment="before")
    assert choose(None) == "tfbench"
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "theirs")
    assert (choose(None), choose("typed")) == ("theirs", "typed")
    assert (choose(None, before), choose("typed", before)) == ("before", "typed")


@pytest.mark.parametrize(
    ("uri", "reason"),
    [
        ("https://mlflow.example/?token=s3cret", "MLFLOW_TRACKING_TOKEN is for a token"),
        ("https://me:pw#s3cret@mlflow.example", "write special characters as %3A, %2F"),
        ("https://me:***@mlflow.example", "replace *** by the password."),
        *(
            (uri, "must be like http://USER:PASSWORD@HOST:PORT/PATH, the port a number")
            for uri in (
                "http://me:s3 cret\"'s3cret@mlflow.example",
                "http://[s3cret",
                "http://me:12/s3cret@localhost:5000",
                "http://me.x:12/s3cret@localhost:5000",
                "http://me:s3cret",
            )
        ),
        (
            "postgresql://me:<s3cret>@db/mlflow",
            "must begin with one of http, https, sqlite, databricks",
        ),
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
        lambda: open_maker(store, False, uri, None),  # though nothing is tracked
        lambda: MlflowTracker(uri, "x", store),
    ):
        message = error_of(TrackingError, reject)
        assert reason in message
        assert "s3cret" not in message


@pytest.mark.parametrize(
    "uri",
    [
        "sqlite:////my data/mlflow.db",
        "https://me:pw@mlflow.example:5000/team/",
        "http://[::1]:5000",
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


def test_an_answer_that_is_no_utf_8_or_no_json_is_an_error_of_the_server() -> None:
    for make in (lambda: b"\xe9".decode(), lambda: json.loads("<html>")):
        with (
            pytest.raises(TrackingError, match=r"MLflow at https://me:\*\*\*@"),
            explained(SERVER, "Try again."),
        ):
            make()


def test_a_bug_in_mlflow_s_process_is_told_without_a_password() -> None:
    def fail() -> None:
        raise RuntimeError(f"{SERVER} is odd")

    kind, error = mlflow_tracker._answer(fail, ())
    assert (kind, type(error)) == (False, RuntimeError)
    assert "https://me:***@mlflow.example/team is odd" in str(error)
    assert "s3cret" not in str(error)
