"""No command contradicts another about the same runs."""

from pathlib import Path

from agreement import PlantedStore, judge_two_groups


def test_commands_agree_about_the_same_runs(in_tmp_path: Path) -> None:
    said = set()
    for seed in range(10):
        found = judge_two_groups(PlantedStore(in_tmp_path / str(seed), seed))
        assert len(set(found.values())) == 1, found
        said |= set(found.values())
    assert len(said) >= 3  # all that there is to say was said
