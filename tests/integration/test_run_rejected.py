"""What only the measuring process can see is rejected there, and nothing is stored."""

from pathlib import Path

import pytest

from runs import run


@pytest.mark.slow
def test_what_only_the_worker_can_see_is_rejected_and_nothing_is_stored(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    done = run(
        "run", "mnist_mlp", "--data-dir", "data", "--format", "json", cwd=tmp_path, is_first=True
    )
    assert (done.exit_code, list(done.document)) == (2, ["error"])  # no half of another JSON object
    assert "data set mnist: not in" in done.stderr and "not in" in done.document["error"]["message"]
    assert sum(one.startswith("Error: ") for one in done.stderr.splitlines()) == 1
    assert "Traceback" not in done.stderr
    assert [path.name for path in tmp_path.rglob("*")] == ["data"]
