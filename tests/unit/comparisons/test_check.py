"""`tfbench check`: baselines in files, rejections, exit codes."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from builders import build_request
from fake_runs import FakeRuns, Fate, Fates
from kinds import Cli
from outcomes import json_of
from tfbench.comparisons.baseline import make_baseline, read_baseline, write_baseline
from tfbench.errors import DeviceError, TrackingError
from tfbench.runs import session

Fake = Callable[..., FakeRuns]
SPEEDS = (100.0, 101.0, 99.0, 100.5, 99.5)
# where the runs that stand in take place
CHECK = ("check", "sine_lstm", "--strategy", "one_device")
NOISY = (100.0, 120.0, 80.0, 110.0, 90.0)
LITTLE = tuple(0.97 * speed for speed in SPEEDS)
SLOW = tuple(0.9 * speed for speed in SPEEDS)


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch, in_tmp_path: Path) -> Fake:
    """Lets `tfbench check` make runs that end as they are told to."""
    monkeypatch.setenv("COLUMNS", "120")

    def use(*fates: Fate) -> FakeRuns:
        runs = FakeRuns(*fates)
        monkeypatch.setattr(session, "execute_run", lambda request, *rest: runs(request))
        return runs

    return use


@pytest.fixture
def baseline(tfbench: Cli, fake: Fake) -> Path:
    """A baseline of five runs, in a file."""
    fake(*SPEEDS)
    done = tfbench(*CHECK, "--save", "baseline.json")
    assert done.exit_code == 0
    command = "tfbench check sine_lstm --strategy one_device --baseline baseline.json"
    assert done.stdout.endswith(f"\n\nAfter a change, compare with it:\n  {command}\n")
    return Path("baseline.json")


def edit(path: Path, **fields: Any) -> None:
    document = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(document | fields), encoding="utf-8")


def test_a_baseline_is_kept_in_a_file_with_all_that_a_comparison_needs(
    tfbench: Cli, fake: Fake
) -> None:
    runs = fake(*SPEEDS)
    done = tfbench(*CHECK, "--save", "baseline.json")
    assert done.exit_code == 0
    assert done.stdout.startswith("Baseline of sine_lstm: 100 samples/s ± 0.98 %, 5 processes\n")
    document = json.loads(Path("baseline.json").read_text(encoding="utf-8"))
    assert document["samples_per_second"] == list(SPEEDS)
    assert document["run_ids"] == [request.run_id for request in runs.requests]
    assert document["group"] == runs.requests[0].tags["tfbench.group"]
    assert {request.recipe.measurement.seconds for request in runs.requests} == {5.0}
    equals = document["equals"]
    assert (equals["hostname"], equals["devices"]) == ("bench", ["cpu:0"])
    assert "tensorflow" not in equals and document["circumstances"]["tensorflow"] == "2.20.0"
    assert [path.name for path in Path().iterdir()] == ["baseline.json"]


@pytest.mark.parametrize(
    ("fates", "options", "exit_code", "judgement"),
    [
        (SLOW, (), 3, "FAILED: regression, 0.90x ["),
        (LITTLE, (), 0, "PASSED: slower, but not measurably by more than 5 %, 0.97x ["),
        # slower by 1.9 % at least
        (LITTLE, ("--fail-above", "2%"), 0, "PASSED: slower"),
        (LITTLE, ("--fail-above", "1%"), 3, "FAILED: regression"),
        (LITTLE, ("--fail-above", "0"), 3, "FAILED: regression"),
        (SPEEDS, (), 0, "PASSED: no measurable difference, "),
        (SPEEDS, ("--require-detect", "10%"), 0, "PASSED: no"),
        (NOISY, ("--require-detect", "10%"), 1, "FAILED: could not tell"),
        (NOISY, ("--require-detect", "90%"), 0, "PASSED: no"),
        (tuple(1.2 * speed for speed in SPEEDS), (), 0, "PASSED: faster, 1.20x ["),
        ((*SLOW[:4], "FAILED"), (), 3, "FAILED: regression, "),
        ((*SPEEDS[:4], "FAILED"), (), 1, "FAILED: 1 run failed. The others: no measurable"),
        ((*SPEEDS[:4], DeviceError("gone")), (), 1, "FAILED: 1 run failed. The others: no"),
    ],
)
def test_the_exit_code_says_what_was_found(
    tfbench: Cli,
    fake: Fake,
    baseline: Path,
    fates: Fates,
    options: tuple[str, ...],
    exit_code: int,
    judgement: str,
) -> None:
    fake(*fates)
    done = tfbench(*CHECK, "--baseline", str(baseline), *options)
    assert (done.exit_code, done.stderr) == (exit_code, "")
    assert any(line.startswith(judgement) for line in done.stdout.splitlines())


def test_a_check_gives_json(tfbench: Cli, fake: Fake, baseline: Path) -> None:
    fake(*SLOW)
    done = tfbench(*CHECK, "--baseline", str(baseline), "--format", "json")
    assert done.exit_code == 3
    document = done.document
    assert (document["judgement"], len(document["runs"])) == ("regression", 5)
    assert document["sentence"] in done.stderr.splitlines()
    fake(*SPEEDS)
    saved = json_of(tfbench, *CHECK, "--save", "b.json")
    assert (saved["file"], saved["baseline"]["samples_per_second"]) == ("b.json", list(SPEEDS))


@pytest.mark.parametrize(
    ("speeds_then", "exit_code", "ratio", "other"),
    [
        (SPEEDS, 3, "FAILED: regression, 0.90x [", "0.86x ["),  # slower than both
        (SLOW, 0, "PASSED: no measurable difference, 1.00x [", "0.86x ["),  # than one of them
    ],
)
def test_a_slow_down_must_show_against_each_of_several_baselines(
    tfbench: Cli,
    fake: Fake,
    baseline: Path,
    speeds_then: Any,
    exit_code: int,
    ratio: str,
    other: str,
) -> None:
    edit(baseline, samples_per_second=speeds_then)
    fake(*(1.05 * speed for speed in SPEEDS))
    assert tfbench(*CHECK, "--save", "fast.json").exit_code == 0
    runs = fake(*SLOW)
    for order in (["fast.json", str(baseline)], [str(baseline), "fast.json"]):
        both = [word for path in order for word in ("--baseline", path)]
        done = tfbench(*CHECK, *both, "--format", "json")
        assert (done.exit_code, len(runs.requests)) == (exit_code, 5)  # measured once
        runs.requests.clear()
        assert ratio in done.stderr
        assert re.search(rf"Others +{re.escape(other)}.*\] against fast\.json", done.stderr)
        document = done.document
        assert document["baseline"]["source"] == str(baseline)
        assert document["outcome"] == ratio.partition(":")[0]
        (rest,) = document["others"]
        assert (rest["baseline"]["source"], rest["judgement"]) == ("fast.json", "regression")
    edit(Path("fast.json"), equals=json.loads(baseline.read_text())["equals"] | {"hostname": "b"})
    done = tfbench(*CHECK, *both)
    assert (done.exit_code, done.stdout) == (2, "")
    assert "baseline fast.json of sine_lstm: does not match this check" in done.stderr


def test_a_baseline_that_cannot_tell_does_not_undo_what_another_shows(
    tfbench: Cli, fake: Fake, baseline: Path
) -> None:
    fake(*NOISY)
    assert tfbench(*CHECK, "--save", "noisy.json").exit_code == 0
    both = ("--baseline", "noisy.json", "--baseline", str(baseline), "--require-detect", "10%")
    for speeds, exit_code, outcome in ((SPEEDS, 0, "PASSED: no"), (SLOW, 1, "FAILED: could not")):
        fake(*speeds)
        done = tfbench(*CHECK, *both)
        assert (done.exit_code, outcome in done.stdout) == (exit_code, True)


@pytest.mark.parametrize("options", [(), ("--save", "a.json", "--baseline", "b.json")])
def test_a_check_needs_a_baseline_or_a_place_for_one(
    tfbench: Cli, fake: Fake, options: tuple[str, ...]
) -> None:
    runs = fake(*SPEEDS)
    done = tfbench(*CHECK, *options)
    assert (done.exit_code, runs.requests) == (2, [])
    assert "Either compare with a baseline (--baseline FILE), or save one" in done.stderr


def test_steps_stand_in_for_seconds(tfbench: Cli, fake: Fake) -> None:
    runs = fake(*SPEEDS)
    assert tfbench(*CHECK, "--save", "b.json", "--steps", "7", "--repeats", "3").exit_code == 0
    measured = [request.recipe.measurement for request in runs.requests]
    assert [(limits.steps, limits.seconds) for limits in measured] == [(7, None)] * 3


@pytest.mark.parametrize(
    ("hostname", "arguments", "name", "then", "now"),
    [
        ("bench", ["--global-batch-size", "20"], "batch size", 10, 20),
        ("elsewhere", [], "machine", "elsewhere", "bench"),
    ],
)
def test_what_is_not_like_the_baseline_is_rejected_unless_it_is_allowed(
    tfbench: Cli,
    fake: Fake,
    baseline: Path,
    hostname: str,
    arguments: list[str],
    name: str,
    then: object,
    now: object,
) -> None:
    equals = json.loads(baseline.read_text(encoding="utf-8"))["equals"]
    edit(baseline, equals=equals | {"hostname": hostname})
    runs = fake(*SPEEDS)
    command = (*CHECK, "--baseline", str(baseline), *arguments)
    done = tfbench(*command)
    assert (done.exit_code, done.stdout, len(runs.requests)) == (2, "", 1)  # after the first run
    assert "baseline baseline.json of sine_lstm: does not match this check" in done.stderr
    assert f"{name}: {then} there, {now} here. Use the same settings" in done.stderr
    done = tfbench(*command, "--allow-unequal")
    assert done.exit_code == 0
    assert f"{name} {then} -> {now} (allowed by --allow-unequal)" in done.stdout


@pytest.mark.parametrize(("num_then", "repeats"), [(1, "2"), (5, "1")])
def test_single_runs_are_not_judged(
    tfbench: Cli, fake: Fake, baseline: Path, num_then: int, repeats: str
) -> None:
    fates = fake(*SLOW)
    edit(baseline, run_ids=["run"] * num_then, samples_per_second=SPEEDS[:num_then])
    assert tfbench(*CHECK, "--baseline", str(baseline), "--repeats", repeats).exit_code == 2
    assert fates.requests == []


@pytest.mark.parametrize(
    ("way", "fates", "exit_code", "message"),
    [
        (
            "--baseline",
            ("FAILED", "FAILED"),
            1,
            "only 0 of 5 runs finished with a speed; nothing was judged.",
        ),
        (
            "--baseline",
            (100.0, "FAILED"),
            1,
            "only 1 of 5 runs finished with a speed; nothing was judged.",
        ),
        (
            "--baseline",
            (100.0, DeviceError("gone")),
            1,
            "nothing was judged. gone The runs are stored as group ",
        ),
        (
            "--baseline",
            (100.0, 100.0, "STOPPED"),
            130,
            "interrupted after 3 of 5 runs; nothing was judged. The runs",
        ),
        ("--baseline", (DeviceError("gone"),), 2, "gone"),
        (
            "--save",
            (100.0, "FAILED", 100.0),
            1,
            "only 4 of 5 runs finished with a speed; no baseline was saved. The",
        ),
        (
            "--save",
            (100.0, "STOPPED"),
            130,
            "interrupted after 2 of 5 runs; no baseline was saved.",
        ),
    ],
)
def test_runs_that_fail_leave_nothing_to_be_judged_or_saved(
    tfbench: Cli,
    fake: Fake,
    baseline: Path,
    way: str,
    fates: Fates,
    exit_code: int,
    message: str,
) -> None:
    before = baseline.read_bytes()
    fake(*fates)
    done = tfbench(*CHECK, way, str(baseline))
    assert (done.exit_code, done.stdout, baseline.read_bytes()) == (exit_code, "", before)
    assert message in done.stderr


def test_a_baseline_is_written_whole_or_not_at_all(in_tmp_path: Path) -> None:
    sample, _ = make_baseline(build_request(), 2, FakeRuns(100.0))
    file = Path("b.json")
    write_baseline(file, sample)
    assert read_baseline(file) == sample
    older = dict(sample.equals)
    del older["feed"]
    edit(file, equals=older)
    assert read_baseline(file).equals["feed"] == "pipeline"
    edit(file, samples_per_second=[100.0])
    with pytest.raises(TrackingError, match=r"must hold two or more\. To make one, use --save"):
        read_baseline(file)
    Path("folder").mkdir()
    with pytest.raises(TrackingError, match=r"cannot be written: .* The runs are in the store\."):
        write_baseline(Path("folder"), sample)
    assert sorted(path.name for path in Path().iterdir()) == ["b.json", "folder"]
