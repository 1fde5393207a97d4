import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from click.testing import CliRunner

import browser
from browser import DEADLINE_SECONDS, Browser, open_browser, wait_for
from journals import build_sized_result, make_database
from tfbench import cli
from tfbench.measure.summary import summarize
from tfbench.tracking import server
from tfbench.tracking.mlflow_tracker import MlflowTracker
from tfbench.tracking.store import Store

NUM_RUNS = 6


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """A store of runs of three network sizes and two batch sizes."""
    folder = tmp_path_factory.mktemp("ui")
    store = Store(folder / "mlruns")
    (folder / "files").mkdir()
    make_database(store)
    tracker = MlflowTracker(store.tracking_uri, "tfbench", store)
    for index in range(NUM_RUNS):
        result = build_sized_result(index)
        tracker.finish(result, summarize(result, warmup_steps=1), folder / "files")
    return store


@pytest.fixture(scope="module")
def ui(store: Store) -> Iterator["subprocess.Popen[str]"]:
    command = [sys.executable, "-m", "tfbench", "ui", "--store", str(store.root)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(timeout=60)


@pytest.fixture(scope="module")
def url(ui: "subprocess.Popen[str]") -> str:
    assert ui.stdout is not None
    return ui.stdout.readline().strip()


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
        wait_for(lambda: f"{NUM_RUNS} matching runs" in page.text(), "the list of runs")
        yield page


def test_the_view_opens_on_the_charts_of_all_runs(page: Browser, tmp_path: Path) -> None:
    wait_for(lambda: page.run("return document.querySelectorAll('.scatterlayer .point').length") >= 12, "the points")
    text = page.text()
    assert "Speed by network size and batch size" in text
    assert "summary/log10_num_parameters vs. summary/log10_samples_per_second" in text
    assert "summary/log2_global_batch_size vs. summary/log10_samples_per_second" in text
    assert "Parallel Coordinates" in text
    for index in range(NUM_RUNS):
        assert f"{build_sized_result(index).request.name}-synthetic" in text
    page.screenshot(tmp_path / "view.png")
    assert (tmp_path / "view.png").stat().st_size > 20_000


def test_the_scatter_shows_runs_in_the_colour_of_their_batch_size(page: Browser) -> None:
    script = """
        return [...new Set([...document.querySelectorAll('.scatterlayer .point')].map(
            point => getComputedStyle(point).fill))].length"""
    assert wait_for(lambda: page.run(script), "the points") == 2


def test_the_table_shows_sizes_and_speeds(page: Browser, url: str) -> None:
    page.open("about:blank")
    page.open(url.replace("compareRunsMode=CHART", "compareRunsMode=TABLE"))
    wait_for(lambda: "19184000" in page.text(), "the table")
    text = page.text()
    assert all(word in text for word in ("model.name", "devices", "strategy", "tfbench.data", "synthetic, seed 0"))


def test_ending_the_command_ends_the_server_and_its_children(store: Store) -> None:
    command = [sys.executable, "-m", "tfbench", "ui", "--store", str(store.root)]
    for number in (signal.SIGINT, signal.SIGTERM):
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert process.stdout is not None
        assert process.stdout.readline().startswith("http://127.0.0.1:")
        family = psutil.Process(process.pid).children(recursive=True)
        assert family
        process.send_signal(number)
        output, errors = process.communicate(timeout=60)
        assert process.returncode == 0
        assert (output, "Traceback" in errors) == ("", False)
        psutil.wait_procs(family, timeout=DEADLINE_SECONDS)
        assert not any(relative.is_running() for relative in family)


def test_a_store_without_a_database_is_an_error_with_a_hint(tmp_path: Path) -> None:
    result = CliRunner().invoke(cli.cli, ["ui", "--store", str(tmp_path / "mlruns")])
    assert "holds no runs yet. `tfbench run RECIPE` makes one" in str(result.exception)
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_experiment_is_an_error_that_names_the_known_ones(store: Store) -> None:
    result = CliRunner().invoke(cli.cli, ["ui", "--store", str(store.root), "--experiment", "tfbnech"])
    assert "Did you mean 'tfbench'?" in str(result.exception)


def test_a_file_that_is_no_database_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "mlflow.db").write_text("hello " * 100)
    result = CliRunner().invoke(cli.cli, ["ui", "--store", str(tmp_path)])
    assert "is no database of MLflow: file is not a database" in str(result.exception)


def test_a_port_that_is_named_and_in_use_is_an_error(store: Store) -> None:
    import socket

    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        result = CliRunner().invoke(cli.cli, ["ui", "--store", str(store.root), "--port", str(port)])
    assert f"port {port} of 127.0.0.1 is in use" in str(result.exception)


def test_without_a_named_port_the_next_free_one_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "_is_free", lambda port: port == 5003)
    assert server.choose_port(None) == 5003


def test_a_server_that_does_not_start_says_why(store: Store, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "mlflow.py").write_text("import sys; print('cannot do it'); sys.exit(0)")
    monkeypatch.setitem(os.environ, "PYTHONPATH", str(tmp_path))
    port = browser.free_port()
    result = CliRunner().invoke(cli.cli, ["ui", "--store", str(store.root), "--port", str(port)])
    assert str(result.exception).endswith(f"did not start on port {port} of 127.0.0.1. It wrote last:\ncannot do it")
