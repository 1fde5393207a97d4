"""What arms differ in by nature where they train with different frameworks, and what they are called then."""

from collections.abc import Iterator, Mapping

from tfbench.analysis.comparison.comparison import Comparison
from tfbench.recipe.abilities import title_of

_MADE_BY = {
    "graph": "its graph",
    "xla": "XLA",
    "eager": "one operation after another, from Python",
    "inductor": "torch.compile",
}
_WORD = "backend="  # of an arm's label, before its back end


def name_arms(backends: Mapping[str, str]) -> dict[str, str]:
    """Returns what sentences call arms: by their back ends where they differ in nothing else, otherwise by their label.

    Args:
        backends: Of each arm, by its label.
    """
    rests = {" ".join(word for word in label.split() if not word.startswith(_WORD)) for label in backends}
    differ_by_it_alone = len(rests) == 1 and len(set(backends.values())) == len(backends) > 1
    return {label: title_of(backend) if differ_by_it_alone else label for label, backend in backends.items()}


def backend_in(label: str) -> str:
    """Returns the back end that the label of an arm says."""
    return next((word.removeprefix(_WORD) for word in label.split() if word.startswith(_WORD)), "tensorflow")


def find_names(comparison: Comparison) -> dict[str, str]:
    """Returns what sentences call the arms of a comparison, by their labels."""
    backends = {arm: backend_in(arm) for arm in comparison.arms}
    for row in comparison.rows:
        backends |= {arm: entry.runs[0].backend for arm, entry in row.entries.items() if entry.runs}
    return name_arms(backends)


def describe_differences(comparison: Comparison) -> Iterator[str]:
    """Says how steps and batches are made on each back end; nothing where there is but one.

    What is equal on all of them, initial weights and batches, is so by construction.
    """
    steps: dict[str, None] = {}
    backends: dict[str, None] = {}
    for run in comparison.runs:
        backends[run.backend] = None
        compiler = str((run.equals.get("settings") or {}).get("compiler", ""))
        steps[f"{title_of(run.backend)}: {_MADE_BY.get(compiler, compiler)}"] = None
    if len(backends) < 2:
        return
    yield (
        f"Backends start from equal weights and batches. They differ in how they compile steps ({'; '.join(steps)}), "
        "load batches and draw dropout."
    )
