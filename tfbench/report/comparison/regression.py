"""Whether a recipe has become slower, as lines of plain text and as JSON."""

import datetime
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tfbench.analysis.comparison.equality import Difference
from tfbench.analysis.comparison.intervals import log_interval
from tfbench.analysis.comparison.regression import RegressionCheck, SpeedSample
from tfbench.report.comparison.speeds import change_text, interval_text, speedup_json, with_interval
from tfbench.report.formats import format_speed, wrap
from tfbench.report.table import text, warnings
from tfbench.schema import to_plain
from tfbench.wording import format_share

FORMAT_VERSION = 1


def check_lines(
    check: RegressionCheck, source: str, num_failed: int, width: int, cautions: Sequence[str] = ()
) -> list[str]:
    """Returns the speeds then and now, what else has changed, the judgement in a sentence, and what speaks against it.

    That runs are of other lengths stands beside the judgement, which it may be the reason of.

    Args:
        check: What was found.
        source: The baseline, as the user named it.
        num_failed: Runs that failed now, and are left out.
        width: Characters of a line.
        cautions: What disturbed the runs.
    """
    created = datetime.datetime.fromtimestamp(check.baseline.created, datetime.UTC)
    lines = [
        *wrap(f"Check of {check.current.recipe} against {source}, of {created:%Y-%m-%d %H:%M} UTC", width),
        *wrap(_describe_sessions(check), width, first="  baseline  "),
        *wrap(f"{_describe_speeds(check.current)}, group {check.current.group}", width, first="  now       "),
    ]
    remarks = []
    if check.unequal:
        remarks.append(f"Not comparable: {_describe(check.unequal)}.")
    if changed := [one for one in check.changed if one not in check.changed_lengths]:
        remarks.append(f"Changed since: {_describe(changed)}.")
    if num_failed:
        remarks.append(f"Runs that failed: {num_failed}; they are left out.")
    lines += [line for remark in remarks for line in wrap(remark, width, first="  ")]
    fails = (
        f"Fails from {format_share(check.smallest_detectable)} slower on (--fail-above {100 * check.fail_above:g}%)."
    )
    lines += wrap(fails, width, first="  ")
    if check.changed_lengths:
        caution = f"The runs differ in length ({_describe(check.changed_lengths)}), which alone can change their speed."
        lines += wrap(caution, width)
    below = ["", *text([warnings(cautions)], width)] if cautions else []
    return [*lines, *wrap(judgement_sentence(check), width), *below]


def judgement_sentence(check: RegressionCheck) -> str:
    """Returns, for example, "regression: 9.0 % slower than the baseline (95 %: 7.9 to 10.1 %)".

    Where even a large slow-down would have passed, it says so instead of "no measurable difference".
    """
    change = f"{change_text(check.speedup.ratio, 'the baseline')}{interval_text(check.speedup)}"
    if check.is_blind and check.judgement in ("no measurable difference", "slower"):
        return f"cannot tell: {change}; more runs tell more: --repeats {2 * check.current.num}"
    limit = f", not measurably by more than {100 * check.fail_above:g} %" if check.judgement == "slower" else ""
    return f"{check.judgement}{limit}: {change}"


def baseline_lines(sample: SpeedSample, path: Path) -> list[str]:
    """Returns what was kept as a baseline, and where."""
    return [f"Baseline of {sample.recipe}: {_describe_speeds(sample)}", f"  stored as {path}"]


def check_to_json(
    check: RegressionCheck, source: str, num_failed: int, documents: Sequence[dict[str, Any]]
) -> dict[str, Any]:
    """Returns a check as one JSON object; speeds in samples per second.

    Args:
        check: What was found.
        source: The baseline, as the user named it.
        num_failed: Runs that failed now.
        documents: Of each run that is in the store, as `run_json.to_json` makes it.
    """
    return {
        "format_version": FORMAT_VERSION,
        "judgement": check.judgement,
        "sentence": judgement_sentence(check),
        "speedup": speedup_json(check.speedup),
        "fail_above": check.fail_above,
        "smallest_detectable": check.smallest_detectable,
        "blind": check.is_blind,
        "baseline": {"source": source} | to_plain(check.baseline),
        "earlier_sessions": [to_plain(sample) for sample in check.earlier],
        "current": to_plain(check.current),
        "unequal": _differences_to_json(check.unequal),
        "changed": _differences_to_json(check.changed),
        "num_failed": num_failed,
        "runs": list(documents),
    }


def baseline_to_json(sample: SpeedSample, path: Path, documents: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Returns what was kept as a baseline as one JSON object."""
    return {
        "format_version": FORMAT_VERSION,
        "file": str(path),
        "baseline": to_plain(sample),
        "runs": list(documents),
    }


def _describe_sessions(check: RegressionCheck) -> str:
    levels = log_interval([sample.speed for sample in check.sessions])
    if levels is None:
        return _describe_speeds(check.baseline)
    return f"{with_interval(f'{format_speed(levels.center)} samples/s', levels)}, {len(check.sessions)} sessions"


def _describe_speeds(sample: SpeedSample) -> str:
    processes = "1 process" if sample.num == 1 else f"{sample.num} processes"
    text = with_interval(f"{format_speed(sample.speed)} samples/s", log_interval(sample.samples_per_second))
    return f"{text}, {processes}"


def _describe(differences: Sequence[Difference]) -> str:
    return "; ".join(f"{one.name} {_show(one.a)} -> {_show(one.b)}" for one in differences)


def _show(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_show, value))}]"
    return "none" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _differences_to_json(differences: Sequence[Difference]) -> list[dict[str, Any]]:
    return [{"name": one.name, "baseline": one.a, "now": one.b} for one in differences]
