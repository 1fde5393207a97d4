"""What reading a file raises, in words that name the file and the remedy."""

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path

from tfbench.errors import DatasetError


@contextlib.contextmanager
def reading(path: Path, expected: str, remedy: str = "Fetch it again.") -> Iterator[None]:
    """Turns whatever is raised into a message.

    Args:
        path: What is read.
        expected: What it should be: "an IDX file".
        remedy: What to do.

    Raises:
        DatasetError: Something was raised.
    """
    try:
        yield
    except DatasetError:
        raise
    except Exception as error:  # readers of damaged files raise what their parsers do
        text = re.sub(r"\{\{.*?\}\} ?|\[Op:.*", "", str(error))  # TensorFlow's names of nodes
        reason = (text.strip().splitlines() or [""])[0][:200].strip() or type(error).__name__
        raise DatasetError(f"{path}: cannot be read as {expected} ({reason}). {remedy}") from error
