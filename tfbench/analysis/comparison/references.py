"""Published figures beside measured ones: which can be held against each other, and how they compare.

Speeds are compared where steps are steady: the first epoch of a run holds its compilation.
"""

import contextlib
import dataclasses
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from tfbench.analysis.comparison.brief import RunBrief, make_brief
from tfbench.analysis.comparison.comparison import Comparison, Entry, Row, compare
from tfbench.analysis.comparison.equality import flatten
from tfbench.errors import TfbenchError
from tfbench.recipe import files
from tfbench.recipe import tables as recipe_tables
from tfbench.recipe.value_types import VARIABLE_SECTIONS
from tfbench.records.run import RunResult, Summary
from tfbench.records.sweep import BATCH_KEY, SweepPlan, format_value

# Sections whose values make a workload, and keys among them that do not: which data is told by the run itself, how long
# is trained does not change the time of an epoch, and how the work is carried out is part of the software.
_OF_WORKLOAD = ("model.", "dataset.", "training.")
_BESIDE_WORKLOAD = (
    "dataset.data",
    "training.epochs",
    "training.stop_at_val_accuracy",
    "training.stop_below_error_change",
    "training.steps_per_execution",
    "training.data_on_device",
    "training.backend",
    "training.compiler",
    "training.deterministic",
    "training.seed",
    "training.intra_op_threads",
    "training.inter_op_threads",
)
_NUM_NAMED = 4  # values that a reason names
_SYNTHETIC = "synthetic data here"
_KINDS = {_SYNTHETIC: _SYNTHETIC, BATCH_KEY: "other batch size", "model": "other network", "dataset": "other data"}


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class FigurePair:
    """A published speed beside ours of one setup: `samples_per_second`, or the `epoch_seconds` that ours makes.

    Ours hold no validation.
    """

    name: Literal["samples_per_second", "epoch_seconds"]
    setting: dict[str, Any]
    setup: str
    hardware: tuple[str, ...]
    ours: float
    theirs: float

    @property
    def ratio(self) -> float:
        """Our speed over theirs; above 1: we are the faster."""
        return self.theirs / self.ours if self.name == "epoch_seconds" else self.ours / self.theirs


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class ReferenceMatch:
    """A published reference, with the figures that can be held against ours, or the reasons why none can."""

    reference: dict[str, Any]
    pairs: tuple[FigurePair, ...] = ()
    reasons: tuple[str, ...] = ()


def match_references(comparison: Comparison) -> tuple[ReferenceMatch, ...]:
    """Says of each published reference whether it can be held against the runs, and how it compares.

    It can be where network, data and batch size are the recipe's own, the data real, and a speed was published: samples
    per second, seconds an epoch, or seconds of a known number of epochs. Hardware and software differ always.
    """
    return tuple(_match(reference, comparison) for reference in comparison.references)


def match_run(result: RunResult, summary: Summary) -> tuple[ReferenceMatch, ...]:
    """Says the same of a run alone."""
    brief = make_brief(result, summary, journal_bytes=0)
    alone = compare([brief])
    return match_references(dataclasses.replace(alone, own_settings=find_own_settings([brief])))


def find_own_settings(briefs: Sequence[RunBrief], plan: SweepPlan | None = None) -> dict[str, Any] | None:
    """Returns the values that the recipe of runs has of its own, under dotted keys, as far as they are known.

    Those of a shipped recipe stand in its file, if it is the one that the runs' published figures are from; those of
    another in the plan of a sweep, but for what the command line set.
    """
    if len({brief.recipe for brief in briefs}) != 1:
        return None
    with contextlib.suppress(TfbenchError):
        shipped = files.load_recipe(files.shipped_folder() / f"{briefs[0].recipe}.toml")
        tables = json.loads(json.dumps(recipe_tables.to_tables(shipped)))  # as they come back from a journal
        if tables["reference"] == json.loads(json.dumps(briefs[0].references)):
            return _flatten_settings(tables)
    if plan is None:
        return None
    return {key: value for key, value in _flatten_settings(plan.tables).items() if key not in plan.overrides}


