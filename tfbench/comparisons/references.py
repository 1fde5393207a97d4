"""Published figures beside measured ones: which are comparable, and how they compare.

Speeds are compared where steps are steady: the first epoch of a run holds its compilation.
"""

import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from tfbench.comparisons.comparison import Comparison, compare
from tfbench.comparisons.equality import Settings, flatten
from tfbench.errors import TfbenchError
from tfbench.recipe import files
from tfbench.recipe import tables as recipe_tables
from tfbench.runs.record import RunResult, Summary
from tfbench.runs.warnings import BESIDE_WORKLOAD, OF_WORKLOAD
from tfbench.show.document import to_document
from tfbench.show.formats import format_number, format_speed
from tfbench.show.table import Column, Section, Table
from tfbench.store.brief import RunBrief, make_brief
from tfbench.sweeps.plan import describe_configuration, format_value
from tfbench.wording import count

NO_SPEED = "no speed was published"


@dataclass(frozen=True, slots=True)
class FigurePair:
    """A published speed beside ours of one setup, in samples per second.

    Ours hold no validation.
    """

    configuration: Settings
    setup: str
    hardware: tuple[str, ...]
    ours: float
    theirs: float

    @property
    def ratio(self) -> float:
        """Our speed over theirs; above 1: we are the faster."""
        return self.ours / self.theirs


class ReferenceMatch(NamedTuple):
    """A published reference with its comparable speeds, or why it has none."""

    reference: dict[str, Any]
    pairs: tuple[FigurePair, ...]
    reason: str


def match_references(comparison: Comparison) -> tuple[ReferenceMatch, ...]:
    """Says of each published reference whether it is comparable with the runs, and how it compares.

    It can be where network, data and batch size are the recipe's own, the data real, and a speed
    was published: samples per second, seconds an epoch, or seconds of a known number of epochs.
    Hardware and software differ always.
    """
    newest = {run.recipe: run for run in comparison.runs}
    shipped = {recipe: _shipped_settings(run) for recipe, run in newest.items()}
    return tuple(_match(reference, comparison, shipped) for reference in comparison.references)


def match_run(result: RunResult, summary: Summary) -> tuple[ReferenceMatch, ...]:
    """Says the same of a run alone."""
    return match_references(compare([make_brief(result, summary, journal_bytes=0)]))


def _shipped_settings(run: RunBrief) -> Settings:
    """Returns the values that the shipped recipe of a run has of its own.

    Nothing if the run is of another.
    """
    with contextlib.suppress(TfbenchError):
        shipped = files.load_recipe(files.shipped_folder() / f"{run.recipe}.toml")
        tables = _as_in_a_journal(recipe_tables.to_tables(shipped))
        if tables["reference"] == _as_in_a_journal(run.references):
            return flatten(tables)
    return {}


def _as_in_a_journal(value: Any) -> Any:
    return json.loads(json.dumps(value))


def _match(
    reference: dict[str, Any], comparison: Comparison, shipped: Mapping[str, Settings]
) -> ReferenceMatch:
    figures = reference["figures"]
    reason = reference.get("not_comparable") or ""
    if not reason and not _published_speed(figures, 1):
        reason = NO_SPEED
    if reason:
        return ReferenceMatch(reference=reference, pairs=(), reason=reason)
    pairs = []
    unlike = []
    for row in comparison.rows:
        for entry in row.measured_entries():
            run = entry.runs[0]
            if reference not in run.references:
                continue
            other_values = list(_list_other_values(run, shipped[run.recipe]))
            theirs = _published_speed(figures, run.train_samples)
            if other_values:
                unlike.append(other_values)
            elif entry.speed and theirs:
                hardware: dict[str, None] = {}
                for run in entry.runs:
                    hardware |= dict.fromkeys(run.hardware)
                names = tuple(hardware)
                pairs.append(FigurePair(row.configuration, entry.setup, names, entry.speed, theirs))
    if not pairs:
        reason = "no speed was measured"
        if unlike:
            nearest = min(unlike, key=len)
            reason = f"you used {', '.join(nearest)}"
    return ReferenceMatch(reference=reference, pairs=tuple(pairs), reason=reason)


def _published_speed(figures: Mapping[str, float], train_samples: int | None) -> float | None:
    """Returns a published speed in samples per second, of epochs of so many samples.

    None: it is not known.
    """
    speed = figures.get("samples_per_second")
    if speed:
        return speed
    seconds = figures.get("epoch_seconds")
    if not seconds and figures.get("epochs"):
        seconds = figures.get("elapsed_seconds", 0.0) / figures["epochs"]
    return train_samples / seconds if seconds and train_samples else None


