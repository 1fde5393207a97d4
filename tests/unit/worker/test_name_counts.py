"""A network that is built again has the names that it had the first time."""

import contextlib
import dataclasses
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import keras
import pytest

from builders import build_recipe, build_request
from tfbench.errors import Notice
from tfbench.recipe.dataset_spec import DatasetSpec
from tfbench.recipe.optimizers import ParameterGroup, SgdConfig
from tfbench.recipe.sections import ModelConfig, TrainingConfig
from tfbench.worker import compiled_model
from tfbench.worker.name_counts import names_from, read_name_counts
from tfbench.worker.profile import variants

SPEC = DatasetSpec(
    input_shape=(3,), input_dtype="float32", target_shape=(), num_classes=2, train_samples=8, validation_samples=8
)
OWN = """
import keras

def build_model(spec):
    dense = [keras.layers.Dense(4), keras.layers.Dropout(0.5), keras.layers.Dense(2)]
    return keras.Sequential([keras.Input(spec.input_shape), *dense])
"""


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


@pytest.fixture
def own_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModelConfig:
    """A network of the user's own that leaves the names to Keras."""
    (tmp_path / "unnamed_net.py").write_text(OWN, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "unnamed_net", raising=False)
    return ModelConfig(name="unnamed_net:build_model")


@pytest.mark.filterwarnings(f"ignore::{Notice.__module__}.{Notice.__qualname__}")
def test_a_variant_is_built_where_optimizer_groups_name_weights_by_the_names_of_the_first_build(
    own_model: ModelConfig,
) -> None:
    counts = read_name_counts()
    last = f"dense_{counts.get('dense', 0) + 1}/kernel"
    optimizer = SgdConfig(groups=(ParameterGroup(variables=last, weight_decay=0.01),))
    training = TrainingConfig(global_batch_size=8, epochs=1, optimizer=optimizer)
    recipe = dataclasses.replace(build_recipe(), model=own_model, training=training)
    first = compiled_model.build_compiled_model(own_model, training, SPEC, allows_code=True)
    prepared: Any = SimpleNamespace(
        name_counts=counts,
        resolved=SimpleNamespace(scope=contextlib.nullcontext),
        splits=SimpleNamespace(spec=SPEC),
    )
    second = variants._build(recipe, prepared, build_request(recipe=recipe, allows_code=True))
    assert [weight.path for weight in second.weights] == [weight.path for weight in first.weights]
    assert [one.weight_decay for one in second.optimizer._groups] == [0.0, 0.0, 0.01, 0.0]
