"""Says of a sweep on several machines when and where each run was measured, and if two were at once on one machine.

Usage: python benchmarks/cluster/overlaps.py STORE [SWEEP]

All is read from the journals and the sweep's record. A run lasts from its journal's first record to its last, and a
run that a lost machine left counts, too. Exit code 1: two overlap on a machine.
"""

import itertools
import sys
from pathlib import Path

from tfbench.records.journal import read_records
from tfbench.records.lines import last_time
from tfbench.records.sweep import list_cells
from tfbench.records.tasks import list_tasks
from tfbench.store.store import Store
from tfbench.store.sweep_log import find_sweep, read_losses, read_record, read_sweep


def main(root: str, token: str = "@last") -> int:
    """Prints a line a run, and what is wrong."""
    store = Store(Path(root))
    sweep_id = find_sweep(store, token)
    plan, results = read_sweep(store, sweep_id)
    machines = {result.run_id: result.machine for result in read_record(store.root / "sweeps" / f"{sweep_id}.jsonl")[1]}
    compared = {result.run_id for result in results.values()}
    spans: dict[str, list[tuple[float, float, str]]] = {}
    lines = []
    for run_id in store.run_ids():
        records = read_records(store.journal_path(run_id))
        request = records[0]["request"]
        if request.get("tags", {}).get("tfbench.sweep") != sweep_id:
            continue
        ready = next((record for record in records if record["kind"] == "ready"), {"environment": {}})
        environment = ready["environment"]
        machine = machines.get(run_id, "?")
        status = next((record["status"] for record in records if record["kind"] == "exit"), "no end")
        span = (records[0]["time"], last_time(records), run_id)
        spans.setdefault(machine, []).append(span)
        tags = request["tags"]
        lines.append(
            f"{span[0] - plan.created:7.1f} to {span[1] - plan.created:7.1f} s  {machine:14} "
            f"point {tags['tfbench.point']} round {tags['tfbench.round']} {tags['tfbench.arm']:36} {status:8} "
            f"niceness {environment.get('niceness')} threads {environment.get('thread_variables')!r}"
            f"{'' if run_id in compared else ' (not compared)'}"
        )
    print("\n".join(sorted(lines)))
    faults = 0
    for machine, found in spans.items():
        found.sort()
        both = [(a[2], b[2]) for a, b in itertools.pairwise(found) if b[0] < a[1]]
        faults += len(both)
        print(f"{machine}: {len(found)} runs, {len(both)} of them beside another {both or ''}")
    for task in list_tasks(plan):
        made = [results[cell.number].machine for cell in task.cells if cell.number in results]
        print(f"task {task.number}: {len(made)} of {len(task.cells)} runs, on {set(made)}")
    print(
        f"{len(results)} of {len(list_cells(plan))} runs; lost: {[tuple(one) for one in read_losses(store, sweep_id)]}"
    )
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
