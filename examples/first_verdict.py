"""A first verdict from Python: one run, a sweep of two batch sizes, and a table of all of it.

Takes a minute on two processor cores; everything is kept in the folder `mlruns`, where `tfbench ui`
shows it.
"""

import pandas

import tfbench

# %% One run, on data that is made from the seed, so that nothing is downloaded.
SHORT = {"measurement.steps": 20, "measurement.checks": False}

run = tfbench.run("mnist_hidden100_mlp", synthetic=True, devices="cpu:0", overrides=SHORT)
print(f"{run.run_id}: {run.status}, {run.metrics['samples_per_second']:,.0f} samples/s")
for warning in run.warnings:
    print(f"- {warning}")

# %% The same network with two batch sizes; more rounds would give intervals.
swept = tfbench.sweep(
    "mnist_hidden100_mlp",
    vary={"training.global_batch_size": [32, 512]},
    setups=["default cpu:0"],
    rounds=1,
    overrides=SHORT,
    synthetic=True,
)
print(pandas.DataFrame(swept.rows())[["training.global_batch_size", "samples_per_second"]])
print("\n".join(swept.verdict))

# %% Every run of the store, a row each.
runs = pandas.DataFrame(tfbench.load_runs("mlruns"))
print(runs.groupby("training.global_batch_size")["samples_per_second"].agg(["count", "median"]))
