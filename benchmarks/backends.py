"""By how much trainings on JAX and PyTorch begin otherwise than on TensorFlow, recipe by recipe.

    python benchmarks/backends.py                     # those that are installed; minutes

Small networks on synthetic data, dropout off; TensorFlow's figures are those that tests hold each
backend against (`tests/support/first_steps.py`, which derives the bound). Prints a Markdown table.
"""

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests" / "support"))

import first_steps  # noqa: E402

_TITLES = {"jax": "JAX", "torch": "PyTorch"}
_HEADS = (
    "recipe",
    "backend",
    "first batch, weights",
    "loss before",
    "loss of step 1",
    "of steps 1 to 5",
    "of the bound",
)


@click.command()
@click.option("--one", is_flag=True, hidden=True)
def main(one: bool) -> None:
    """Prints the table, each backend in a process of its own."""
    if one:
        click.echo(json.dumps(list(_measure())))
        return
    rows = []
    for name, title in _TITLES.items():
        if find_spec(name):
            done = subprocess.run(
                [sys.executable, __file__, "--one"],
                env=os.environ | {"KERAS_BACKEND": name, "CUDA_VISIBLE_DEVICES": "-1"},
                stdout=subprocess.PIPE,
                check=True,
            )
            rows += [
                [recipe, title, *cells]
                for recipe, *cells in json.loads(done.stdout.splitlines()[-1])
            ]
    click.echo(f"| {' | '.join(_HEADS)} |\n|{' --- |' * len(_HEADS)}")
    click.echo("\n".join(f"| {' | '.join(row)} |" for row in sorted(rows)))


def _measure() -> Any:
    """Yields a row a recipe: the largest difference over its optimizers."""
    expected = first_steps.read_expected()
    found: dict[str, list[tuple[bool, float, float, float, float, int]]] = {}
    for recipe, optimizer in first_steps.list_cases():
        mine = first_steps.begin(first_steps.load_small(recipe, optimizer))
        theirs = expected[f"{recipe} {optimizer}"]
        steps = list(first_steps.differences(mine, theirs))
        found.setdefault(recipe, []).append(
            (
                all(mine[name] == theirs[name] for name in ("batch", "weights")),
                abs(mine["inference_loss"] - theirs["inference_loss"]),
                steps[0].difference,
                max(step.difference for step in steps[: first_steps.FIRST_STEPS]),
                max(step.difference / step.bound for step in steps if step.is_held),
                sum(step.is_held for step in steps),
            )
        )
    for recipe, cases in found.items():
        equal, before, first, early, share, num_held = zip(*cases, strict=True)
        yield [
            recipe,
            "equal" if all(equal) else "DIFFERENT",
            *(f"{max(values):.1e}" for values in (before, first, early)),
            f"{max(share):.2f} in {min(num_held)} steps",
        ]


if __name__ == "__main__":
    main()
