"""What a user has set for himself, and what wins over it."""

from pathlib import Path

import pytest

from fake_runs import FakeRuns
from kinds import Cli
from outcomes import rejection_of
from sweeps import MIRRORED, build_plan, write_in_sessions
from tfbench.cli import ui
from tfbench.comparisons.comparison import Comparison
from tfbench.store.store import Store, TrackingState
from tfbench.sweeps import show_in_mlflow
from tfbench.sweeps.plan import SweepPlan
from tfbench.tracking.tracker import TrackedSweep


def test_a_variable_counts_unless_an_option_is_given(
    tfbench: Cli, in_tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = FakeRuns(100.0)
    monkeypatch.setattr(
        "tfbench.runs.maker.RunMaker.make", lambda maker, request, *rest: runs(request)
    )
    monkeypatch.setenv("TFBENCH_DATA_DIR", "/of/variable")
    for options, found in (((), "/of/variable"), (("--data-dir", "/of/option"), "/of/option")):
        assert tfbench("run", "mnist_mlp", "--format", "json", *options).exit_code == 0
        assert runs.requests[-1].data_dir == found
    monkeypatch.setenv("TFBENCH_STORE", "/of/variable")
    assert "--store /of/variable" in tfbench("runs").stdout  # what is printed works without it
    assert tfbench("runs", "--store", "other").stdout.startswith("Store other holds no runs.")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("machine = 1\nbackend = 1", "machine: unknown key. Did you mean 'machines'?"),
        ("machines = ", "is not valid TOML: Invalid value"),
        (b"\xff", "is not UTF-8 text"),
        ("[machines.big]", "machines.big.price_per_hour: missing."),
    ],
)
def test_a_file_that_is_not_valid_is_named_with_what_is_wrong(
    tfbench: Cli, settings: Path, text: str | bytes, words: str
) -> None:
    settings.write_bytes(text if isinstance(text, bytes) else text.encode())
    message = rejection_of(tfbench("compare", "--all"))
    assert message.startswith(f"Error: {settings}: ") and words in message
    assert all(f"{settings}: " in line for line in message.splitlines())


def test_every_view_of_a_sweep_is_by_the_users_scatter_between_sessions(
    tfbench: Cli, settings: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.write_text("session_scatter = 0.5\n")
    store = Store(Path("mlruns"))
    write_in_sessions(store, build_plan(num_rounds=3))
    for run_id in store.run_ids():
        state = TrackingState(tracking_uri="https://bench:5000", experiment="mine")
        store.write_state(run_id, state)
    shown: list[Comparison] = []

    def show(
        store: Store, plan: SweepPlan, comparison: Comparison, tracker: object
    ) -> TrackedSweep:
        shown.append(comparison)
        return TrackedSweep("7", frozenset(store.run_ids()))

    monkeypatch.setattr(show_in_mlflow, "show_sweep", show)
    monkeypatch.setattr(ui, "tracker_maker", lambda *_: lambda *_: None)
    assert tfbench("ui", "--sweep", "@last").exit_code == 0
    (comparison,) = shown
    assert comparison.settings.session_scatter == 0.5
    speedup = comparison.rows[0].entries[MIRRORED].speedup
    assert speedup and not speedup.is_decided
    for command in (("compare", "--sweep"), ("sweep", "--no-mlflow", "--resume")):
        done = tfbench(*command, "@last")
        assert (done.exit_code, "drift by 50 %" in done.stdout) == (0, True)


def test_a_file_that_cannot_be_read_is_named(tfbench: Cli, settings: Path) -> None:
    settings.mkdir()
    message = rejection_of(tfbench("compare", "--all"))
    assert message == f"Error: {settings}: cannot be read: Is a directory\n"
