"""Compares what a network learns under `default` and on mirrored replicas.

There are 1, 2, 3, 4, 5 and 8 replicas.

    python benchmarks/truth/replicas.py

One epoch of `features4_hidden100_mlp` by plain SGD, whose steps follow from the gradients alone: a
replica that is left out of a sum, or a loss that is divided by the wrong number, shows in the loss.
TensorFlow's HierarchicalCopyAllReduce, which leaves one out where their number is odd, gave 0.0546
instead of 0.0399 on three replicas at a batch of 96. Ends with 0 if all losses are that of
`default` within 0.1 %, and says which are not.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import click

COUNTS = {120: (1, 2, 3, 4, 5, 8), 96: (3,)}  # replicas by global batch size, which they divide
LARGEST_DIFFERENCE = 1e-3


def train(folder: Path, batch_size: int, num_replicas: int) -> dict:
    """Returns the JSON document of a run; no replicas: of one under `default`."""
    command = [
        sys.executable,
        "-m",
        "tfbench",
        "run",
        "features4_hidden100_mlp",
        "--format",
        "json",
        "--epochs",
        "1",
    ]
    command += [
        "--set",
        f"training.global_batch_size={batch_size}",
        "--store",
        str(folder / "mlruns"),
    ]
    command += [
        "--set",
        'training.optimizer={name="sgd",learning_rate=0.1}',
        "--set",
        "measurement.checks=false",
    ]
    devices = ",".join(f"cpu:{index}" for index in range(num_replicas)) or "cpu:0"
    command += ["--strategy", "mirrored" if num_replicas else "default", "--devices", devices]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=False)
    if done.returncode:
        raise SystemExit(done.returncode)
    return json.loads(done.stdout)


@click.command()
def main() -> None:
    """Trains, prints the table, and ends with 1 if any loss is not that of `default`."""
    wrong = []
    click.echo("| batch | replicas | training loss | validation loss | beside default |")
    click.echo("| --- | --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as name:
        for batch_size, counts in COUNTS.items():
            (plain,) = train(Path(name), batch_size, 0)["epochs"]
            click.echo(
                f"| {batch_size} | default | {plain['loss']:.6f} | {plain['val_loss']:.6f} | |"
            )
            for count in counts:
                (epoch,) = train(Path(name), batch_size, count)["epochs"]
                difference = max(abs(epoch[key] / plain[key] - 1) for key in ("loss", "val_loss"))
                learned = f"{epoch['loss']:.6f} | {epoch['val_loss']:.6f}"
                click.echo(f"| {batch_size} | {count} | {learned} | {difference:.1e} |")
                if difference > LARGEST_DIFFERENCE:
                    wrong.append(f"{count} replicas at a batch of {batch_size}: {difference:.1%}")
    if wrong:
        raise SystemExit(f"not trained as default trains: {'; '.join(wrong)}")


if __name__ == "__main__":
    main()
