"""What a reader must know before trusting a run's figures: the warnings that hold of it."""

from tfbench.analysis.run.evidence import Evidence
from tfbench.analysis.run.machine_warnings import MACHINE
from tfbench.analysis.run.speed_warnings import SPEED
from tfbench.analysis.run.training_warnings import EARLY, LIMITS, NOTES
from tfbench.records.run import RunResult


def find_warnings(result: RunResult) -> tuple[str, ...]:
    """Returns one text for each thing that limits what a run's figures say: what was seen, and what to do.

    What speaks against the speed comes first; what the user asked for himself last, since no figure is wrong by it. Of
    a profile nothing is said of a training, since there is none.
    """
    run = Evidence(result)
    found = [*find_speed_warnings(result), *(() if result.request.profile else LIMITS.texts(run)), *EARLY.texts(run)]
    return tuple(dict.fromkeys((*found, *find_requested_warnings(result))))


def find_speed_warnings(result: RunResult) -> tuple[str, ...]:
    """Returns the warnings that speak against a run's speed: what disturbed it, and what was measured too shortly.

    That replicas share cores is no disturbance, and what limits a training is none: those are not among them.
    """
    run = Evidence(result)
    of_training = () if result.request.profile else SPEED.texts(run)
    return tuple(dict.fromkeys((*MACHINE.texts(run), *of_training, *result.notes)))


def find_early_warnings(result: RunResult) -> tuple[str, ...]:
    """Returns the warnings that a user should see before waiting for a run whose devices are known."""
    return tuple(EARLY.texts(Evidence(result)))


def find_requested_warnings(result: RunResult) -> tuple[str, ...]:
    """Returns notes, which are no warnings: how devices were chosen, and what the user asked for himself."""
    of_training = () if result.request.profile else NOTES.texts(Evidence(result))
    return (*(result.placement.notes if result.placement else ()), *of_training)
