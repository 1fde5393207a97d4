"""Addresses of MLflow: which can be one, which name a file, and which of them a user has named.

A store keeps them without their passwords (`wording.without_secrets`): who goes on names them again.
"""

import re
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

from tfbench.errors import TrackingError
from tfbench.wording import without_secrets

_SCHEMES = ("http", "https", "sqlite", "postgresql", "mysql", "mssql", "databricks")  # of mlflow, but for files
_MASK = "***"
_FORM = re.compile(r"[^:/]+://([^:/@]*(:[^@]*)?@)?(\[[^\]/?#]*\]|[^:/?#@]*)(:\d*)?([/?#].*)?")  # as SQLAlchemy's


def require_address(tracking_uri: str) -> None:
    """Rejects what can never be the address of an MLflow server or database.

    Raises:
        TrackingError: Naming what an address begins with, or what it must not have in it.
    """
    scheme = _scheme(tracking_uri)
    if scheme not in _SCHEMES:
        raise TrackingError(
            f"tracking URI {without_secrets(tracking_uri)}: must begin with one of {', '.join(_SCHEMES)}, for example "
            "http://127.0.0.1:5000 or sqlite:////data/mlflow.db."
        )
    if scheme == "sqlite" and set("?#%") & set(tracking_uri):  # MLflow would have its database elsewhere
        raise TrackingError(f"tracking URI {tracking_uri}: a path of SQLite must have no ?, # or %. Use another file.")
    if scheme != "sqlite" and re.search(r"""[\s"<>]""", tracking_uri):  # where a password ends could not be told
        raise TrackingError(
            f"tracking URI of {scheme}: must have no spaces, quotes, < or > in it. In a password, write them as %20, "
            "%22, %3C and %3E."
        )
    if is_server(tracking_uri):
        _require_server(tracking_uri)
    if is_elsewhere(tracking_uri) and not _FORM.fullmatch(tracking_uri):
        raise _no_address(scheme)


def is_server(tracking_uri: str) -> bool:
    """Says whether an address is one of a server, which a browser can open."""
    return tracking_uri.lower().startswith(("http://", "https://"))


def is_database_server(tracking_uri: str) -> bool:
    """Says whether an address is one of a database that is no file, which MLflow can write to without a server."""
    return _scheme(tracking_uri) in ("postgresql", "mysql", "mssql")


def is_elsewhere(tracking_uri: str) -> bool:
    """Says whether an address is one of what may not answer."""
    return is_server(tracking_uri) or is_database_server(tracking_uri)


def database_of(tracking_uri: str) -> Path | None:
    """Returns the file that an address of SQLite names."""
    match = re.fullmatch(r"sqlite:///([^?]+)", tracking_uri)
    return Path(match[1]).absolute() if match and match[1] != ":memory:" else None


def find_named(tracking_uri: str, named: Iterable[str | None]) -> str:
    """Returns an address that stands in a store as the user has named it: with the password that no store keeps.

    Args:
        tracking_uri: As the store has it, which may come from somebody else.
        named: Addresses that the user gave for this call, or set for himself.

    Raises:
        TrackingError: He has named none of that place, where his token would be sent; saying how to allow it.
    """
    for uri in named:
        if uri and _place(uri) == _place(tracking_uri):
            return uri
    shown = without_secrets(tracking_uri)
    raise TrackingError(
        f"{shown}: is where the store has runs tracked, and you have not named it. Nothing is sent there, since "
        "your MLflow password or token would go along. If you trust it, name it with --tracking-uri "
        f"{shown}, or in MLFLOW_TRACKING_URI{_with_password(shown)}."
    )


def _place(uri: str) -> tuple[str, ...] | Path:
    """Returns what tells places apart: a server's scheme, host, port and path; a file; else all but who asks."""
    if is_server(uri):
        parts = _split(uri)
        return parts.scheme, _host(parts.netloc), parts.path.rstrip("/")
    return database_of(uri) or ("", re.sub(r"(?<=://)[^/@]*@", "", without_secrets(uri)))


def _require_server(uri: str) -> None:
    parts = _split(uri)
    shown = without_secrets(uri)
    if parts.query or parts.fragment:
        raise TrackingError(
            f"tracking URI {shown}: must end with the path: MLflow takes a token from MLFLOW_TRACKING_TOKEN, and "
            "a password with ?, # or / in it as %3F, %23 or %2F."
        )
    if "@" in parts.path:  # in the middle of a password with "/", whose rest would be sent to another host, and shown
        raise _no_address(parts.scheme)
    if f"{_MASK}@" in uri:
        raise TrackingError(f"tracking URI {shown}: {_MASK} stands for a password, which is shown nowhere. Write it.")


def _no_address(scheme: str) -> TrackingError:
    """Says what an address is like, without the one that was given: where a password is in it could not be told."""
    return TrackingError(
        f"tracking URI of {scheme}: must be like {scheme}://USER:PASSWORD@HOST:PORT, the port a number. In a password, "
        "write :, /, ?, # and @ as %3A, %2F, %3F, %23 and %40."
    )


def _split(uri: str) -> SplitResult:
    try:
        return urlsplit(uri)
    except ValueError as error:
        raise TrackingError(f"tracking URI {without_secrets(uri)}: is none: {error}.") from None


def _with_password(shown: str) -> str:
    """Says where a password goes that a store does not keep, if the address has one."""
    if _MASK not in shown:
        return ""
    if not is_server(shown):
        return f", with the password in place of {_MASK}"
    return (
        f", with the password in place of {_MASK}, or without both where MLFLOW_TRACKING_USERNAME and "
        "MLFLOW_TRACKING_PASSWORD, or MLFLOW_TRACKING_TOKEN, are set"
    )


def _scheme(uri: str) -> str:
    return uri.partition("://" if "://" in uri else ":")[0].partition("+")[0].lower()


def _host(netloc: str) -> str:
    return netloc.rpartition("@")[2].lower()
