"""What a user has set for himself, and what wins over it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fake_runs import FakeRuns

Cli = Callable[..., Any]


def test_a_setting_counts_unless_an_option_is_given(
    tfbench: Cli, settings: Path, in_tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(in_tmp_path / "home"))  # whoever tests may have such a store
    assert tfbench("runs").stdout.startswith("Store mlruns holds no runs.")
    settings.write_text('store = "~/bench"\n')
    assert tfbench("runs").stdout.startswith(f"Store {Path.home()}/bench holds no runs.")
    assert f"--store {Path.home()}/bench" in tfbench("runs").stdout  # what is printed works anywhere
    assert tfbench("runs", "--store", "other").stdout.startswith("Store other holds no runs.")


def test_the_settings_reach_the_run_unless_a_variable_or_an_option_is_given(
    tfbench: Cli, settings: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = FakeRuns(100.0)
    monkeypatch.setattr("tfbench.runs.run_maker.RunMaker.make", lambda maker, request, *rest: runs(request))
    settings.write_text('data_dir = "/of/settings"\n')

    def ask(*options: str) -> str | None:
        assert tfbench("run", "mnist_mlp", "--format", "json", *options).exit_code == 0
        return runs.requests[-1].data_dir

    assert ask() == "/of/settings"
    monkeypatch.setenv("TFBENCH_DATA_DIR", "/of/variable")
    assert ask() == "/of/variable"
    assert ask("--data-dir", "/of/option") == "/of/option"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('stor = "x"\nbackend = 1', "stor: unknown key. Did you mean 'store'?"),
        ("store = ", "is not valid TOML: Invalid value"),
        (b"\xff", "is not UTF-8 text"),
        ("[machines.big]", "machines.big.price_per_hour: missing."),
    ],
)
def test_a_file_that_is_not_valid_is_named_with_what_is_wrong(
    tfbench: Cli, settings: Path, text: str | bytes, words: str
) -> None:
    settings.write_bytes(text if isinstance(text, bytes) else text.encode())
    rejected = tfbench("runs")
    assert (rejected.exit_code, rejected.stdout) == (2, "")
    assert rejected.stderr.startswith(f"Error: {settings}: ") and words in rejected.stderr
    assert all(f"{settings}: " in line for line in rejected.stderr.splitlines())


def test_a_file_that_cannot_be_read_is_named(tfbench: Cli, settings: Path) -> None:
    settings.mkdir()
    assert tfbench("runs").stderr == f"Error: {settings}: cannot be read: Is a directory\n"
