"""Calls of MLflow: quiet, bounded where a server does not answer, and with errors that say how to go on."""

import contextlib
import json
import logging
import os
import sqlite3
import sys
import traceback
from collections.abc import Iterable, Iterator

from tfbench.errors import TrackingError
from tfbench.machine.lean_import import import_without
from tfbench.wording import cut, without_secrets

_SETTINGS = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
}
# MLflow's own values let a call to a server that is down last four minutes. The first retry comes without a pause.
_RETRIES, _TIMEOUT = "MLFLOW_HTTP_REQUEST_MAX_RETRIES", "MLFLOW_HTTP_REQUEST_TIMEOUT"
DEFAULT_PATIENCE_SECONDS = 20.0
_PATIENT_DRIVERS = ("psycopg", "psycopg2", "mysqldb", "pymysql")  # of databases, which call their patience alike
_NOISY = ("mlflow", "mlflow.store.db.utils", "alembic", "urllib3.connectionpool")


def set_up_mlflow(patience_seconds: float | None = None, left_out: Iterable[str] = ()) -> None:
    """Imports MLflow, so that it says nothing unasked, and sets for how long it waits for a server.

    Args:
        patience_seconds: As of `find_patience`.
        left_out: Packages that it is not to find, if it is imported for the first time.
    """
    os.environ.update(_SETTINGS | _server_settings(patience_seconds))
    if "mlflow" not in sys.modules:
        import_without("mlflow", left_out)  # sets up its loggers, which must not happen after ours

    for name in _NOISY:  # all that matters is raised, too
        logging.getLogger(name).setLevel(logging.CRITICAL)


def find_patience(given: float | None = None) -> float:
    """Returns for how many seconds MLflow waits for a server that does not answer, with its retries.

    Args:
        given: By tfbench's user; None: what MLflow's own variables say, else `DEFAULT_PATIENCE_SECONDS`.

    Raises:
        TrackingError: The variables hold no numbers.
    """
    settings = _server_settings(given)
    try:
        return float(settings[_TIMEOUT]) * (1 + float(settings[_RETRIES]))
    except ValueError as error:
        raise TrackingError(f"{_TIMEOUT} and {_RETRIES} must be numbers: {error}.") from error


def _server_settings(given: float | None) -> dict[str, str]:
    timeout = max(1, int((given or DEFAULT_PATIENCE_SECONDS) / 2))  # whole seconds are all that MLflow reads
    own = {name: os.environ[name] for name in (_RETRIES, _TIMEOUT) if given is None and name in os.environ}
    return {_RETRIES: "1", _TIMEOUT: str(timeout)} | own


@contextlib.contextmanager
def explained(uri: str, remedy: str) -> Iterator[None]:
    """Turns what MLflow raises into errors that say where, what, and how to go on.

    Raises:
        TrackingError: Anything went wrong with it.
    """
    try:
        yield
    # A driver of another database may not be installed, and what a server says need not be UTF-8 or JSON.
    except (OSError, sqlite3.Error, ImportError, UnicodeError, json.JSONDecodeError) as error:
        raise _explain(error, uri, remedy) from _shown_cause(error)
    except Exception as error:
        if not type(error).__module__.startswith(("mlflow.", "sqlalchemy.", "alembic.")):
            raise
        raise _explain(error, uri, remedy) from _shown_cause(error)


def require_database_server(uri: str) -> None:
    """Connects to a database that is no file: MLflow would try for a minute, whatever is wrong.

    Raises:
        TrackingError: Its driver is not installed.
        sqlalchemy.exc.SQLAlchemyError: It does not let anybody in.
    """
    from sqlalchemy import create_engine, make_url

    url = make_url(uri)
    seconds = max(2, int(find_patience()))  # less than two is none, to PostgreSQL
    arguments = {"connect_timeout": seconds} if url.get_driver_name() in _PATIENT_DRIVERS else {}
    try:
        engine = create_engine(url, connect_args=arguments)
    except ModuleNotFoundError as error:
        raise TrackingError(
            f"MLflow at {without_secrets(uri)}: the driver {error.name} is not installed. Install it; psycopg2-binary, "
            "for one, is that of an address that begins with postgresql+psycopg2://."
        ) from error
    try:
        engine.connect().close()
    finally:
        engine.dispose()


@contextlib.contextmanager
def unrepeated() -> Iterator[None]:
    """Has MLflow ask a server once: what is repeated after a lost answer is done twice."""
    before = os.environ[_RETRIES]
    os.environ[_RETRIES] = "0"
    try:
        yield
    finally:
        os.environ[_RETRIES] = before


def _explain(error: Exception, uri: str, remedy: str) -> TrackingError:
    text = (str(error).strip() or type(error).__name__).splitlines()[0]
    return TrackingError(f"MLflow at {without_secrets(uri)}: {cut(without_secrets(text), 400)}. {remedy}".rstrip())


def _shown_cause(error: Exception) -> Exception | None:
    """Returns what a traceback may show of an error of MLflow, which has the server's whole address in some of them."""
    text = "".join(traceback.format_exception(error))
    return error if without_secrets(text) == text else None
