"""Addresses of MLflow: which can be one, which name a file, and how one is shown."""

import re
from pathlib import Path

from tfbench.errors import TrackingError

_SCHEMES = ("http", "https", "sqlite", "postgresql", "mysql", "mssql", "databricks")  # of mlflow, but for files


def without_password(text: str) -> str:
    """Returns an address as it may be shown."""
    return re.sub(r"(://[^/@:\s]*):[^/@\s]*@", r"\1:***@", text)


def require_address(tracking_uri: str) -> None:
    """Refuses what can never be the address of an MLflow server or database.

    Raises:
        TrackingError: Naming what an address begins with.
    """
    scheme = tracking_uri.partition("://" if "://" in tracking_uri else ":")[0].partition("+")[0].lower()
    if scheme not in _SCHEMES:
        raise TrackingError(
            f"tracking URI {without_password(tracking_uri)}: must begin with one of {', '.join(_SCHEMES)}, for example "
            "http://127.0.0.1:5000 or sqlite:////data/mlflow.db."
        )


def is_server(tracking_uri: str) -> bool:
    """Says whether an address is one of a server, which a browser can open."""
    return tracking_uri.lower().startswith(("http://", "https://"))


def database_of(tracking_uri: str) -> Path | None:
    """Returns the file that an address of SQLite names."""
    match = re.fullmatch(r"sqlite:///([^?]+)", tracking_uri)
    return Path(match[1]).absolute() if match and match[1] != ":memory:" else None
