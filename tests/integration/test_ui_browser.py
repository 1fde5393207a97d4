import os
import re
import signal
import socket
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

import browser
from browser import Browser, open_browser
from contract import DEADLINE_SECONDS, wait_until
from journals import build_sized_result, make_database
from runs import Command
from sweeps import (
    BATCHES,
    TWO_SETUPS,
    build_limited_plan,
    build_plan,
    build_planned_result,
    write_sweep,
)
from tfbench.comparisons.html_report import render_report
from tfbench.comparisons.report_contents import gather_contents
from tfbench.runs.summary import summarize_run
from tfbench.store.store import Store
from tfbench.store.sweep_log import read_sweep
from tfbench.sweeps.compared import compare_sweep
from tfbench.sweeps.plan import PlannedRun, Variation, list_planned_runs
from tfbench.tracking import database, server
from tfbench.tracking.mlflow_tracker import MlflowTracker
from tfbench.tracking.mlflow_view import OVERVIEW

RUNS = range(9, 15)  # of three sizes and two batch sizes; the runs of the sweep have other ids
SIZES = Variation(key="model.hidden_units", values=([100], [1000]))
SWEEP = build_limited_plan(5.0, variations=(BATCHES, SIZES), num_rounds=1)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """Returns a store with runs of several sizes, and with a sweep and its report.

    The runs are of three network sizes and two batch sizes; the sweep is in an experiment of its
    own.
    """
    folder = tmp_path_factory.mktemp("ui")
    store = Store(folder / "mlruns")
    (folder / "files").mkdir()
    make_database(store)
    tracker = MlflowTracker(store.tracking_uri, "tfbench", store)
    for index in RUNS:
        result = build_sized_result(index)
        tracker.update(result, summarize_run(result))
        tracker.finish(result, folder / "files")
    write_sweep(store, SWEEP, speed_of)
    tracker = MlflowTracker(store.tracking_uri, "sweeps", store)
    for planned in list_planned_runs(SWEEP):
        result = build_planned_result(SWEEP, planned, speed_of(planned))
        tracker.update(result, summarize_run(result))
        tracker.finish(result, folder / "files")
    return store


def speed_of(planned: PlannedRun) -> float:
    """Each run of the sweep has a speed of its own."""
    return 1000.0 * (1 + planned.number)


def address_of(ui: Command) -> str:
    """Returns what a server that was started prints."""
    return wait_until(
        lambda: ui.stdout.endswith("\n") and ui.stdout.strip(), "the address of the page"
    )


@pytest.fixture(scope="module")
def sweep_url(store: Store) -> Iterator[str]:
    words = ["ui", "--sweep", "@last", "--host", "0.0.0.0", "--store"]
    with Command(*words, str(store.root), cwd=store.root.parent) as ui:
        url = address_of(ui)
        assert url.startswith(f"http://{socket.gethostname()}:")
        yield url.replace(socket.gethostname(), "127.0.0.1", 1)


@pytest.fixture(scope="module")
def url(sweep_url: str, store: Store) -> str:
    return OVERVIEW.url(
        sweep_url.partition("#")[0], database.experiment_ids(store.database)["tfbench"]
    )


