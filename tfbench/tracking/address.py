"""Addresses of MLflow: which can be one, which name a file, and which of them a user has named.

A store keeps them without their passwords (`wording.without_secrets`), so that a user names them
again to go on.
"""

import re
from collections.abc import Iterable
from pathlib import Path

from tfbench.errors import TrackingError
from tfbench.wording import without_secrets

_SCHEMES = ("http", "https", "sqlite", "databricks")
_MASK = "***"
_FORM = re.compile(
    "https?://"
    r"""([^:/?#@\s"<>]*(:[^/?#@\s"<>]*)?@)?"""  # user and password
    r"""(\[[^\]/?#]+\]|[^\[:/?#@\s"<>]+)(:\d*)?"""  # host and port
    r"""(/[^?#@\s"<>]*)?""",
    re.IGNORECASE,
)


def require_address(tracking_uri: str) -> None:
    """Rejects what can never be the address of an MLflow server, or of a database in a file.

    Raises:
        TrackingError: Naming what an address begins with, or what it must not have in it.
    """
    scheme = tracking_uri.partition("://" if "://" in tracking_uri else ":")[0].lower()
    if scheme not in _SCHEMES:
        raise TrackingError(
            f"tracking URI of {scheme}: must begin with one of {', '.join(_SCHEMES)}, for example"
            " http://127.0.0.1:5000 or sqlite:////data/mlflow.db. Put an MLflow server before any"
            " other database."
        )
    # With one of these, MLflow would have its database elsewhere.
    if scheme == "sqlite" and set("?#%") & set(tracking_uri):
        raise TrackingError(
            f"tracking URI {tracking_uri}: a path of SQLite must have no ?, # or %. Use another"
            " file."
        )
    if not is_server(tracking_uri):
        return
    # The message does not show it: nobody knows where in it a password is.
    if not _FORM.fullmatch(tracking_uri):
        raise TrackingError(
            f"tracking URI of {scheme}: must be like {scheme}://USER:PASSWORD@HOST:PORT/PATH, the"
            " port a number. In a password, write special characters as %3A, %2F and the like."
            " MLFLOW_TRACKING_TOKEN is for a token."
        )
    if f"{_MASK}@" in tracking_uri:
        raise TrackingError(f"tracking URI {tracking_uri}: replace {_MASK} by the password.")


def is_server(tracking_uri: str) -> bool:
    """Says whether an address is one of a server, which a browser can open."""
    return tracking_uri.lower().startswith(("http://", "https://"))


def database_of(tracking_uri: str) -> Path | None:
    """Returns the file that an address of SQLite names."""
    match = re.fullmatch(r"sqlite:///([^?]+)", tracking_uri)
    if match is None or match[1] == ":memory:":
        return None
    return Path(match[1]).absolute()


def find_named(tracking_uri: str, named: Iterable[str | None]) -> str:
    """Returns an address that stands in a store as the user has named it, with its password.

    Args:
        tracking_uri: As the store has it, which may come from somebody else.
        named: Addresses that the user gave for this call, or set for himself.

    Raises:
        TrackingError: He has named none of that place, where his token would be sent; saying how to
            allow it.
    """
    for uri in named:
        if uri and _place(uri) == _place(tracking_uri):
            return uri
    shown = without_secrets(tracking_uri)
    hint = ""
    if _MASK in shown:
        hint = f", with its password for {_MASK}, or no user if the environment has both"
    raise TrackingError(
        f"Runs of this store are tracked at {shown}. Nothing is sent there, because your MLflow"
        f" password or token would be sent along. If you trust it, add --tracking-uri {shown}, or"
        f" set MLFLOW_TRACKING_URI{hint}."
    )


def _place(uri: str) -> str:
    """Returns an address without credentials; of a database, the whole path of its file."""
    place = str(database_of(uri) or uri)
    place = re.sub("//[^/]*@", "//", place).rstrip("/")
    return re.sub("^[a-zA-Z]+://[^/]*", lambda host: host[0].lower(), place)
