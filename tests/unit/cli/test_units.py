import click
import pytest

from tfbench.cli._units import DURATION, MEMORY


@pytest.mark.parametrize(("text", "seconds"), [("90", 90), ("90s", 90), ("10m", 600), ("1.5h", 5400), (" 2m ", 120)])
def test_times_are_read_in_seconds(text: str, seconds: float) -> None:
    assert DURATION.convert(text, None, None) == seconds


def test_sizes_are_read_in_bytes() -> None:
    assert [MEMORY.convert(text, None, None) for text in ("512MiB", "4GiB", "1000")] == [2**29, 2**32, 1000]


@pytest.mark.parametrize("text", ["", "0", "-1s", "nan", "inf", "1d", "ten", "2e9", "1e6h"])
def test_what_is_no_time_is_said(text: str) -> None:
    with pytest.raises(click.BadParameter, match=r"must be more than 0 and at most 1e\+09, such as 90s, 10m or 1.5h"):
        DURATION.convert(text, None, None)
