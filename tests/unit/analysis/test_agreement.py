"""No command contradicts another about the same runs."""

from collections.abc import Callable
from pathlib import Path

import pytest

from agreement import PlantedStore, judge_search, judge_two_groups


@pytest.mark.parametrize("judge", [judge_two_groups, judge_search])
def test_commands_agree_about_the_same_runs(in_tmp_path: Path, judge: Callable[[PlantedStore], dict[str, str]]) -> None:
    said = []
    for seed in range(10):
        found = judge(PlantedStore(in_tmp_path / str(seed), seed))
        assert len(set(found.values())) == 1, found
        said += next(iter(found.values())).split(", ")
    assert len(set(said)) >= 3  # all that there is to say was said
