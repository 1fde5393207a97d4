"""Addresses of MLflow: which can be one, which name a file, and which of them a user has named."""

import re
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import unquote, urlsplit

from tfbench.errors import TrackingError
from tfbench.records.plain_files import list_plain
from tfbench.wording import without_secrets

_SCHEMES = ("http", "https", "sqlite", "postgresql", "mysql", "mssql", "databricks")  # of mlflow, but for files


def require_address(tracking_uri: str) -> None:
    """Refuses what can never be the address of an MLflow server or database.

    Raises:
        TrackingError: Naming what an address begins with.
    """
    scheme = tracking_uri.partition("://" if "://" in tracking_uri else ":")[0].partition("+")[0].lower()
    if scheme not in _SCHEMES:
        raise TrackingError(
            f"tracking URI {without_secrets(tracking_uri)}: must begin with one of {', '.join(_SCHEMES)}, for example "
            "http://127.0.0.1:5000 or sqlite:////data/mlflow.db."
        )


def is_server(tracking_uri: str) -> bool:
    """Says whether an address is one of a server, which a browser can open."""
    return tracking_uri.lower().startswith(("http://", "https://"))


def database_of(tracking_uri: str) -> Path | None:
    """Returns the file that an address of SQLite names."""
    match = re.fullmatch(r"sqlite:///([^?]+)", tracking_uri)
    return Path(match[1]).absolute() if match and match[1] != ":memory:" else None


def require_named(tracking_uri: str, named: Iterable[str | None]) -> None:
    """Refuses an address that stands in a store, and that the user has not named: his token would be sent there.

    Args:
        tracking_uri: As the store has it, which may come from somebody else.
        named: Addresses that the user gave for this call, or set for himself.

    Raises:
        TrackingError: Saying which address the store wants, and how to allow it.
    """
    if not any(uri and _place(uri) == _place(tracking_uri) for uri in named):
        shown = without_secrets(tracking_uri)
        raise TrackingError(
            f"{shown}: is where the store has runs tracked, and you have not named it. Nothing is sent there, since "
            "your MLflow password or token would go along. If you trust it, name it with --tracking-uri "
            f"{shown}, or in MLFLOW_TRACKING_URI."
        )


def require_artifact_place(artifact_uri: str, tracking_uri: str) -> None:
    """Refuses a place for a run's files that a database or a server names, and that is not of its own kind.

    Raises:
        TrackingError: It is another server, which would get the user's token, or a folder that MLflow does not make.
    """
    parts = urlsplit(artifact_uri)
    if parts.scheme in ("http", "https", "mlflow-artifacts"):
        if parts.netloc and _host(parts.netloc) != _host(urlsplit(tracking_uri).netloc):
            raise TrackingError(f"{without_secrets(artifact_uri)}: files of a run would go to another server than it.")
    elif parts.scheme in ("", "file"):
        folder = Path(unquote(parts.path))
        if not re.fullmatch(r".*/\w{32}/artifacts/?", str(folder)):
            raise TrackingError(f"{folder}: is where MLflow has the files of a run, and is no folder of a run's files.")
        list_plain(folder.parent)


def _place(uri: str) -> tuple[str, str] | Path:
    """Returns what tells places apart: a server's scheme, host and port; a file; else the whole address."""
    if is_server(uri):
        return urlsplit(uri).scheme, _host(urlsplit(uri).netloc)
    return database_of(uri) or ("", uri)


def _host(netloc: str) -> str:
    return netloc.rpartition("@")[2].lower()
