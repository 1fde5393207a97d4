"""A network that is built again has the names that it had the first time."""

import keras
import pytest

from tfbench.worker.name_counts import names_from, read_name_counts


def build() -> list[str]:
    layers = [keras.layers.Dense(4), keras.layers.Dropout(0.5), keras.layers.Dense(2)]
    return [weight.path for weight in keras.Sequential([keras.Input((3,)), *layers]).variables]


def test_a_second_build_has_the_names_of_the_first_and_a_third_those_that_it_would_have_had() -> None:
    counts = read_name_counts()
    first = build()
    after = read_name_counts()
    with names_from(counts):
        assert build() == first
    assert read_name_counts() == after
    assert not set(build()) & set(first)


def test_names_go_on_as_before_where_the_second_build_fails() -> None:
    counts = read_name_counts()
    keras.layers.Dense(4)
    after = read_name_counts()
    with pytest.raises(ValueError, match="no network"), names_from(counts):
        keras.layers.Dense(4)
        raise ValueError("no network")
    assert read_name_counts() == after
    assert keras.layers.Dense(1).name not in {"dense", None}
