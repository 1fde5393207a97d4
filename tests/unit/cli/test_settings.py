"""What a user has set for himself, and what wins over it."""

from pathlib import Path

import pytest

from fake_runs import FakeRuns
from kinds import Cli
from outcomes import rejection_of


def test_a_variable_counts_unless_an_option_is_given(
    tfbench: Cli, in_tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = FakeRuns(100.0)
    monkeypatch.setattr(
        "tfbench.runs.run_maker.RunMaker.make", lambda maker, request, *rest: runs(request)
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


def test_a_file_that_cannot_be_read_is_named(tfbench: Cli, settings: Path) -> None:
    settings.mkdir()
    assert (
        tfbench("compare", "--all").stderr == f"Error: {settings}: cannot be read: Is a directory\n"
    )
