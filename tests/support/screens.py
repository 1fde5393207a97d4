"""A terminal for what is drawn while something lasts."""

import io
import re


class Screen(io.StringIO):
    """A terminal that keeps everything it was sent."""

    def isatty(self) -> bool:
        return True

    def last_drawing(self) -> list[str]:
        """Returns the lines of what was drawn last, without what moves the cursor."""
        return self.drawings()[-1]

    def drawings(self) -> list[list[str]]:
        """Returns the lines of all that was drawn, of one state after the other."""
        drawings = []
        for drawn in self.getvalue().split("\x1b[2K"):
            text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", drawn).strip("\r\n")
            drawings.append([line.rstrip() for line in text.splitlines()])
        return drawings
