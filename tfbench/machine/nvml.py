"""Questions to NVIDIA's driver, which must be open; one that it has no answer to is None."""

import contextlib
from typing import Any


def open_driver() -> str:
    """Opens NVIDIA's driver, once for each `close_driver`; says why it cannot be, "" if it is open."""
    import pynvml

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        return str(error) or type(error).__name__
    return ""


def close_driver() -> None:
    """Closes NVIDIA's driver again."""
    import pynvml

    with contextlib.suppress(pynvml.NVMLError):
        pynvml.nvmlShutdown()


def ask(function: str, *arguments: Any) -> Any:
    """Returns what the driver answers; None where it has no answer, or these bindings lack the question.

    So a virtual GPU has no power limit.
    """
    import pynvml

    question = getattr(pynvml, function, None)
    # What newer bindings raise where the driver is older than the question.
    mismatch = getattr(pynvml, "NVMLLibraryMismatchError", pynvml.NVMLError)
    try:
        return question(*arguments) if question else None
    except (pynvml.NVMLError, mismatch):
        return None
