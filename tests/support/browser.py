"""A headless Chromium for tests, driven through its own driver's HTTP interface (W3C WebDriver)."""

import contextlib
import json
import shutil
import socket
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from contract import DEADLINE_SECONDS, wait_until

_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
)


def is_installed() -> bool:
    """Returns whether there is a Chromium and its driver."""
    return bool(shutil.which("chromium") and shutil.which("chromedriver"))


_held: list[socket.socket] = []


def free_port() -> int:
    """Returns a free port that stays reserved until this process ends."""
    held = socket.socket()
    _held.append(held)
    held.setsockopt(
        socket.SOL_SOCKET, socket.SO_REUSEADDR, 1
    )  # a server that sets it, too, may listen
    held.bind(("127.0.0.1", 0))
    return int(held.getsockname()[1])


class Browser:
    """One window."""

    def __init__(self, driver: str, profile: Path, size: tuple[int, int]) -> None:
        self._base = driver
        flags = [
            *_FLAGS,
            "--hide-scrollbars",
            f"--user-data-dir={profile}",
            f"--window-size={size[0]},{size[1]}",
        ]
        options = {"args": flags, "binary": shutil.which("chromium")}
        capabilities = {"alwaysMatch": {"browserName": "chrome", "goog:chromeOptions": options}}
        self._base += f"/session/{self._call('/session', capabilities=capabilities)['sessionId']}"

    def open(self, url: str) -> None:
        """Opens an address, and waits until the page is loaded (not until its scripts are done)."""
        self._call("/url", url=url)

    def run(self, script: str) -> Any:
        """Runs JavaScript in the page and returns what it returns."""
        return self._call("/execute/sync", script=script, args=[])

    def text(self) -> str:
        """Returns what the page says."""
        return str(self.run("return document.body ? document.body.innerText : ''"))

    def close(self) -> None:
        """Closes the window and ends the browser."""
        request = urllib.request.Request(self._base, method="DELETE")
        urllib.request.urlopen(request, timeout=DEADLINE_SECONDS).close()

    def _call(self, path: str, **values: Any) -> Any:
        data = json.dumps(values).encode()
        request = urllib.request.Request(
            self._base + path, data=data, headers={"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=DEADLINE_SECONDS) as answer:
            return json.load(answer)["value"]


@contextlib.contextmanager
def open_browser(folder: Path, size: tuple[int, int] = (1700, 1300)) -> Iterator[Browser]:
    """Starts a browser with a fresh profile below `folder`, and ends it again."""
    port = free_port()
    command = ["chromedriver", f"--port={port}"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as driver:
        try:
            address = f"http://127.0.0.1:{port}"
            wait_until(lambda: answers(f"{address}/status"), "chromedriver")
            browser = Browser(address, folder / "profile", size)
            try:
                yield browser
            finally:
                browser.close()
        finally:
            driver.terminate()


def answers(url: str) -> bool:
    """Returns whether a server has a page there."""
    with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=5):
        return True
    return False
