"""Mean speeds of all tracked runs by recipe, batch size and setup, with MLflow's own search."""

import mlflow

mlflow.set_tracking_uri("sqlite:///mlruns/mlflow.db")  # or the address of your server
runs = mlflow.search_runs(
    experiment_names=["tfbench"],
    filter_string="tags.`tfbench.run_id` LIKE '%'",  # without the curves of sweeps, which have none
)
runs["batch size"] = runs["params.global_batch_size"].astype(int)
speeds = runs.pivot_table(
    index=["tags.tfbench.recipe", "batch size"],
    columns="params.setup",
    values="metrics.samples_per_second",
)
print(speeds)
