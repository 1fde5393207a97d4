"""A network's digest: the same wherever the same was built, another wherever something else was."""

import functools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from keras import layers

from runs import facts_of
from tfbench.models.structure.identity import digest_of_network


def shifted(x: Any) -> Any:
    return x + 1


class Plain(layers.Layer):
    """A layer without a configuration: Keras cannot save what it was made with."""

    def __init__(self, inner: Any) -> None:
        super().__init__()
        self.inner = inner

    def call(self, x: Any) -> Any:
        return self.inner(x)


class Own(keras.Model):
    def __init__(self, units: int) -> None:
        super().__init__()
        self.parts = [layers.Dense(units), layers.Dropout(0.5)]

    def call(self, x: Any) -> Any:
        return self.parts[1](self.parts[0](x))


def graph(*, swaps: bool = False, seed: int | None = None, batch: Any = None) -> Any:
    inputs = [keras.Input((4,), batch_size=batch) for _ in range(2)]
    first, second = reversed(inputs) if swaps else inputs
    hidden = layers.Dense(3, activation=lambda x: x + 1)(first)
    noisy = layers.GaussianNoise(0.1, seed=seed)(layers.Dense(3)(second))
    joined = layers.Subtract()([hidden, noisy])
    return keras.Model(inputs, keras.ops.mean(joined, axis=1, keepdims=True))


def row(*parts: Any, name: str | None = None) -> Any:
    return keras.Sequential([keras.Input((4,)), *parts], name=name)


def compiled(**changes: Any) -> Any:
    model = row(layers.Dense(2), layers.Dense(1))
    given = {
        "optimizer": keras.optimizers.Adam(changes.pop("rate", 0.1)),
        "loss": changes.pop("loss", "mse"),
        "metrics": [keras.metrics.MeanSquaredError(), lambda y, predicted: y - predicted],
    }
    model.compile(**{**given, **changes})
    model._comes_compiled = True
    return model


NETWORKS: dict[str, Callable[[], Any]] = {
    "graph": graph,
    "graph with seed": functools.partial(graph, seed=5),
    "graph for batches": functools.partial(graph, batch=7),
    "swapped": functools.partial(graph, swaps=True),
    "row": lambda: row(layers.Dense(3)),
    "named row": lambda: row(layers.Dense(3, name="mine"), name="row"),
    "row of tanh": lambda: row(layers.Dense(3, activation="tanh")),
    "row of a function": lambda: row(layers.Dense(3, activation=shifted)),
    "frozen row": lambda: row(layers.Dense(3, trainable=False)),
    "row in float64": lambda: row(layers.Dense(3, dtype="float64")),
    "nested": lambda: row(row(layers.Dense(3))),
    "without configuration": lambda: row(Plain(layers.Dense(3))),
    "without configuration, wider": lambda: row(Plain(layers.Dense(4))),
    "class": lambda: Own(3),
    "wider class": lambda: Own(4),
    "drawn seed": lambda: keras.Sequential([keras.Input((8, 8, 3)), layers.RandomRotation(0.1)]),
    "array": lambda: row(layers.Rescaling(np.full(4, 2.0, np.float32))),
    "other array": lambda: row(layers.Rescaling(np.full(4, 3.0, np.float32))),
    "compiled": compiled,
    "compiled to run otherwise": lambda: compiled(
        run_eagerly=True, steps_per_execution=3, jit_compile=False
    ),
    "other rate": lambda: compiled(rate=0.2),
    "other optimizer": lambda: compiled(optimizer="adam"),
    "other loss": lambda: compiled(loss=keras.losses.Huber()),
    "own loss": lambda: compiled(loss=functools.partial(keras.losses.huber, delta=2.0)),
    "other metrics": lambda: compiled(metrics=[]),
    "weighted loss": lambda: compiled(loss_weights=[2.0]),
}
# Networks that compute the same, but for their batches, seeds and names.
ALIKE = {
    "graph with seed": "graph",
    "graph for batches": "graph",
    "named row": "row",
    "compiled to run otherwise": "compiled",
}


@functools.cache
def digests() -> dict[str, str]:
    return {name: digest_of_network(build()) for name, build in NETWORKS.items()}


@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_that_is_built_again_is_the_same(name: str) -> None:
    expected = digests()[ALIKE.get(name, name)]
    keras.utils.set_random_seed(9)  # as another run draws its seeds
    for _ in range(2):  # Keras counts its names up
        assert digest_of_network(NETWORKS[name]()) == expected


def test_networks_that_compute_otherwise_are_not_the_same() -> None:
    unlike = [digest for name, digest in digests().items() if name not in ALIKE]
    assert len(set(unlike)) == len(unlike)


@pytest.mark.slow
def test_digests_are_those_of_another_process() -> None:
    root = str(Path(__file__).parents[3])  # of the name of this module
    program = (
        f"import json, sys; sys.path[:0] = {[root, *sys.path]!r}; import {__name__} as tests\n"
        "print(json.dumps(tests.digests()))"
    )
    assert facts_of(program, PYTHONHASHSEED="7") == digests()


class Odd(layers.Layer):
    """A layer whose configuration holds any value."""

    def __init__(self, value: Any) -> None:
        super().__init__()
        self.value = value

    def get_config(self) -> Any:
        return {"value": self.value}

    def call(self, x: Any) -> Any:
        return x


@pytest.mark.parametrize("value", [str.upper, keras.Input((2,))])
def test_a_configuration_that_cannot_be_read_costs_no_run(value: Any) -> None:
    assert digest_of_network(row(Odd(value)))


def test_an_array_of_objects_goes_by_what_they_are() -> None:
    def digest(*texts: str) -> str:
        # Texts made anew, at addresses of their own.
        return digest_of_network(row(Odd(np.array([text * 30 for text in texts], object))))

    assert digest("A", "B") == digest("A", "B") != digest("A")
