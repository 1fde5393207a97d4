"""How far a run has come, as an observer is told."""

import dataclasses


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class TrainingProgress:
    """Steps that are done of a run.

    Attributes:
        step: Steps done in the whole run.
        total_steps: Steps of the whole run; None: not known, as for a run limited by seconds.
        epoch: Epoch under way, from 1.
        step_in_epoch: Steps done in it.
        steps_per_epoch: Steps of an epoch.
        steps_per_second: None: not known yet.
        seconds_left: Of the whole run; None: not known yet.
    """

    step: int
    total_steps: int | None
    epoch: int
    step_in_epoch: int
    steps_per_epoch: int
    steps_per_second: float | None
    seconds_left: float | None
