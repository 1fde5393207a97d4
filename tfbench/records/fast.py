"""How a run under the fastest settings that short runs found is marked: what they were, and what they are worth."""

from tfbench.records.run import RunRequest

FAST_KEYS = ("data_on_device", "steps_per_execution", "jit_compile")  # of [training]; all that is tried
FAST_TAG = "tfbench.fast"  # the group of the short runs, its trial
TRIAL_TAG = "tfbench.trial"  # of each of them, its number
AS_ASKED_TAG = "tfbench.fast_as_asked"  # samples/s of the recipe as it was asked for, in one of them


def speed_as_asked(request: RunRequest) -> float | None:
    """Returns the speed in samples/s of the recipe as it was asked for; None for a run that was made without trial."""
    text = request.tags.get(AS_ASKED_TAG)
    return float(text) if text else None
