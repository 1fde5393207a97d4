"""Types that many tests name."""

from collections.abc import Callable
from typing import Any

Cli = Callable[..., Any]  # runs a command, and returns what it left behind
Fields = dict[str, Any]
Child = Callable[..., list[Fields]]  # answers a command; returns what it asked
Golden = Callable[[str, str], None]
