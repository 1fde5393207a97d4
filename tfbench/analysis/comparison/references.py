"""Published figures beside measured ones: which are comparable, and how they compare.

Speeds are compared where steps are steady: the first epoch of a run holds its compilation.
"""

import contextlib
import dataclasses
import json
from collections.abc import Iterator, Mapping
from typing import Any

from tfbench.analysis.comparison.brief import RunBrief, make_brief
from tfbench.analysis.comparison.comparison import Comparison, compare
from tfbench.analysis.comparison.equality import flatten
from tfbench.analysis.run.warnings import BESIDE_WORKLOAD, OF_WORKLOAD
from tfbench.errors import TfbenchError
from tfbench.recipe import files
from tfbench.recipe import tables as recipe_tables
from tfbench.records.run import RunResult, Summary
from tfbench.records.sweep import format_value

NO_SPEED = "no speed was published"


@dataclasses.dataclass(frozen=True, slots=True)
class FigurePair:
    """A published speed beside ours of one setup, in samples per second.

    Ours hold no validation.
    """

    configuration: dict[str, Any]
    setup: str
    hardware: tuple[str, ...]
    ours: float
    theirs: float

    @property
    def ratio(self) -> float:
        """Our speed over theirs; above 1: we are the faster."""
        return self.ours / self.theirs


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class ReferenceMatch:
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
    own = {run.recipe: _shipped_settings(run) for run in comparison.runs}
    return tuple(_match(reference, comparison, own) for reference in comparison.references)


def match_run(result: RunResult, summary: Summary) -> tuple[ReferenceMatch, ...]:
    """Says the same of a run alone."""
    return match_references(compare([make_brief(result, summary, journal_bytes=0)]))


def _shipped_settings(run: RunBrief) -> dict[str, Any]:
    """Returns the values that the shipped recipe of a run has of its own.

    Nothing if the run is of another.
    """
    with contextlib.suppress(TfbenchError):
        shipped = files.load_recipe(files.shipped_folder() / f"{run.recipe}.toml")
        tables = json.loads(
            json.dumps(recipe_tables.to_tables(shipped))
        )  # as they come back from a journal
        if tables["reference"] == json.loads(json.dumps(run.references)):
            return flatten(tables)
    return {}


def _match(
    reference: dict[str, Any], comparison: Comparison, own: Mapping[str, dict[str, Any]]
) -> ReferenceMatch:
    figures = reference["figures"]
    pairs = list[FigurePair]()
    others = list[list[str]]()
    without = "" if _published_speed(figures, 1) else NO_SPEED
    if reason := reference.get("not_comparable") or without:
        return ReferenceMatch(reference=reference, pairs=(), reason=reason)
    for row in comparison.rows:
        for entry in row.entries.values():
            if not entry.runs or reference not in entry.runs[0].references:
                continue
            run = entry.runs[0]
            other = list(_list_other_values(run, own[run.recipe]))
            theirs = _published_speed(figures, run.train_samples)
            if other:
                others.append(other)
            elif entry.speed and theirs:
                hardware = tuple(dict.fromkeys(name for run in entry.runs for name in run.hardware))
                pairs.append(
                    FigurePair(row.configuration, entry.setup, hardware, entry.speed, theirs)
                )
    nearest = sorted(others, key=len)[:1]
    reason = f"you used {', '.join(nearest[0])}" if nearest else "no speed was measured"
    return ReferenceMatch(reference=reference, pairs=tuple(pairs), reason="" if pairs else reason)


def _published_speed(figures: Mapping[str, float], train_samples: int | None) -> float | None:
    """Returns a published speed in samples per second, of epochs of so many samples; None.

    It cannot be told.
    """
    if speed := figures.get("samples_per_second"):
        return speed
    elapsed = figures.get("elapsed_seconds", 0.0)
    seconds = figures.get("epoch_seconds") or (
        elapsed / figures["epochs"] if figures.get("epochs") else 0.0
    )
    return train_samples / seconds if seconds and train_samples else None


def _list_other_values(run: RunBrief, own: Mapping[str, Any]) -> Iterator[str]:
    """Yields in what a run is another workload than its recipe: what differs, or was set for it.

    Where the recipe's own values are not known, whatever was set for the run counts as another.
    """
    others = {
        key: value
        for key, value in run.settings.items()
        if (own[key] != value if key in own else key in run.overrides)
        and key.startswith(OF_WORKLOAD)
        and key not in BESIDE_WORKLOAD
    }
    for key, value in others.items():
        if (
            key in run.overrides or f"{key.rpartition('.')[0]}.name" not in run.overrides
        ):  # with it, defaults differ
            yield f"{key.partition('.')[2]}={format_value(value)}"
    if run.is_synthetic:
        yield "synthetic data"
