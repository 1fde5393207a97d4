"""How long reading and comparing the runs of a store takes, start-up and imports apart.

    python benchmarks/reading.py                              # 1,000 and 10,000 runs
    python benchmarks/reading.py --runs 200

Runs are planted: of 3 networks and 3 batch sizes under 2 setups, each with an id and a speed of its
own, and as many spans as five seconds have. Every figure is of a process of its own: the first
reading makes each run's brief from its journal, as for runs that were imported or that an older
version made; later readings find the briefs, as the end of a run leaves them.
"""

import sys
import tempfile
import time
from pathlib import Path

import click
from harness import describe_machine, print_head, print_row, run_program

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "support"))

from builders import build_span
from journals import build_sized_result, write_journal
from tfbench.store.store import Store

NUM_SPANS = 100
LIMITS = {1_000: 1.0, 10_000: 5.0}  # seconds that reading and comparing so many runs may take

# In a process of its own: imports, then reading and comparing, then the table; prints their times,
# and what was found.
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
print(imported - start, compared - imported, processor, shown - compared, len(found.runs))
"""


def plant(num_runs: int, root: Path) -> None:
    """Fills a store with so many runs."""
    store = Store(root)
    for index in range(num_runs):
        seconds = 0.05 * (1 + index / num_runs / 50)
        spans = []
        for first in range(1, 10 * NUM_SPANS, 10):
            spans.append(build_span(first_step=first, last_step=first + 9, seconds=seconds))
        write_journal(store, build_sized_result(index, spans=tuple(spans)))


def measure(root: Path, num_runs: int) -> list[str]:
    """Compares a store's runs in a process of its own; returns the cells of its times."""
    start = time.perf_counter()
    printed = run_program([sys.executable, "-c", _COMPARE.format(root=str(root))])
    whole = time.perf_counter() - start
    imports, compared, processor, shown, num_found = map(float, printed.split())
    assert num_found == num_runs, f"{num_found:.0f} of {num_runs} runs have a speed"
    others = [f"{seconds:.2f} s" for seconds in (processor, shown, imports, whole)]
    return [f"**{compared:.2f} s**", *others]


@click.command()
@click.option(
    "--runs",
    "numbers",
    multiple=True,
    type=click.IntRange(1),
    default=list(LIMITS),
    show_default=True,
    help="Runs in a store.",
)
def main(numbers: tuple[int, ...]) -> None:
    """Prints what reading and comparing costs, as Markdown."""
    times = ("reading and comparing", "of it on a processor", "table and verdict", "imports")
    print_head("runs", "briefs", *times, "whole process", "limit")
    with tempfile.TemporaryDirectory() as folder:
        for number in numbers:
            root = Path(folder) / f"store-{number}"
            plant(number, root)
            limit = f"{LIMITS[number]:g} s" if number in LIMITS else ""
            for briefs in ("made from the journals", "there", "there"):
                print_row(f"{number:,}", briefs, *measure(root, number), limit)
    click.echo(f"\n{describe_machine()}")


if __name__ == "__main__":
    main()
