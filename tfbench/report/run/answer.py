"""The end of a run in a few lines: its speed, what it learned, the published figures beside it, and what to know first.

`tables`, `limits`, `trained` and `prices` have all there is; `tfbench run --verbose` and `tfbench runs RUN` show that.
"""

import itertools
from collections.abc import Sequence

from tfbench.analysis.comparison.references import match_run
from tfbench.analysis.run.cost import compute_cost
from tfbench.records.run import RunResult, Summary, TrackedRun
from tfbench.report.comparison.references import describe_match, describe_ratio
from tfbench.report.formats import format_pairs, format_time, wrap
from tfbench.report.run.energy import energy_pairs
from tfbench.report.run.fast import fast_pairs
from tfbench.report.run.prices import describe_cost
from tfbench.report.run.tables import bring_it_there, describe_speed, learning_pairs, look_at_it
from tfbench.report.run.trained import resume_line
from tfbench.wording import command_line, count, store_of

MAX_LINES = 20  # of the end of a run, whatever its cautions
_MAX_CAUTIONS = 5
_ID_CHARACTERS = 12  # a part of an id is enough for every command
_MAX_PUBLISHED = 3


def answer_lines(result: RunResult, summary: Summary, width: int) -> list[str]:
    """Returns a run's speed, what it learned, how that compares with what was published, and its cost.

    Args:
        result: The whole run.
        summary: Its figures; what was not measured is left out.
        width: Characters of a line.
    """
    metrics = summary.metrics
    pairs: list[tuple[str, str]] = []
    if text := describe_speed(metrics):
        if (median := metrics.get("step_time_median_seconds")) is not None:
            text += f"; median step {format_time(median)}"
        if (first := metrics.get("first_step_seconds")) is not None:
            text += f", first step {format_time(first)}"
        pairs.append(("speed", text))
    pairs += [*fast_pairs(result.request, metrics), *energy_pairs(result, metrics)]
    pairs += learning_pairs(result, metrics)
    if result.status == "FINISHED":
        pairs += [("published", text) for text in _describe_published(result, summary)]
    if cost := compute_cost(result):
        pairs.append(("cost", describe_cost(cost)))
    return format_pairs(pairs, width)


def first_cautions(cautions: Sequence[str], width: int, *, max_lines: int) -> list[str]:
    """Returns the first sentence of each caution, as many as there is room for, and how many there are besides."""
    if not cautions:
        return []
    lines = ["Cautions"]
    left = len(cautions)
    for text in cautions[:_MAX_CAUTIONS]:
        shown = wrap(_first_sentence(text), width, first="- ")
        if len(lines) + len(shown) + (left > 1) > max_lines:
            break
        lines += shown
        left -= 1
    if left:
        lines.append(f"- and {count(left, 'more caution')}" if len(lines) > 1 else f"- {count(left, 'caution')}")
    return lines


def command_lines(
    result: RunResult, tracked: TrackedRun | None, store_hint: str, server: str | None = None
) -> list[str]:
    """Returns how to see the rest of a run, and how to go on with it; each in one piece, to be copied.

    Args:
        result: The whole run.
        tracked: Where it stands in MLflow; None: it could not be brought there.
        store_hint: Where the journal lies.
        server: As of `bring_it_there`.
    """
    store = store_of(store_hint)
    lines = [f"  all of it     {command_line('runs', result.request.run_id[:_ID_CHARACTERS], store=store)}"]
    if tracked is None:
        lines.append(f"  to MLflow     {bring_it_there(store, server)}")
    else:
        lines.append(f"  in MLflow     {look_at_it(tracked, store)}")
    line = resume_line(result, store)
    return [*lines, line] if line else lines


def _first_sentence(text: str) -> str:
    first, stop, _ = text.partition(". ")
    return first + stop.rstrip()


def _describe_published(result: RunResult, summary: Summary) -> list[str]:
    """Returns a text a published result that can be held against a run, or one that says why none can."""
    matches = match_run(result, summary)
    texts = [describe_ratio(match.reference, pair) for match in matches for pair in match.pairs]
    if texts:
        more = [count(len(texts) - _MAX_PUBLISHED, "more ratio")] if len(texts) > _MAX_PUBLISHED else []
        if others := sum(not match.pairs for match in matches):
            more.append(f"{count(others, 'result')} not comparable")
        return [*texts[:_MAX_PUBLISHED], "; ".join(["hardware and software differ", *more])]
    if not matches:
        return []
    reasons = [reason for reason, _ in itertools.groupby(map(describe_match, matches))]
    return (
        [f"{count(len(matches), 'result')}, {reasons[0]}"]
        if len(reasons) == 1
        else [f"{count(len(matches), 'result')}, none of them comparable"]
    )
