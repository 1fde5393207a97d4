"""The spinner of commands that take long and show nothing else."""

import sys

import pytest

from screens import Screen
from tfbench.cli._output import echo_lines, waiting

pytestmark = pytest.mark.usefixtures("plain_terminal")


def show_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> Screen:
    """Makes stderr a terminal for the rest of a test; a fixture could not, since each phase has a stderr of its own."""
    screen = Screen()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setattr("rich.console.monotonic", lambda: 100.0)  # which a busy machine may look at late
    return screen


def test_a_terminal_is_told_what_is_waited_for_and_left_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = show_on_a_terminal(monkeypatch)
    with waiting("asking [bold]\x1b[31m someone"):
        pass
    assert "asking [bold]\\u001b[31m someone" in screen.getvalue()
    assert screen.getvalue().endswith("\x1b[2K")  # the line is taken back


def test_what_is_said_meanwhile_takes_the_place_of_the_spinner(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = show_on_a_terminal(monkeypatch)
    with waiting("asking someone"):
        echo_lines(["the server does not answer yet"], err=True)
        shown = screen.getvalue()
        assert shown.endswith("\x1b[2Kthe server does not answer yet\n")
    assert "asking" not in screen.getvalue().removeprefix(shown)
