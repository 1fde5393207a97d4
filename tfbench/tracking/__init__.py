"""MLflow: where runs are tracked, and nothing else."""
