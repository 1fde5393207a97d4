"""A store of somebody else.

What leads out of it is rejected, and nothing is sent where the user has not said.
"""

from pathlib import Path
from typing import Any

import pytest

from journals import build_sized_result, write_journal
from kinds import Cli
from outcomes import error_of
from sweeps import build_plan, write_sweep
from tfbench.errors import TrackingError
from tfbench.store.journal import files_folder
from tfbench.store.recover import recover
from tfbench.store.store import Store, TrackingState
from tfbench.store.sweep_log import read_sweep
from tfbench.tracking.address import find_named

RUN = f"{0:032x}"


@pytest.fixture
def store(in_tmp_path: Path, store: Store) -> Store:
    write_journal(store, build_sized_result(0))
    return store


@pytest.mark.parametrize(
    ("written", "instead"),
    [
        *(
            ('"sweep_id":"abc"', f'"sweep_id":"{sweep_id}"')
            for sweep_id in ("../../x", "", "other")
        ),
        *(('"values":[32,64]', f'"values":[{size},64]') for size in ('"x"', "1.5")),
    ],
)
def test_a_sweep_with_another_id_or_no_batch_size_is_rejected(
    store: Store, written: str, instead: str
) -> None:
    write_sweep(store, build_plan(), lambda planned: 1000.0)
    path = store.root / "sweeps" / "abc.json"
    path.write_text(path.read_text().replace(written, instead))
    with pytest.raises(TrackingError, match="is not a record of a sweep"):
        read_sweep(store, "abc")


def unreachable(*place: str) -> Any:
    raise TrackingError("no server")


MINE = (
    "film.part",
    "sub/x.part",
    "big.json.part/f",
    "x.reserve",
    "thesis.work/1.tex",
    "data.jsonl",
    "data.csv",
)


@pytest.mark.parametrize(
    "link", ["journals", "sweeps", f"journals/{RUN}.files", f"journals/{RUN}.files/checkpoints"]
)
def test_a_recovery_removes_nothing_through_a_link(store: Store, tmp_path: Path, link: str) -> None:
    mine = tmp_path / "mine"
    for name in MINE:
        (mine / name).parent.mkdir(parents=True, exist_ok=True)
        (mine / name).touch()
    before = sorted(mine.rglob("*"))
    place = store.root / link
    if link == "journals":
        store.journals.rename(tmp_path / "moved")
    place.parent.mkdir(exist_ok=True)
    place.symlink_to(mine)
    store.remove_leftovers(lambda run_id: True)
    recover(store, unreachable)
    store.discard("data")
    assert sorted(mine.rglob("*")) == before
    store.discard(RUN)  # which is rid of a link of its own
    assert (place.is_symlink(), sorted(mine.rglob("*"))) == (link in ("journals", "sweeps"), before)


def test_a_folder_of_checkpoints_whose_journal_was_moved_away_stays(store: Store) -> None:
    folder = files_folder(store.journal_path(RUN))
    folder.mkdir()
    (folder / "model.keras").touch()
    store.journal_path(RUN).unlink()
    recover(store, unreachable)
    assert (folder / "model.keras").exists()


SERVER = "https://mlflow.evil.example"


@pytest.mark.parametrize("uri", [SERVER, "sqlite:////home/me/photos.db"])
def test_recover_sends_nothing_to_an_address_that_only_the_store_names(
    store: Store, tfbench: Cli, uri: str
) -> None:
    store.write_state(RUN, TrackingState(tracking_uri=uri, experiment="x"))
    done = tfbench("recover")
    assert done.exit_code == 2
    assert f"Runs of this store are tracked at {uri}." in done.stdout
    assert f"add --tracking-uri {uri}, or set MLFLOW_TRACKING_URI" in done.stdout


@pytest.mark.parametrize(
    ("named", "is_allowed"),
    [
        (None, False),
        ("https://mlflow.evil.example/", True),
        ("https://me:pw@MLFLOW.evil.example", True),
        ("https://mlflow.evil.example:8443", False),
        ("https://mlflow.evil.example/team", False),
        ("http://mlflow.evil.example", False),
        ("https://mlflow.good.example", False),
        ("https://mlflow.evil.example@good.example", False),
    ],
)
def test_a_server_is_named_by_its_scheme_host_port_and_path(
    named: str | None, is_allowed: bool
) -> None:
    if is_allowed:
        assert find_named(SERVER, (named,)) == named
    else:
        with pytest.raises(TrackingError, match="If you trust it"):
            find_named(SERVER, (named,))


def test_a_password_of_a_rejected_address_is_not_shown() -> None:
    message = error_of(TrackingError, find_named, "https://u:s3/cret@h?token=abc", ())
    assert "s3/cret" not in message
    assert "abc" not in message
