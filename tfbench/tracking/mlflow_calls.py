"""Calls of MLflow: quiet, bounded where a server does not answer, and with errors that say how to go on."""

import contextlib
import json
import logging
import os
import sqlite3
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator

from tfbench.errors import TrackingError
from tfbench.machine.lean_import import import_without
from tfbench.tracking.address import is_database_server, is_server
from tfbench.tracking.tracker import SilentServerError
from tfbench.wording import cut, without_secrets

_SETTINGS = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
}
# MLflow's own values let a call to a server that is down last four minutes. The first retry comes without a pause.
_RETRIES, _TIMEOUT = "MLFLOW_HTTP_REQUEST_MAX_RETRIES", "MLFLOW_HTTP_REQUEST_TIMEOUT"
DEFAULT_PATIENCE_SECONDS = 20.0
WORD_SECONDS = 5.0  # of a call to a server, after which its user hears what is waited for
_PATIENT_DRIVERS = ("psycopg", "psycopg2", "mysqldb", "pymysql")  # of databases, which call their patience alike
_changing = threading.Lock()  # what is set there is MLflow's, for all of its calls
_NOISY = ("mlflow", "mlflow.store.db.utils", "alembic", "urllib3.connectionpool")


class Calls:
    """Calls of one server or database.

    Args:
        uri: Its address.
        patience_seconds: For a server that does not answer, two or more; None: what MLflow's own variables say, else
            `DEFAULT_PATIENCE_SECONDS`.
        tell: Called, from another thread, with what is waited for.
    """

    def __init__(self, uri: str, patience_seconds: float | None, tell: Callable[[str], None] | None) -> None:
        self._uri = uri
        self._shown = without_secrets(uri)
        self._patience_seconds = patience_seconds
        self._tell = tell

    def set_up(self) -> None:
        """Imports MLflow, and sets for how long it waits."""
        set_up_mlflow(self._patience_seconds)

    @contextlib.contextmanager
    def errors(self, remedy: str) -> Iterator[None]:
        """Turns what MLflow raises into errors that say where, what, and how to go on.

        Raises:
            SilentServerError: It did not answer.
            TrackingError: Anything else went wrong with it.
        """
        began = time.monotonic()
        try:
            with self._word():
                began = time.monotonic()
                yield
        # A driver of another database may not be installed, and what a server says need not be UTF-8 or JSON.
        except (OSError, sqlite3.Error, ImportError, UnicodeError, json.JSONDecodeError) as error:
            raise self._explain(error, remedy) from _shown_cause(error)
        except Exception as error:
            if not type(error).__module__.startswith(("mlflow.", "sqlalchemy.", "alembic.")):
                raise
            # A driver's clock may be coarse.
            if _is_elsewhere(self._uri) and time.monotonic() - began >= 0.9 * _read_patience():
                raise SilentServerError(
                    f"MLflow at {self._shown}: did not answer within {_read_patience():g} s, which "
                    f"TFBENCH_SERVER_TIMEOUT sets. {remedy}".rstrip()
                ) from _shown_cause(error)
            raise self._explain(error, remedy) from _shown_cause(error)

    @contextlib.contextmanager
    def _word(self) -> Iterator[None]:
        """Tells the user what is waited for, if it takes long."""
        if self._tell is None or not _is_elsewhere(self._uri):
            yield
            return
        self.set_up()  # importing it is no waiting for a server
        text = f"waiting for MLflow at {self._shown} (gives up after {_read_patience():g} s)"
        timer = threading.Timer(WORD_SECONDS, self._tell, [text])
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def require_database_server(self) -> None:
        """Connects to a database that is no file: MLflow would try for a minute, whatever is wrong.

        Raises:
            TrackingError: Its driver is not installed.
            sqlalchemy.exc.SQLAlchemyError: It does not let anybody in.
        """
        from sqlalchemy import create_engine, make_url

        url = make_url(self._uri)
        seconds = max(2, int(_read_patience()))  # less than two is none, to PostgreSQL
        arguments = {"connect_timeout": seconds} if url.get_driver_name() in _PATIENT_DRIVERS else {}
        try:
            engine = create_engine(url, connect_args=arguments)
        except ModuleNotFoundError as error:
            raise TrackingError(
                f"MLflow at {self._shown}: the driver {error.name} is not installed. Install it; psycopg2-binary, for "
                "one, is that of an address that begins with postgresql+psycopg2://."
            ) from error
        try:
            engine.connect().close()
        finally:
            engine.dispose()

    def _explain(self, error: Exception, remedy: str) -> TrackingError:
        text = (str(error).strip() or type(error).__name__).splitlines()[0]
        return TrackingError(f"MLflow at {self._shown}: {cut(without_secrets(text), 400)}. {remedy}".rstrip())


def set_up_mlflow(patience_seconds: float | None = None, left_out: Iterable[str] = ()) -> None:
    """Imports MLflow, which says nothing unasked, and sets for how long it waits for a server.

    Args:
        patience_seconds: For a server that does not answer; None: what its own variables say, else the default.
        left_out: Packages that it is not to find, if it is imported for the first time.
    """
    os.environ.update(_SETTINGS)
    timeout = max(1, int((patience_seconds or DEFAULT_PATIENCE_SECONDS) / 2))  # whole seconds are all that MLflow reads
    for name, value in {_RETRIES: "1", _TIMEOUT: str(timeout)}.items():
        if patience_seconds is not None or name not in os.environ:
            os.environ[name] = value
    import_without("mlflow", left_out)  # sets up its loggers, which must not happen after ours

    for name in _NOISY:  # all that matters is raised, too
        logging.getLogger(name).setLevel(logging.CRITICAL)


@contextlib.contextmanager
def unrepeated() -> Iterator[None]:
    """Has MLflow ask a server once: what is repeated after a lost answer is done twice."""
    with _changing:
        before = os.environ[_RETRIES]
        os.environ[_RETRIES] = "0"
        try:
            yield
        finally:
            os.environ[_RETRIES] = before


def _is_elsewhere(uri: str) -> bool:
    return is_server(uri) or is_database_server(uri)


def _shown_cause(error: Exception) -> Exception | None:
    """Returns what a traceback may show of an error of MLflow, which has the server's whole address in some of them."""
    text = "".join(traceback.format_exception(error))
    return error if without_secrets(text) == text else None


def find_patience(given: float | None) -> float:
    """Returns for how many seconds MLflow will wait for a server, where it is not set up yet."""
    try:
        own = float(os.environ.get(_TIMEOUT, DEFAULT_PATIENCE_SECONDS / 2)) * (1 + float(os.environ.get(_RETRIES, 1)))
    except ValueError:  # which is said once it is asked
        own = DEFAULT_PATIENCE_SECONDS
    return given or own


def _read_patience() -> float:
    """Returns for how many seconds MLflow waits for a server that does not answer, with its retries."""
    try:
        return float(os.environ[_TIMEOUT]) * (1 + float(os.environ[_RETRIES]))
    except ValueError as error:
        raise TrackingError(f"{_TIMEOUT} and {_RETRIES} must be numbers: {error}.") from error
