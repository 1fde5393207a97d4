"""Makes MLflow's database as MLflow does, in a process that has MLflow imported."""

import sys
from pathlib import Path

from tfbench.tracking import database
from tfbench.tracking.mlflow_calls import set_up_mlflow


def main() -> None:
    """Makes the one that is named on the command line."""
    set_up_mlflow()
    database.create(Path(sys.argv[1]))
