"""How long reading and comparing the runs of a store takes, start-up and imports apart.

    python benchmarks/reading.py                              # 1,000 and 10,000 runs
    python benchmarks/reading.py --journal mlruns/journals/3f2a91bc07de.jsonl --runs 200

One journal, of a run that is made for it or that is named, is planted many times, over 4 networks x
4 batch sizes under 2 setups, each copy with an id and a speed of its own. Every figure is of a
process of its own: the first reading makes each run's brief from its journal, as for runs that were
imported or that an older version made; later readings find the briefs, as the end of a run leaves
them.
"""

import json
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import click
from footer import describe_machine

SEED = 0
NETWORKS = ([100], [1000], [1000, 1000], [4000, 4000])
BATCHES = (32, 128, 512, 2048)
SETUPS = (("default", ["cpu:0"]), ("mirrored", ["cpu:0", "cpu:1"]))
LIMITS = {1_000: 1.0, 10_000: 5.0}  # seconds that reading and comparing so many runs may take

# In a process of its own: imports, then reading and comparing; prints both times and what was
# found.
_COMPARE = """
import time
start = time.perf_counter()
from pathlib import Path
from tfbench.comparisons.intervals import log_interval
from tfbench.comparisons.verdict import find_verdict
from tfbench.comparisons.comparison_text import comparison_table
from tfbench.sweeps.compared import compare_stored
from tfbench.store.store import Store
log_interval([1.0, 2.0])  # imports what it needs of SciPy
imported, processor = time.perf_counter(), time.process_time()
store = Store(Path({root!r}))
found = compare_stored(store, store.run_ids())
compared, processor = time.perf_counter(), time.process_time() - processor
lines = [*comparison_table(found).text(120), *find_verdict(found)]
shown = time.perf_counter()
sizes = len(found.runs), len(found.rows), len(found.setups)
print(imported - start, compared - imported, processor, shown - compared, *sizes)
"""


def make_run(folder: Path) -> Path:
    """Makes a short run; returns its journal."""
    command = [
        sys.executable,
        "-m",
        "tfbench",
        "run",
        "mnist_mlp",
        "--data",
        "synthetic",
        "--seconds",
        "5",
    ]
    command += ["--devices", "cpu:0", "--set", "measurement.checks=false", "--store", str(folder)]
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    (journal,) = (folder / "journals").glob("*.jsonl")
    return journal


def plant(journal: Path, num_runs: int, root: Path) -> None:
    """Fills a store with so many copies of a run."""
    rng = random.Random(SEED)
    records = [json.loads(line) for line in journal.read_bytes().splitlines()]
    (root / "journals").mkdir(parents=True)
    for index in range(num_runs):
        copy = json.loads(json.dumps(records))
        change(copy, index, 1.0 + 0.02 * rng.random())
        text = "".join(json.dumps(record, separators=(",", ":")) + "\n" for record in copy)
        (root / "journals" / f"{index:012x}.jsonl").write_text(text, encoding="utf-8")


def change(records: list[dict[str, Any]], index: int, factor: float) -> None:
    """Makes a copy of a run another one.

    Its id, network, batch size and setup, and steps so many times as long.
    """
    strategy, devices = SETUPS[index % 2]
    network = NETWORKS[index // 2 % 4]
    batch = BATCHES[index // 8 % 4]
    for record in records:
        match record["kind"]:
            case "request":
                request = record["request"]
                request |= {
                    "run_id": f"{index:012x}",
                    "created": request["created"] + index,
                    "tags": {},
                }
                request["recipe"]["model"]["hidden_units"] = network
                request["recipe"]["training"]["global_batch_size"] = batch
            case "ready":
                record["placement"] |= {
                    "strategy": strategy,
                    "devices": devices,
                    "num_replicas": len(devices),
                    "global_batch_size": batch,
                    "per_replica_batch_size": batch // len(devices),
                }
            case "spans":
                record["spans"] = [
                    [epoch, first, last, factor * s] for epoch, first, last, s in record["spans"]
                ]


def measure(root: Path) -> list[float]:
    """Compares a store's runs in a process of its own.

    Returns what it prints, and its time from start to end.
    """
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", _COMPARE.format(root=str(root))],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return [*map(float, done.stdout.split()), time.perf_counter() - start]


@click.command()
@click.option(
    "--journal",
    type=click.Path(exists=True, path_type=Path),
    help="Of a finished run; without, one is made.",
)
@click.option(
    "--runs",
    "numbers",
    multiple=True,
    type=click.IntRange(1),
    help="Runs in a store. [default: 1000, 10000]",
)
def main(journal: Path | None, numbers: tuple[int, ...]) -> None:
    """Prints what reading and comparing costs, as Markdown."""
    head = [
        "runs",
        "briefs",
        "reading and comparing",
        "of it on a processor",
        "table and verdict",
        "imports",
    ]
    head += ["whole process", "limit"]
    click.echo(f"| {' | '.join(head)} |\n|{' --- |' * len(head)}")
    with tempfile.TemporaryDirectory() as folder:
        journal = journal or make_run(Path(folder) / "run")
        for number in numbers or tuple(LIMITS):
            root = Path(folder) / f"store-{number}"
            plant(journal, number, root)
            for briefs in ("made from the journals", "there", "there"):
                imports, compared, processor, shown, num_runs, num_rows, num_setups, whole = (
                    measure(root)
                )
                if num_runs != number:
                    raise click.ClickException(
                        f"{num_runs:.0f} of {number} runs have a speed: is the journal whole?"
                    )
                limit = f"{LIMITS[number]:g} s" if number in LIMITS else ""
                times = [
                    f"**{compared:.2f} s**",
                    *(f"{one:.2f} s" for one in (processor, shown, imports, whole)),
                ]
                click.echo(f"| {' | '.join([f'{number:,}', briefs, *times, limit])} |")
        size = journal.stat().st_size
    click.echo(
        f"\n{num_rows:.0f} rows x {num_setups:.0f} setups; a journal has {size / 1024:.0f} KiB."
    )
    click.echo(describe_machine())


if __name__ == "__main__":
    main()
