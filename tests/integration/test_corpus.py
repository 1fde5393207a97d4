"""Programs as users write them train under tfbench as under plain `fit`, or are refused in words.

A few of `tests/corpus`; `pytest -m corpus tests/integration/test_corpus.py` takes all of them.
"""

import functools
import os
from pathlib import Path
from typing import Any

import pytest

import corpus
from runs import facts_of

BACKEND = os.environ.get("KERAS_BACKEND", "tensorflow")
PROBE = Path(corpus.__file__)
STRATEGIES = ("default",) if BACKEND == "torch" else ("default", "mirrored")
# Of each kind of data: arrays, batches by tf.data, by a PyDataset and by a generator; several steps
# a call, state that goes on from batch to batch, and steps of one's own, which build the network.
SOME = (
    "feature_dataframe_inputs",
    "feature_generator",
    "feature_pydataset_workers",
    "feature_stateful_rnn",
    "feature_steps_per_execution",
    "feature_tfdata_interleave",
    "forwardforward",
)

pytestmark = pytest.mark.slow


@functools.cache
def outcome_of(name: str, strategy: str) -> dict[str, Any]:
    return facts_of(PROBE, strategy, name, KERAS_BACKEND=BACKEND)


def require_equal_or_refused(name: str, strategy: str) -> None:
    if BACKEND not in corpus.backends_of(name):
        pytest.skip(f"not written for {BACKEND}")
    outcome = outcome_of(name, strategy)
    assert outcome["outcome"] in ("equal", "refused", "fit fails"), outcome["why"]
    if outcome["outcome"] == "refused":
        assert outcome["why"]


@pytest.mark.parametrize("name", SOME)
def test_a_program_trains_as_by_fit(name: str) -> None:
    require_equal_or_refused(name, "default")


@pytest.mark.corpus
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("name", corpus.names())
def test_every_program_trains_as_by_fit_or_is_refused(name: str, strategy: str) -> None:
    require_equal_or_refused(name, strategy)