def published_epoch_seconds(figures: Mapping[str, float]) -> float | None:
    """Returns the seconds of an epoch, if they can be told from published figures."""
    if figures.get("epoch_seconds"):
        return figures["epoch_seconds"]
    epochs, elapsed = figures.get("epochs"), figures.get("elapsed_seconds")
    return elapsed / epochs if elapsed and epochs else None


def _flatten_settings(tables: Mapping[str, Any]) -> dict[str, Any]:
    return flatten({name: tables.get(name, {}) for name in VARIABLE_SECTIONS})


def _match(reference: dict[str, Any], comparison: Comparison) -> ReferenceMatch:
    own, figures = comparison.own_settings, reference["figures"]
    measured = [
        (row, entry, _find_differences(entry.runs[0], own))
        for row in comparison.rows
        for entry in row.entries.values()
        if entry.runs and reference in entry.runs[0].references
    ]
    alike = [(row, entry) for row, entry, differences in measured if not differences]
    reasons = [] if alike else list(_describe_differences([differences for _, _, differences in measured]))
    if not figures.get("samples_per_second") and published_epoch_seconds(figures) is None:
        has_time = figures.get("elapsed_seconds")
        reasons.append("its time is of an unknown number of epochs" if has_time else "no speed was published")
    if reference.get("not_comparable"):
        reasons.append(reference["not_comparable"])
    if reasons:
        return ReferenceMatch(reference=reference, reasons=tuple(reasons))
    pairs = [pair for row, entry in alike for pair in _find_pairs(figures, row, entry)]
    return ReferenceMatch(reference=reference, pairs=tuple(pairs), reasons=() if pairs else ("no speed here",))


def _find_differences(run: RunBrief, own: Mapping[str, Any] | None) -> dict[str, str]:
    """Returns in what a run is another workload than the recipe: what differs, and our value of it."""
    found: dict[str, str] = {}
    for key, value in run.settings.items():
        if not key.startswith(_OF_WORKLOAD) or key in _BESIDE_WORKLOAD:
            continue
        is_other = own[key] != value if own is not None and key in own else key in run.overrides
        if is_other:
            found[key] = str(value) if key == BATCH_KEY else f"{key.partition('.')[2]}={format_value(value)}"
    if run.is_synthetic:
        found[_SYNTHETIC] = ""
    return found


def _describe_differences(measured: Sequence[Mapping[str, str]]) -> Iterator[str]:
    """Yields what keeps the runs that come nearest from being the recipe's own workload."""
    if not measured:
        yield "no run of it here has a speed"
        return
    fewest = min(map(len, measured))
    named: dict[str, list[str]] = {}
    for differences in measured:
        for key, value in differences.items() if len(differences) == fewest else ():
            kind = _KINDS.get(key) or _KINDS.get(key.partition(".")[0], "other training")
            values = named.setdefault(kind, [])
            if value not in values:
                values.append(value)
    for kind, values in named.items():
        more = f" and {len(values) - _NUM_NAMED} more" if len(values) > _NUM_NAMED else ""
        yield kind + (f": {', '.join(values[:_NUM_NAMED])}{more}" if any(values) else "")


def _find_pairs(figures: Mapping[str, float], row: Row, entry: Entry) -> Iterator[FigurePair]:
    runs, speed = entry.runs, entry.speed
    samples = runs[0].train_samples
    theirs, published_speed = published_epoch_seconds(figures), figures.get("samples_per_second")
    hardware = tuple(dict.fromkeys(name for run in runs for name in run.hardware))
    fields: dict[str, Any] = {"setting": row.setting, "setup": entry.setup, "hardware": hardware}
    if published_speed and speed:
        yield FigurePair(name="samples_per_second", ours=speed, theirs=published_speed, **fields)
    if theirs is not None and speed and samples:
        yield FigurePair(name="epoch_seconds", ours=samples / speed, theirs=theirs, **fields)
