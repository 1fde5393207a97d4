"""Stdout and stderr: all text that leaves for the terminal goes through here, whoever writes it."""

import sys
from typing import Any, TextIO

from tfbench.wording import clean, without_secrets


class CleanStream:
    """Passes text on without passwords, and without what a terminal would obey; bytes go to `buffer` as they are."""

    def __init__(self, stream: TextIO) -> None:
        self.uncleaned = stream  # for what draws on the terminal, and cleans its texts itself
        self.is_used = False  # whether any text was written

    @property
    def encoding(self) -> str:
        """UTF-8 where Click would take the stream's own for a mistake, and pass this by to write UTF-8."""
        own = self.uncleaned.encoding or "ascii"
        return "utf-8" if own.lower().replace("-", "") in ("ascii", "usascii", "ansi_x3.41968") else own

    def write(self, text: str) -> int:
        """Writes, with "?" for what the stream's encoding cannot say."""
        self.is_used = True
        cleaned = clean(without_secrets(text))
        try:
            self.uncleaned.write(cleaned)
        except UnicodeEncodeError as error:
            self.uncleaned.write(cleaned.encode(error.encoding, "replace").decode(error.encoding))
        return len(text)

    def writelines(self, lines: Any) -> None:
        """Writes texts one after another."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.uncleaned, name)


def clean_streams() -> None:
    """Puts a `CleanStream` before stdout and stderr, where they are open."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is not None and not isinstance(stream, CleanStream):
            setattr(sys, name, CleanStream(stream))
