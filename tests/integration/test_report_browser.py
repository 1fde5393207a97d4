"""The report as a browser shows it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import browser
from browser import Browser, open_browser, wait_for
from sweeps import build_plan, write_sweep
from tfbench.report.html_report import render_report
from tfbench.store.store import Store
from tfbench.store.sweep_log import read_sweep
from tfbench.sweeps.comparison import compare_sweep
from tfbench.sweeps.report_contents import gather_contents

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not browser.is_installed(), reason="needs chromium and chromedriver"),
]

# What reaches beyond the page on either side, but for what is within a box that scrolls.
FIND_TOO_WIDE = """
    const width = document.documentElement.clientWidth;
    return [...document.body.querySelectorAll('*')]
        .filter(e => !e.parentElement.closest('.scroll') && e.getBoundingClientRect().right > width + 0.5)
        .map(e => e.tagName + ': ' + e.textContent.slice(0, 40));
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the report of a sweep."""
    folder = tmp_path_factory.mktemp("report")
    store = Store(folder / "mlruns")
    write_sweep(store, build_plan(), lambda planned: 1000.0 * (1 + planned.setup) + planned.round_number)
    plan, results = read_sweep(store, "abc")
    text = render_report(gather_contents(store, compare_sweep(store, plan, results), plan, created=1_700_000_000.0))
    (folder / "report.html").write_text(text, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def window(folder: Path) -> Iterator[Browser]:
    with open_browser(folder, (1280, 1000)) as opened:
        yield opened


def test_every_plot_is_shown_and_nothing_is_fetched(window: Browser, folder: Path) -> None:
    window.open((folder / "report.html").as_uri())
    widths = "return [...document.querySelectorAll('figure svg')].map(plot => plot.getBoundingClientRect().width)"
    assert wait_for(lambda: window.run(widths), "the plots") == [800] * 3
    colors = """
        const of = name => getComputedStyle(document.querySelector(name));
        return [of('figure path').fill, of('body').backgroundColor];
    """
    assert len(set(window.run(colors))) == 1  # the plot's and the page's
    assert window.run("return performance.getEntriesByType('resource').map(entry => entry.name)") == []
    assert window.run(FIND_TOO_WIDE) == []
