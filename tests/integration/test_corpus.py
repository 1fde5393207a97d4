"""Programs as users write them train under tfbench as under plain `fit`, or are refused in words.

A few of `tests/corpus`; `pytest -m corpus tests/integration/test_corpus.py` takes all of them.
"""

import functools
import os
import sys
from typing import Any

import pytest

import corpus

BACKEND = os.environ.get("KERAS_BACKEND", "tensorflow")
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
def outcomes(strategy: str, *names: str) -> dict[str, dict[str, Any]]:
    found = corpus.try_in_process(sys.executable, BACKEND, strategy, *names)
    return {outcome["name"]: outcome for outcome in found}


def require_equal_or_refused(outcome: dict[str, Any]) -> None:
    assert outcome["outcome"] in ("equal", "refused", "fit fails"), outcome["why"]
    if outcome["outcome"] == "refused":
        assert outcome["why"]


def written_for_backend(*names: str) -> list[str]:
    return [name for name in names if BACKEND in corpus.backends_of(name)]


@pytest.mark.parametrize("name", written_for_backend(*SOME))
def test_a_program_trains_as_by_fit(name: str) -> None:
    require_equal_or_refused(outcomes("default", *written_for_backend(*SOME))[name])


@pytest.mark.corpus
@pytest.mark.timeout(0)  # the first of a strategy waits for all programs
@pytest.mark.parametrize("strategy", corpus.STRATEGIES_OF[BACKEND])
@pytest.mark.parametrize("name", written_for_backend(*corpus.names()))
def test_every_program_trains_as_by_fit_or_is_refused(name: str, strategy: str) -> None:
    require_equal_or_refused(outcomes(strategy, *written_for_backend(*corpus.names()))[name])
