"""Whether commands contradict each other: stores whose speeds are planted, and what each command says of the same runs.

    python benchmarks/agreement.py          # 200 stores; ends with 1 if any two disagree

In each store are runs now beside runs then, of which `check` and `compare` say whether they are faster. How many runs
there are, how far they scatter and by how much they differ is drawn.
"""

import collections
import sys
import tempfile
from pathlib import Path

import click

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "support"))

from agreement import PlantedStore, judge_two_groups


@click.command()
@click.option("--stores", default=200, show_default=True)
def main(stores: int) -> None:
    """Prints a Markdown table of what was said how often; ends with 1 if any two commands disagree."""
    counts: collections.Counter[tuple[str, str]] = collections.Counter()
    num_disagreeing = 0
    with tempfile.TemporaryDirectory() as name:
        for seed in range(stores):
            said = judge_two_groups(PlantedStore(Path(name) / str(seed), seed))
            words = set(said.values())
            if len(words) > 1:
                num_disagreeing += 1
                click.echo(f"store {seed}: {said}", err=True)
            counts[" and ".join(said), next(iter(words))] += 1
    click.echo("| commands | said | times |\n| --- | --- | --- |")
    for (commands, word), times in sorted(counts.items()):
        click.echo(f"| {commands} | {word} | {times} |")
    click.echo(f"\n{stores} stores: {num_disagreeing} in which two commands disagree.")
    sys.exit(num_disagreeing > 0)


if __name__ == "__main__":
    main()