def _list_other_values(run: RunBrief, shipped: Settings) -> Iterator[str]:
    """Yields in what a run is another workload than its recipe: what differs, or was set for it.

    Where the recipe's own values are not known, whatever was set for the run counts as another.
    """
    for key, value in run.settings.items():
        if not key.startswith(OF_WORKLOAD) or key in BESIDE_WORKLOAD:
            continue
        is_set = key in run.overrides
        is_other = shipped[key] != value if key in shipped else is_set
        is_default_of_other = f"{key.rpartition('.')[0]}.name" in run.overrides
        if is_other and (is_set or not is_default_of_other):
            yield f"{key.partition('.')[2]}={format_value(value)}"
    if run.is_synthetic:
        yield "synthetic data"


_Reference = Mapping[str, Any]  # published figures, with what they were measured on

DISCLAIMER = "Hardware and software differ: no ratio here compares devices alone."


def reference_section(matches: Sequence[ReferenceMatch], *, is_full: bool = True) -> Section | None:
    """Returns published figures, and how runs compare with them; None without any.

    Args:
        matches: A run's, or those of a comparison.
        is_full: Whether to list every figure that was published; else those that can be compared,
            and how many not.
    """
    sentences = []
    reasons = []  # of those that cannot be compared, though a speed was published
    for match in matches:
        for pair in match.pairs:
            sentences.append(f"- {describe_pair(match.reference, pair)}")
        if not match.pairs and match.reason != NO_SPEED:
            reasons.append(match.reason)
    if sentences:
        sentences.append(DISCLAIMER)
    if is_full:
        tables = (_figures_table(matches),)
        return Section("Published results", tuple(sentences), tables) if matches else None
    if reasons:
        why = "the report lists the reasons"
        if len(set(reasons)) == 1:
            why = reasons[0]
        sentences.append(f"{count(len(reasons), 'published result')} not comparable: {why}.")
    return Section("Published results", tuple(sentences)) if sentences else None


def _figures_table(matches: Sequence[ReferenceMatch]) -> Table:
    """Returns every figure that was published, with notes and sources."""
    names: dict[str, None] = {}
    rows = []
    notes = []
    sources = []
    for match in matches:
        reference = match.reference
        names |= dict.fromkeys(reference["figures"])
        texts = {
            "on": name_reference(reference),
            "is_comparable": f"no: {match.reason}" if match.reason else "yes",
        }
        rows.append({**reference["figures"], **texts})
        if reference.get("notes"):
            notes.append(f"{reference['hardware']}: {reference['notes']}")
        if reference.get("source"):
            sources.append(f"Source: {reference['source']}")
    columns = (
        Column("on", "published on", align="left"),
        *(Column(name, name, format_number) for name in names),
        Column("is_comparable", "comparable", align="left"),
    )
    return Table("published figures", columns, rows, (*notes, *dict.fromkeys(sources)))


def references_document(comparison: Comparison) -> list[dict[str, Any]]:
    """Returns the recipe's references, each with its comparison with the runs."""
    documents = []
    for match in match_references(comparison):
        compared = {
            "comparable": bool(match.pairs),
            "reason": match.reason,
            "compared": to_document(match.pairs),
        }
        documents.append(match.reference | compared)
    return documents


def name_reference(reference: _Reference) -> str:
    """Returns hardware and devices of a reference, and whether its figures could be checked."""
    mark = "" if reference.get("verified", True) else " (unverified)"
    return f"{reference['hardware']}, {reference['devices']}{mark}"


def describe_pair(reference: _Reference, pair: FigurePair) -> str:
    """Returns what a published figure is compared with, and the ratio."""
    label = pair.setup
    configuration = describe_configuration(pair.configuration)
    if configuration:
        label += f", {configuration}"
    if pair.hardware:
        label += f" on {'; '.join(pair.hardware)}"
    return f"{label}: {describe_ratio(reference, pair)}"


def describe_ratio(reference: _Reference, pair: FigurePair) -> str:
    """Returns how a run alone compares.

    "0.38x of Intel i7-6850K, cpu (3,497 vs 9,100 samples/s)".
    """
    includes_validation = (
        reference["figures"].keys().isdisjoint(("samples_per_second", "epoch_seconds"))
    )
    speeds = f"{format_speed(pair.ours)} vs {format_speed(pair.theirs)} samples/s"
    if includes_validation:
        speeds += "; theirs includes validation"
    return f"{format_ratio(pair.ratio)}x of {name_reference(reference)} ({speeds})"


def format_ratio(ratio: float) -> str:
    """Returns a ratio with two decimals, or two significant digits where these would hide it."""
    return f"{ratio:.2f}" if ratio >= 0.1 else f"{ratio:.2g}"
