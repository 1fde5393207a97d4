"""What variants are trained for, and what is said of one that failed."""

from types import SimpleNamespace

import pytest

from tfbench import variant_profiler


class Trained:
    """A step whose training function returns running means of given losses, an execution of steps at a time."""

    def __init__(self, losses: list[float], steps_per_execution: int = 1) -> None:
        self.model = self
        self.steps_per_execution = steps_per_execution
        self.restored = 0
        self._losses, self._done = losses, 0

    def restore(self) -> None:
        self.restored += 1

    def reset_metrics(self) -> None:
        self._done = 0

    def train_function(self, iterator: object) -> dict[str, float]:
        self._done += self.steps_per_execution
        return {"loss": sum(self._losses[: self._done]) / self._done}


def test_losses_are_those_of_each_execution_and_the_weights_are_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(variant_profiler, "time", SimpleNamespace(perf_counter=lambda: 0.0))
    step = Trained([4.0, 2.0, 3.0, 1.0, 9.0], steps_per_execution=2)
    assert variant_profiler._train_losses(step, None, 5) == pytest.approx([3.0, 2.0])
    assert step.restored == 2
    nan = Trained([1.0, float("nan"), 1.0])
    assert variant_profiler._train_losses(nan, None, 3) == [1.0, None, None]


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
    assert variant_profiler._reason_of(ValueError(text)) == reason
