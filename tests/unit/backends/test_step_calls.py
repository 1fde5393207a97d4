"""How calls of a step end: all that are held against each other in the same way."""

import itertools
from types import SimpleNamespace
from typing import Any

import pytest

from tfbench.backends.tensorflow.step_calls import StepCalls
from tfbench.recipe.backend_support import why_layers_merge


class Device:
    """Does what it is given later, until a result of it is read."""

    def __init__(self) -> None:
        self.queued: list[str] = []
        self.reads: list[list[str]] = []

    def do(self, name: str) -> Any:
        self.queued.append(name)
        return SimpleNamespace(numpy=self._read)

    def _read(self) -> float:
        self.reads.append(list(self.queued))
        self.queued.clear()
        return 0.0


def build_calls(device: Device, steps_per_execution: int = 1) -> StepCalls:
    """Builds the calls of a step that does nothing but to keep a device busy."""
    calls = StepCalls.__new__(StepCalls)
    calls.model = SimpleNamespace(
        train_function=lambda _: {"accuracy": None, "loss": device.do("keras")}, steps_per_execution=steps_per_execution
    )
    calls.batches = SimpleNamespace(cycle=lambda: itertools.repeat((None, None)))
    calls._profiled = SimpleNamespace(
        build=lambda upto: lambda x, y: (device.do(upto), []) if upto == "backward" else device.do(upto),
        build_take=lambda: lambda _: device.do("take"),
    )
    return calls


def test_phases_and_kerass_own_step_beside_them_end_when_their_result_is_read_and_a_step_of_fit_does_not() -> None:
    device = Device()
    calls = build_calls(device, 10)
    phases = map(calls.call, ("dispatch", "forward", "backward", "update"))
    (keras, num_steps), (of_fit, _) = calls.keras_call(None, waits=True), calls.keras_call(None)
    for call in (*phases, calls.take_call(None), keras, of_fit):
        call()
    assert device.reads == [["dispatch"], ["forward"], ["backward"], ["update"], ["take"], ["keras"]]
    assert (device.queued, num_steps) == (["keras"], 10)


@pytest.mark.parametrize(
    ("backend", "compiler", "reason"),
    [
        ("tensorflow", "graph", ""),
        ("tensorflow", "xla", 'XLA makes one program of all layers (compiler = "xla"): none can be timed apart. --set'),
        ("tensorflow", "eager", 'no operation has the name of its layer (compiler = "eager")'),
        ("jax", "eager", "none can be timed apart. --backend tensorflow shows them"),
        ("torch", "eager", ""),
        ("torch", "inductor", "--set training.compiler=eager shows them as PyTorch computes them one after another."),
    ],
)
def test_says_why_layers_cannot_be_told_apart(backend: Any, compiler: Any, reason: str) -> None:
    told = why_layers_merge(backend, compiler)
    assert reason in told and bool(reason) == bool(told)
