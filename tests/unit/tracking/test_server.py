import errno

import pytest

from tfbench.errors import TrackingError
from tfbench.tracking import server


@pytest.mark.parametrize("host", ["", "\u00e9..\u00fc", "x" * 300, "a\0b", "203.0.113.9", "::1"])
def test_an_address_that_cannot_be_listened_on_is_said(host: str) -> None:
    with pytest.raises(TrackingError, match="port 5000: cannot listen there"):
        server.choose_port(None, host)


def test_a_port_that_is_not_this_users_is_no_port_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    def reject(*_: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(server.socket.socket, "bind", reject)
    with pytest.raises(
        TrackingError, match=r"host 127.0.0.1, port 80: cannot listen there: Permission denied\."
    ):
        server.choose_port(80)


def test_a_machine_is_asked_for_by_its_names_in_small_letters(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(server.socket, "gethostname", lambda: "BENCH-1")
    assert {"bench-1", "localhost", "127.0.0.1"} <= set(server._own_names("0.0.0.0"))
