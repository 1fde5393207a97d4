"""What becomes of a second run for the same id where its user may not delete it."""

from types import SimpleNamespace
from typing import Any

import pytest

from tfbench.tracking.mlflow_runs import search_run


class Client:
    """Has a full run and an empty one, and lets nobody delete."""

    def __init__(self, error_code: str) -> None:
        self.error_code = error_code
        self.ended: list[tuple[str, str]] = []

    def search_runs(self, *arguments: Any) -> list[Any]:
        return [
            SimpleNamespace(
                info=SimpleNamespace(run_id=run_id, lifecycle_stage=stage), data=SimpleNamespace(params=params)
            )
            for run_id, stage, params in (
                ("1", "active", {}),
                ("2", "active", {"a": "b"}),
                ("3", "deleted", {"a": "b"}),
            )
        ]

    def delete_run(self, run_id: str) -> None:
        from mlflow.exceptions import RestException

        raise RestException({"error_code": self.error_code, "message": "no"})

    def set_terminated(self, run_id: str, status: str) -> None:
        self.ended.append((run_id, status))


def test_a_second_run_that_may_not_be_deleted_is_ended() -> None:
    client: Any = Client("PERMISSION_DENIED")
    found = search_run(client, "1", "a" * 32)
    assert found and found.info.run_id == "2"
    assert client.ended == [("1", "KILLED")]


def test_what_else_goes_wrong_is_raised() -> None:
    from mlflow.exceptions import MlflowException

    client: Any = Client("INTERNAL_ERROR")
    with pytest.raises(MlflowException, match="no"):
        search_run(client, "1", "a" * 32)
    assert client.ended == []
