"""`tfbench report`: what it takes, what it writes and what it refuses to."""

import dataclasses
from pathlib import Path

import pytest

from builders import build_dataset, build_environment, build_epoch, build_result
from journals import build_sized_result, write_journal
from kinds import Cli
from outcomes import shown_by
from sweeps import TWO_SETUPS, build_plan, write_sweep
from tfbench.comparisons import report_contents
from tfbench.comparisons.report_contents import gather_contents
from tfbench.runs.batch_sizes import BatchSizes
from tfbench.store.store import Store
from tfbench.sweeps.compared import compare_stored
from tfbench.sweeps.plan import PlannedRun

PLOTS = ["samples_per_second.png", "speedup.png"]


def speed_of(planned: PlannedRun) -> float | str:
    """The second setup is half as fast, and runs out of memory in the second configuration."""
    if planned.cell == (1, 1):
        return "out of memory: it took 9 GiB"
    return (1000.0, 500.0)[planned.setup] * (1 + planned.round_number / 100)


@pytest.fixture
def swept(in_tmp_path: Path, store: Store) -> None:
    """The store in the current folder, with a sweep in it."""
    write_sweep(
        store, build_plan(sweep_id="5eed", argv=("sweep", "test.toml", "--repeats", "2")), speed_of
    )


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaves the plots out, which take their time."""
    monkeypatch.setattr(report_contents, "comparison_plots", lambda *_: ())
    monkeypatch.setattr(report_contents, "plots_by_time", lambda *_: ())


def test_a_sweep_becomes_one_file_and_its_plots(tfbench: Cli, swept: None) -> None:
    shown = shown_by(tfbench("report", "--sweep", "@last", "--plots", "plots"))
    text = Path("tfbench-report.html").read_text()
    assert shown.splitlines()[0].startswith("tfbench-report.html: report on 6 runs, ")
    names = [*PLOTS, "accuracy_by_time.png", "samples_by_time.png"]
    assert sorted(path.name for path in Path("plots").iterdir()) == sorted(names)
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in Path("plots").iterdir())
    assert text.count("<svg ") == len(names)
    assert "out of memory: it took 9 GiB" in text
    assert "tfbench sweep test.toml --repeats 2\ntfbench report --sweep @last<" in text


def test_what_a_run_had_reached_after_each_epoch_is_drawn_by_time() -> None:
    first = build_epoch(num_steps=10, elapsed_seconds=2.0, val_accuracy=None)
    second = build_epoch(epoch=2, num_steps=5, elapsed_seconds=3.0, val_accuracy=0.7)
    batches = BatchSizes(size=32, last_size=8, num_steps=10)
    result = build_result(epochs=(first, second), dataset=build_dataset(batches=batches))
    curve = report_contents._follow(result, "small", "default cpu:0")
    assert curve.samples == ((2.0, 9 * 32.0 + 8), (3.0, 14 * 32.0 + 8))
    assert curve.accuracy == ((3.0, 0.7),)
    limited = build_result(epochs=(second,))
    assert report_contents._follow(limited, "small", "default cpu:0").samples == ()


@pytest.mark.usefixtures("undrawn")
def test_an_older_report_is_replaced_and_no_other_file_is(tfbench: Cli, swept: None) -> None:
    arguments = ("report", "--sweep", "5e", "-o", "r.html")
    assert [tfbench(*arguments).exit_code for _ in range(2)] == [0, 0]
    Path("r.html").write_text("<html>my own page</html>")
    assert tfbench(*arguments).exit_code == 2
    assert Path("r.html").read_text() == "<html>my own page</html>"


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("options", [("--store", "runs"), ("--store=runs",), ()])
def test_a_report_is_made_again_from_the_store_of_its_sweep(
    in_tmp_path: Path, store: Store, options: tuple[str, ...]
) -> None:
    plan = build_plan(argv=("sweep", *options, "--quick"))
    write_sweep(store, plan, lambda planned: 100.0)
    contents = gather_contents(store, compare_stored(store), plan, created=1.0)
    assert contents.commands[-1] == " ".join(("tfbench report --sweep @last", *options))


@pytest.mark.usefixtures("undrawn")
def test_any_runs_make_a_report_with_the_commands_that_made_them(
    in_tmp_path: Path, store: Store
) -> None:
    for index in (0, 2, 6):
        environment = build_environment(keras="3.13.0" if index == 6 else "3.12.0")
        result = build_sized_result(index, environment=environment)
        argv = ("run", "mnist_mlp", "--name", "a b")
        write_journal(
            store,
            dataclasses.replace(result, request=dataclasses.replace(result.request, argv=argv)),
        )
    comparison = compare_stored(store)
    contents = gather_contents(store, comparison, None, created=1.0)
    assert contents.environment and contents.environment.keras == "3.13.0"  # of the newest run
    assert contents.commands == ("tfbench run mnist_mlp --name 'a b'",)
    assert 'name = "mlp"' in contents.recipe_toml


@pytest.mark.usefixtures("undrawn")
def test_a_sweep_of_which_nothing_was_measured_makes_a_report(
    tfbench: Cli, in_tmp_path: Path, store: Store
) -> None:
    write_sweep(
        store,
        build_plan(setups=TWO_SETUPS[:1]),
        lambda planned: "timed out: it took longer",
    )
    assert tfbench("report", "--sweep", "@last").exit_code == 0
    assert "timed out" in Path("tfbench-report.html").read_text()
