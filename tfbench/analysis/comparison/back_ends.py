"""What arms differ in by nature where they train with different frameworks."""

from collections.abc import Iterator

from tfbench.analysis.comparison.comparison import Comparison
from tfbench.recipe.abilities import BACKEND_TITLES

_MADE_BY = {
    "graph": "TensorFlow's graph",
    "xla": "XLA",
    "eager": "operation after operation from Python",
    "inductor": "torch.compile",
}


def describe_differences(comparison: Comparison) -> Iterator[str]:
    """Says how steps and batches are made on each back end; nothing where there is but one.

    What is equal on all of them, initial weights and batches, is so by construction.
    """
    steps: dict[str, None] = {}
    backends: dict[str, None] = {}
    for run in comparison.runs:
        backends[run.backend] = None
        compiler = str((run.equals.get("settings") or {}).get("compiler", ""))
        title = next((title for name, title in BACKEND_TITLES.items() if name == run.backend), run.backend)
        steps[f"{title}'s by {_MADE_BY.get(compiler, compiler)}"] = None
    if len(backends) < 2:
        return
    yield (
        "Initial weights, batches and their order are equal on all back ends. By nature they differ in how a step is "
        f"made ({', '.join(steps)}), in how batches are (tf.data on TensorFlow, NumPy in a thread on the others), and "
        "in the numbers that dropout draws."
    )
