"""How a run under the fastest settings that short runs found is marked: what they are, and what they are worth."""

import dataclasses
from typing import Any

from tfbench.records.run import RunRequest

FAST_TAG = "tfbench.fast"  # the group of the short runs, its trial
TRIAL_TAG = "tfbench.trial"  # of each of them, its number
AS_ASKED_TAG = "tfbench.fast_as_asked"  # samples/s of the recipe as it was asked for, in one of them
CHANGED_TAG = "tfbench.fast_changed"  # the keys of [training] that are set otherwise, with blanks between


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Fast:
    """What a run's settings were chosen by."""

    as_asked: float  # samples/s of the recipe as it was asked for, in a short run
    settings: dict[str, Any]  # of [training], set otherwise; none: nothing was faster


def read_fast(request: RunRequest) -> Fast | None:
    """Returns what the settings of a run were chosen by; None for a run that was made without trial."""
    if AS_ASKED_TAG not in request.tags:
        return None
    keys = request.tags.get(CHANGED_TAG, "").split()
    training = request.recipe.training
    training = dataclasses.replace(training, compiler=training.compiler_used)
    return Fast(as_asked=float(request.tags[AS_ASKED_TAG]), settings={key: getattr(training, key) for key in keys})
