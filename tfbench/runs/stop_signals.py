"""Requests to stop, noted instead of died of, so that a run ends in good order."""

import signal
import threading
import time
from types import FrameType
from typing import Any


class StopSignals:
    """Notes the first request to stop instead of dying of it; a second Ctrl-C ends the program where it is.

    Python tells its main thread alone of signals: elsewhere, nothing is noted, and they end the program as they would.
    """

    _SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def __init__(self) -> None:
        self.received: signal.Signals | None = None
        self.received_at = 0.0  # on the monotonic clock
        self._previous: dict[signal.Signals, Any] = {}

    def __enter__(self) -> "StopSignals":
        if threading.current_thread() is not threading.main_thread():
            return self
        # What the caller had ignored stays so: nohup ignores SIGHUP, a shell SIGINT for what runs in the background.
        heard = [number for number in self._SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
        self._previous = {number: signal.signal(number, self._note) for number in heard}
        return self

    def __exit__(self, *exception: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.received and number == signal.SIGINT:
            raise KeyboardInterrupt
        if self.received is None:
            self.received, self.received_at = signal.Signals(number), time.monotonic()
