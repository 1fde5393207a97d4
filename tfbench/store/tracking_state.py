"""Where a run is tracked, and how much of its journal is there already."""

import dataclasses

from tfbench.records.run import TrackedRun


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class TrackingState:
    """Where a run is tracked, and how much of its journal is there already.

    `run` is None until MLflow knows the run. `projected_bytes` is the size of the journal that was wholly sent.
    """

    tracking_uri: str
    experiment: str
    run: TrackedRun | None = None
    projected_bytes: int = 0
