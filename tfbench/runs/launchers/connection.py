"""What two parents of one group say to each other over TCP: a JSON object a line, and signs of life in between."""

import contextlib
import json
import queue
import socket
import threading
import time
from typing import Any

from tfbench.schema import read_json

Message = dict[str, Any]

BEAT_SECONDS = 5.0  # between signs of life
LOST_SECONDS = 30.0  # without one: the other machine, or the network, is gone
_CLOSING_SECONDS = 2.0  # for the other end to close it, too
_STRANGER_BYTES = 2**20  # of a line, until the other is known
_LINE_BYTES = 2**26
_CHUNK = 2**16


class Connection:
    """One end. What comes is read by a thread of its own, so that none of it waits for what the caller is at.

    Args:
        connected: Is closed with it.

    Raises:
        OSError: The other end is gone already.
    """

    def __init__(self, connected: socket.socket) -> None:
        self.problem = ""  # why nothing more will come
        self.heard_at = time.monotonic()
        self.is_trusted = False
        self._socket = connected
        try:
            self.own_host = str(connected.getsockname()[0])
            self.other_host = str(connected.getpeername()[0])
            connected.settimeout(LOST_SECONDS)
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError:
            connected.close()
            raise
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._messages = queue.SimpleQueue[Message | None]()
        self._reader = threading.Thread(target=self._read_to_the_end, daemon=True)
        self._reader.start()
        threading.Thread(target=self._beat, daemon=True).start()

    @property
    def silent_seconds(self) -> float:
        """How long ago the last sign of life came."""
        return time.monotonic() - self.heard_at

    def send(self, kind: str, **fields: Any) -> None:
        """Sends a message; if it cannot be sent, `problem` says so."""
        line = json.dumps({"kind": kind, **fields}).encode() + b"\n"
        try:
            with self._lock:
                self._socket.sendall(line)
        except OSError as error:
            self.problem = self.problem or str(error.strerror or error)

    def receive(self, seconds: float = 0.0) -> Message | None:
        """Returns the next message; None: there is none within `seconds`, or none will come any more."""
        try:
            return self._messages.get(timeout=seconds) if seconds else self._messages.get_nowait()
        except queue.Empty:
            return None

    def close(self) -> None:
        """Ends it; what was sent before still arrives, for which what still comes must be read."""
        self._closing.set()
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)
            if threading.current_thread() is not self._reader:
                self._reader.join(_CLOSING_SECONDS)
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _read_to_the_end(self) -> None:
        self._read()
        self._messages.put(None)  # for who waits

    def _read(self) -> None:
        rest = b""
        while True:
            try:
                data = self._socket.recv(_CHUNK)
            except TimeoutError:
                continue
            except OSError as error:
                self.problem = self.problem or str(error.strerror or error)
                return
            if not data:
                self.problem = self.problem or "the other end closed it"
                return
            self.heard_at = time.monotonic()
            *lines, rest = (rest + data).split(b"\n")
            try:
                for line in lines:
                    self._take_in(line)
                if len(rest) > (_LINE_BYTES if self.is_trusted else _STRANGER_BYTES):
                    raise ValueError("a line is too long")
            except ValueError as error:
                self.problem = f"what came is no message: {error}"
                self.close()
                return

    def _take_in(self, line: bytes) -> None:
        message = read_json(line)
        if not isinstance(message, dict) or not isinstance(message.get("kind"), str):
            raise ValueError("no JSON object with a kind")
        if message["kind"] != "beat":
            self._messages.put(message)

    def _beat(self) -> None:
        while not self._closing.wait(BEAT_SECONDS) and not self.problem:
            self.send("beat")


def split_address(address: str) -> tuple[str, int]:
    """Takes "HOST:PORT" apart.

    Raises:
        ValueError: It is not of that form.
    """
    host, colon, port = address.rpartition(":")
    if not colon or not host or not port.isdecimal() or not 0 < int(port) < 2**16:
        raise ValueError(f"must be HOST:PORT. Received: {address!r:.80}.")
    return host.strip("[]"), int(port)


def join_address(host: str, port: int) -> str:
    """Returns "HOST:PORT", an IPv6 host in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def find_free_addresses(host: str, number: int) -> tuple[str, ...]:
    """Returns addresses of this machine at which nobody listens; soon after, somebody else may.

    Raises:
        OSError: The host is none of this machine's.
    """
    with contextlib.ExitStack() as stack:
        found = []
        for _ in range(number):
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            listening = stack.enter_context(socket.socket(family, socket.SOCK_STREAM))
            listening.bind((host, 0))
            found.append(join_address(host, listening.getsockname()[1]))
        return tuple(found)
