"""Which of MLflow's runs stands for a run, and what a user of MLflow set there and keeps."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from mlflow.exceptions import MlflowException

from builders import build_result
from kinds import Fields
from sweeps import build_plan
from tfbench.errors import TrackingError
from tfbench.show.figures import SETUP_COLORS
from tfbench.store.store import Store
from tfbench.tags import CURVE_TAG, RUN_TAG
from tfbench.tracking import mlflow_sweep, mlflow_tracker
from tfbench.tracking.fields import COLOR_TAG
from tfbench.tracking.mlflow_calls import explained, search_run
from tfbench.tracking.tracker import Curve

CHOSEN = "#123456"


def mlflow_run(
    run_id: str, stage: str = "active", *, is_empty: bool = False, **tags: str
) -> SimpleNamespace:
    params = {} if is_empty else {"strategy": "default"}
    return SimpleNamespace(
        info=SimpleNamespace(run_id=run_id, lifecycle_stage=stage),
        data=SimpleNamespace(params=params, tags=tags),
    )


EMPTY = mlflow_run("a", is_empty=True)
GONE = mlflow_run("b", "deleted")
GONE_EMPTY = mlflow_run("c", "deleted", is_empty=True)
WHOLE = mlflow_run("d")
OTHER = mlflow_run("e")


@pytest.mark.parametrize(
    ("twins", "found", "deleted"),
    [
        ([], None, []),
        ([EMPTY], EMPTY, []),
        ([GONE, EMPTY, GONE_EMPTY, WHOLE], WHOLE, ["a"]),
        ([GONE, EMPTY], EMPTY, []),
        ([OTHER, WHOLE], WHOLE, []),  # a user's copy, which holds figures
        ([GONE_EMPTY, GONE], GONE, []),
    ],
)
def test_of_twins_the_one_with_most_counts_and_empty_ones_are_deleted(
    twins: list[Any], found: Any, deleted: list[str]
) -> None:
    gone: list[str] = []
    client: Any = SimpleNamespace(search_runs=lambda *_: twins, delete_run=gone.append)
    assert search_run(client, "7", "f" * 32) is found
    assert gone == deleted


@pytest.mark.parametrize("color", [None, CHOSEN])
def test_a_run_keeps_the_colour_that_a_user_chose(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, color: str | None
) -> None:
    sent: list[Fields] = []
    monkeypatch.setattr(mlflow_tracker, "log_whole", lambda *_, **what: sent.append(what["tags"]))
    monkeypatch.setattr(mlflow_tracker, "log_dataset", lambda *_: None)
    monkeypatch.setattr(mlflow_tracker.MlflowTracker, "_connected", lambda self: None)
    tracker = mlflow_tracker.MlflowTracker("http://127.0.0.1:1", "tfbench", Store(tmp_path))
    tags = {COLOR_TAG: color} if color else {}
    tracker._send(mlflow_run("a", **tags), build_result(), None)
    (tags,) = sent
    assert (tags.get(COLOR_TAG) in SETUP_COLORS) == (color is None)


@pytest.mark.parametrize("color", [SETUP_COLORS[3], CHOSEN])
def test_a_sweep_s_view_keeps_the_colour_that_a_user_chose(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, color: str
) -> None:
    run = mlflow_run("a", **{RUN_TAG: "f" * 32, COLOR_TAG: color})
    parent = mlflow_run("p", **{CURVE_TAG: "drawn"})
    given: Fields = {}
    monkeypatch.setattr(mlflow_sweep, "_search", lambda *_: [run])
    monkeypatch.setattr(mlflow_sweep, "write_view", lambda *_: None)
    monkeypatch.setattr(mlflow_sweep, "_create", lambda *_: parent)
    monkeypatch.setattr(
        mlflow_sweep, "_set_tags", lambda _, run, tags: given.update({run.info.run_id: tags})
    )
    curve = Curve(name="default cpu:0", place=0, over="batch size", points={}, run_ids=("f" * 32,))
    nothing: Any = None
    mlflow_sweep.write_sweep(nothing, nothing, build_plan(), [curve], ["Use it."], tmp_path)
    assert given["a"].get(COLOR_TAG, color) == (CHOSEN if color == CHOSEN else SETUP_COLORS[0])


@pytest.mark.parametrize(
    ("reason", "said"),
    [
        ("[Errno 111] Connection refused')", "Connection refused"),
        ("[Errno -2] Name or service not known)", "Name or service not known"),
    ],
)
def test_a_server_that_is_not_there_is_said_in_a_few_words(reason: str, said: str) -> None:
    error = MlflowException(
        f"API request to http://a failed: HTTPConnectionPool(port=9): Max retries exceeded with url: /a {reason}"
    )
    with pytest.raises(TrackingError) as raised, explained("http://a:9", "Recover."):
        raise error
    expected = f"MLflow at http://a:9: cannot be reached ({said}). Is the server running? Recover."
    assert str(raised.value) == expected
    full = OSError(28, "No space left on device", "/tmp/a")
    told = r"http://a:9: \[Errno 28\] No space left on device"
    with pytest.raises(TrackingError, match=told), explained("http://a:9", "Recover."):
        raise full
