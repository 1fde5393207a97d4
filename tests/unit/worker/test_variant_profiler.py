"""What variants are trained for, and what is said of one that failed."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from builders import build_recipe, build_request
from tfbench.backends.tensorflow import profiling
from tfbench.records.journal import Journal
from tfbench.records.profile import ProfileRequest
from tfbench.records.variants import parse_variants
from tfbench.worker.ledger import Ledger
from tfbench.worker.profile import variants


class Trained:
    """A step that returns running means of given losses, an execution of steps at a time."""

    def __init__(self, losses: list[float], steps_per_execution: int = 1) -> None:
        self.model = self
        self.steps_per_execution = steps_per_execution
        self.restored = 0
        self._losses, self._done = losses, 0

    def restore(self) -> None:
        self.restored += 1
        self._done = 0

    def train(self, iterator: object) -> float:
        self._done += self.steps_per_execution
        return sum(self._losses[: self._done]) / self._done


def test_losses_are_those_of_each_execution_and_the_weights_are_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(variants, "time", SimpleNamespace(perf_counter=lambda: 0.0))
    step = Trained([4.0, 2.0, 3.0, 1.0, 9.0], steps_per_execution=2)
    assert variants._train_losses(step, None, 5) == pytest.approx([3.0, 2.0])
    assert step.restored == 2
    nan = Trained([1.0, float("nan"), 1.0])
    assert variants._train_losses(nan, None, 3) == [1.0, None, None]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "ValueError"),
        ("must be 1.\nReceived: 2", "must be 1."),
        ('in user code:\n\n    File "a.py", line 3, in f\n        g()\n\n    ValueError: no g\n', "ValueError: no g"),
        (
            "Graph execution error:\n\nDetected at node a\nno kernel for it\n\t [[{{node a}}]] [Op:b]",
            "no kernel for it",
        ),
        (
            "Exception encountered when calling Dense.call().\n\n\x1b[1mno such axis\x1b[0m\n\nArguments: 1",
            "no such axis",
        ),
    ],
)
def test_a_variant_that_failed_says_in_one_line_of_what(text: str, reason: str) -> None:
    assert variants._reason_of(ValueError(text)) == reason


class Steps:
    """Stands in for the steps of models, whose calls and weights it writes down; the names of models are their own."""

    def __init__(self) -> None:
        self.called: list[str] = []
        self.built: list[str] = []
        self.fails: dict[str, int] = {}  # from which build on a variant cannot be had

    def build(self, recipe: Any, *_: Any) -> Any:
        training = recipe.training
        name = "xla" if training.compiler == "xla" else "ten" if training.steps_per_execution == 10 else "base"
        self.built.append(name)
        if name in self.fails and self.built.count(name) >= self.fails[name]:
            raise ValueError(f"no more of {name}.")
        return SimpleNamespace(name=name, weights=[], set_weights=lambda _: None)

    def make(self, model: Any, *_: Any) -> Any:
        def call() -> None:
            self.called.append(model.name)

        return SimpleNamespace(
            model=model, keras_call=lambda _: (call, 1), restore=lambda: None, why_not_apart="one program"
        )


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> Steps:
    found = Steps()
    monkeypatch.setattr(variants, "build_batches", lambda _: SimpleNamespace(iterator=lambda: None))
    monkeypatch.setattr(variants, "_build", found.build)
    monkeypatch.setattr(profiling, "build_step", found.make)
    monkeypatch.setattr(variants, "_train_losses", lambda *_: [0.5])
    return found


def compared(tmp_path: Path, steps: Steps, builds: int) -> list[dict[str, Any]]:
    """Compares two variants, each round as short as can be; returns what the journal has of it."""
    recipe = build_recipe()
    profile = ProfileRequest(
        kind="variants",
        seconds=1e-9,
        builds=builds,
        variants=parse_variants(["compiler=xla,steps_per_execution=10"], recipe),
    )
    given: Any = SimpleNamespace(model=steps.build(recipe), resolved=None)
    journal = Journal(tmp_path / "journal.jsonl")
    variants.compare_variants(build_request(recipe=recipe, profile=profile), profile, given, journal, Ledger(0.0))
    journal.close()
    return [json.loads(line) for line in (tmp_path / "journal.jsonl").read_text(encoding="utf-8").splitlines()]


def of_kind(records: list[dict[str, Any]], kind: str, field: str) -> list[dict[str, Any]]:
    return [record[field] for record in records if record["kind"] == kind]


def test_all_are_built_as_often_as_asked_for_every_second_time_backwards(tmp_path: Path, steps: Steps) -> None:
    records = compared(tmp_path, steps, 3)
    assert steps.built == ["base", "xla", "ten", "ten", "xla", "base", "base", "xla", "ten"]
    rounds = of_kind(records, "profile_variant_round", "round")
    assert [one["build"] for one in rounds] == [1, 1, 2, 2, 3, 3]  # one each way, however short the time is
    names = {"as it stands", "compiler=xla", "steps_per_execution=10"}
    assert all(set(one["seconds"]) == names for one in rounds)


def test_losses_are_of_the_first_build_and_of_the_second_unchanged_one(tmp_path: Path, steps: Steps) -> None:
    setups = of_kind(compared(tmp_path, steps, 3), "profile_setup", "setup")
    trained = [(one["name"], one["build"]) for one in setups if one["losses"]]
    assert trained == [("as it stands", 1), ("compiler=xla", 1), ("steps_per_execution=10", 1), ("as it stands", 2)]


def test_a_variant_that_fails_is_not_built_again_and_the_others_go_on(tmp_path: Path, steps: Steps) -> None:
    steps.fails = {"xla": 2}
    records = compared(tmp_path, steps, 3)
    assert steps.built.count("xla") == 2
    (refused,) = (one for one in of_kind(records, "profile_setup", "setup") if one["refusal"])
    assert (refused["name"], refused["build"], refused["refusal"]) == ("compiler=xla", 2, "no more of xla.")
    rounds = of_kind(records, "profile_variant_round", "round")
    assert ["compiler=xla" in one["seconds"] for one in rounds] == [True, True, False, False, False, False]


def test_a_step_that_cannot_be_built_again_without_changes_ends_the_profile(tmp_path: Path, steps: Steps) -> None:
    steps.fails = {"base": 2}
    with pytest.raises(ValueError, match="no more of base"):
        compared(tmp_path, steps, 2)
