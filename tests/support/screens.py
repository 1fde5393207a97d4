"""A terminal for what is drawn while something lasts."""

import io
import re


class Screen(io.StringIO):
    """A terminal that keeps everything it was sent."""

    def isatty(self) -> bool:
        return True

    def last_drawing(self) -> list[str]:
        """Returns the lines of what was drawn last, without what moves the cursor."""
        drawn = self.getvalue().split("\x1b[2K")[-1]
        return [
            line.rstrip()
            for line in re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", drawn).strip("\r\n").splitlines()
        ]
