"""What came of a command, or of a call that fails."""

from collections.abc import Callable
from typing import Any

import pytest

from contract import Finished


def shown_by(done: Finished) -> str:
    """Returns what a command showed that succeeded and warned of nothing."""
    assert (done.exit_code, done.stderr) == (0, ""), done
    return done.stdout


def rejection_of(done: Finished) -> str:
    """Returns why a command was rejected, which showed nothing."""
    assert (done.exit_code, done.stdout) == (2, ""), done
    return done.stderr


def error_of(
    kind: type[Exception] | tuple[type[Exception], ...],
    call: Callable[..., Any],
    *arguments: Any,
    **options: Any,
) -> str:
    """Returns the message of the error that a call raises."""
    with pytest.raises(kind) as caught:
        call(*arguments, **options)
    return str(caught.value)


def json_of(command: Callable[..., Finished], *arguments: str, exit_code: int = 0) -> Any:
    """Returns the JSON document of a command that ends with an exit code."""
    done = command(*arguments, "--format", "json")
    assert done.exit_code == exit_code, done
    return done.document
