"""Which of MLflow's runs stands for a run, and what is said of its errors."""

from types import SimpleNamespace
from typing import Any

import pytest
from mlflow.exceptions import MlflowException

from tfbench.errors import TrackingError
from tfbench.tracking.mlflow_calls import explained, search_run


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