@pytest.fixture(scope="module")
def page(url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """The page that the address opens, with MLflow's assistant folded away."""
    if not browser.is_installed():
        pytest.skip("needs chromium and chromedriver")
    with open_browser(
        tmp_path_factory.mktemp("browser"), size=(1700, 1900)
    ) as page:  # charts out of sight are not drawn
        page.open(f"{url.partition('#')[0]}health")
        page.run("localStorage.setItem('mlflow.assistant.panelOpen_v1', 'false')")
        page.run("localStorage.setItem('mlflow.assistant.fab.autoOpenedOnFirstLoad_v1', 'true')")
        page.open(url)
        wait_until(lambda: f"{len(RUNS)} matching runs" in page.text(), "the list of runs")
        yield page


def test_the_view_opens_on_the_charts_of_all_runs(page: Browser) -> None:
    script = """
        return [...document.querySelectorAll('.scatterlayer .point')].map(point => getComputedStyle(point).fill)"""
    colors = wait_until(
        lambda: (found := page.run(script)) and len(found) >= 2 * len(RUNS) and found, "the points"
    )
    assert len(set(colors)) == 2  # of the setups: one device, mirrored
    text = page.text()
    assert "Speed by network size and batch size" in text
    assert "parameters as log10 vs. samples per second as log10" in text
    assert "batch size as log2 vs. samples per second as log10" in text
    assert "Parallel Coordinates" in text
    for index in RUNS:
        assert f"{build_sized_result(index).request.name}-synthetic" in text


def test_a_server_for_other_machines_answers_to_its_own_names_alone(sweep_url: str) -> None:
    address = sweep_url.partition("#")[0]
    port = address.rstrip("/").rpartition(":")[2]

    def ask(host: str) -> int:
        request = urllib.request.Request(
            f"{address}ajax-api/3.0/mlflow/server-info", headers={"Host": host}
        )
        try:
            with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(
                request, timeout=30
            ) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            return error.code

    assert ask(f"{socket.gethostname()}:{port}") != 403
    assert ask(f"localhost:{port}") != 403
    assert ask("evil.example") == 403


@pytest.mark.slow
def test_the_view_of_a_sweep_opens_on_its_own_runs(page: Browser, sweep_url: str) -> None:
    page.open("about:blank")
    page.open(sweep_url)
    wait_until(lambda: "12 matching runs" in page.text(), "the runs of the sweep and its curves")
    # A line for each of two setups and two networks, whose ratios rest on one round each and are
    # not drawn.
    script = """
        return [...document.querySelectorAll('.scatterlayer .trace path.js-line')].map(
            line => getComputedStyle(line).stroke)"""
    colors = wait_until(
        lambda: (found := page.run(script)) and len(found) >= 4 and found, "the lines"
    )
    assert len(set(colors)) == 4
    text = page.text()
    assert "Sweep abc of test" in text
    assert "by_batch_size/samples_per_second" in text
    for setup in TWO_SETUPS:  # the legend has them all
        mark = "" if setup == TWO_SETUPS[0] else ", undecided"
        for network in (100, 1000):
            assert f"{network} {setup.label}{mark} (by_batch_size/samples_per_second)" in text


def test_ending_the_command_ends_the_server_and_its_children(store: Store, tmp_path: Path) -> None:
    with Command("ui", "--store", str(store.root), cwd=tmp_path) as ui:
        assert re.match(
            r"http://127.0.0.1:\d+/#/experiments/1/runs\?viewStateShareKey=tfbench&", address_of(ui)
        )
        family = psutil.Process(ui.process.pid).children(recursive=True)
        ui.send(signal.SIGTERM)
        done = ui.wait()
        assert (done.exit_code, done.stdout.count("\n"), "Traceback" in done.stderr) == (
            0,
            1,
            False,
        )
        assert not psutil.wait_procs(family, timeout=DEADLINE_SECONDS)[1]


@pytest.mark.advice("Name another one with --port")
def test_what_cannot_be_shown_is_rejected(
    tfbench: Callable[..., Any], store: Store, in_tmp_path: Path
) -> None:
    (in_tmp_path / "damaged").mkdir()
    (in_tmp_path / "damaged" / "mlflow.db").write_text("hello " * 100)
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        for options, words in (
            (("--store", "none"), "holds no runs yet. `tfbench run RECIPE --store none` makes one"),
            (("--store", "damaged"), "mlflow.db: is damaged: file is not a database"),
            (("--store", str(store.root), "--experiment", "tfbnech"), "Did you mean 'tfbench'?"),
            (
                ("--store", str(store.root), "--port", str(port)),
                f"port {port} of 127.0.0.1 is in use",
            ),
        ):
            done = tfbench("ui", *options)
            assert (done.exit_code, words in done.stderr) == (2, True), done.stderr
        other = browser.free_port()
        assert server.choose_port(other) == other
    assert [path.name for path in in_tmp_path.iterdir()] == ["damaged"]


def test_a_server_that_does_not_start_says_why(
    tfbench: Callable[..., Any], store: Store, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "mlflow.py").write_text("import sys; print('cannot do it'); sys.exit(0)")
    monkeypatch.setitem(os.environ, "PYTHONPATH", str(tmp_path))
    port = browser.free_port()
    done = tfbench("ui", "--store", str(store.root), "--port", str(port))
    words = " ".join(done.stderr.split())
    assert (
        f"did not start on port {port} of 127.0.0.1. It wrote last:" in words
        and "cannot do it" in words
    )


# What reaches beyond the page on either side, but for what is within a box that scrolls.
FIND_TOO_WIDE = """
    const width = document.documentElement.clientWidth;
    return [...document.body.querySelectorAll('*')]
        .filter(e => !e.parentElement.closest('.scroll') && e.getBoundingClientRect().right > width + 0.5)
        .map(e => e.tagName + ': ' + e.textContent.slice(0, 40));
"""


@pytest.mark.slow
@pytest.mark.skipif(not browser.is_installed(), reason="needs chromium and chromedriver")
def test_every_plot_of_a_report_is_shown_and_nothing_is_fetched(tmp_path: Path) -> None:
    store = Store(tmp_path / "mlruns")
    write_sweep(store, build_plan(), speed_of)
    record = read_sweep(store, "abc")
    comparison = compare_sweep(store, record)
    text = render_report(gather_contents(store, comparison, record.plan, created=1_700_000_000.0))
    (tmp_path / "report.html").write_text(text, encoding="utf-8")
    with open_browser(tmp_path, (1280, 1000)) as window:
        window.open((tmp_path / "report.html").as_uri())
        widths = (
            "return [...document.querySelectorAll('figure svg')].map(plot =>"
            " plot.getBoundingClientRect().width)"
        )
        assert wait_until(lambda: window.run(widths), "the plots") == [800] * 4
        colors = """
            const of = name => getComputedStyle(document.querySelector(name));
            return [of('figure path').fill, of('body').backgroundColor];
        """
        assert len(set(window.run(colors))) == 1  # the plot's and the page's
        assert (
            window.run("return performance.getEntriesByType('resource').map(entry => entry.name)")
            == []
        )
        assert window.run(FIND_TOO_WIDE) == []
