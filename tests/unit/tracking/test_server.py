import pytest

from tfbench.errors import TrackingError
from tfbench.tracking import server


@pytest.mark.parametrize("host", ["", "a..b", "\u00e9..\u00fc", "x" * 300, "with blank", "a\0b", "203.0.113.9"])
def test_what_is_no_address_of_this_machine_is_said(host: str) -> None:
    with pytest.raises(TrackingError, match="is no address of this machine"):
        server.choose_port(None, host)
