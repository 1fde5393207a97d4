"""Questions to NVIDIA's driver, which must be open; one that it has no answer to is None."""

from typing import Any


def open_driver() -> str:
    """Opens NVIDIA's driver, once for each `close_driver`; says why it cannot be, "" if it is open."""
    return why_not("nvmlInit")


def close_driver() -> None:
    """Closes NVIDIA's driver again."""
    ask("nvmlShutdown")


def ask(function: str, *arguments: Any) -> Any:
    """Returns what the driver answers; None where it has no answer, or these bindings lack the question.

    So a virtual GPU has no power limit.
    """
    return _call(function, *arguments)[0]


def why_not(function: str, *arguments: Any) -> str:
    """Says why the driver has no answer to a question; "" if it has."""
    return _call(function, *arguments)[1]


def _call(function: str, *arguments: Any) -> tuple[Any, str]:
    import pynvml

    # What newer bindings raise where the driver is older than the question.
    mismatch = getattr(pynvml, "NVMLLibraryMismatchError", pynvml.NVMLError)
    try:
        return getattr(pynvml, function)(*arguments), ""
    except (pynvml.NVMLError, mismatch, AttributeError) as error:
        return None, str(error) or type(error).__name__
