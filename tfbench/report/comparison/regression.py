"""Whether a recipe has become slower, as sections and as JSON."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tfbench.analysis.comparison.equality import Difference, in_words
from tfbench.analysis.comparison.intervals import log_interval
from tfbench.analysis.comparison.judging import describe_ratio
from tfbench.analysis.comparison.regression import RegressionCheck, SpeedSample
from tfbench.records.sweep import format_value
from tfbench.report.comparison.speeds import with_interval
from tfbench.report.document import to_document
from tfbench.report.formats import format_date, format_speed
from tfbench.report.table import Section, facts, warnings_section
from tfbench.wording import count, format_share


def check_sections(
    check: RegressionCheck, source: str, num_failed: int, warnings: Sequence[str] = ()
) -> list[Section]:
    """Returns the judgement, the speeds then and now, other changes and warnings.

    Args:
        check: The comparison with the baseline.
        source: The baseline, as the user named it.
        num_failed: Runs that failed now, and are left out.
        warnings: What disturbed the runs.
    """
    detectable = format_share(check.smallest_detectable)
    unequal = _describe(check.unequal)
    pairs = {
        "Check": (
            f"{check.current.recipe} against {source} of {format_date(check.baseline.created)}"
        ),
        "Baseline": _describe_speeds(check.baseline),
        "Now": f"{_describe_speeds(check.current)}, group {check.current.group}",
        "Detects": f"slow-downs of {detectable} or more (limit {100 * check.fail_above:g} %)",
        "Unequal": f"{unequal} (allowed by --allow-unequal)" if unequal else "",
        "Changed": _describe(check.changed),
        "Failed": f"{count(num_failed, 'run')}, left out" if num_failed else "",
    }
    return _facts_and_warnings(judgement_sentence(check, num_failed), pairs, warnings)


def _facts_and_warnings(
    title: str, pairs: Mapping[str, str], warnings: Sequence[str]
) -> list[Section]:
    sections = [Section(title, tables=(facts(pairs.items()),))]
    if warnings:
        sections.append(warnings_section(warnings))
    return sections


def judgement_sentence(check: RegressionCheck, num_failed: int = 0) -> str:
    """Returns, for example, "FAILED: regression, 0.91x [0.90, 0.92] of the baseline's speed".

    Where even a large slow-down would have passed, it says so instead of "no measurable
    difference". A check of which a run failed has not passed.
    """
    change = f"{describe_ratio(check.speedup)} of the baseline's speed"
    if check.judgement == "regression":
        return f"FAILED: regression, {change}"
    passed = f"FAILED: {count(num_failed, 'run')} failed. The others" if num_failed else "PASSED"
    if check.is_blind and check.judgement in ("no measurable difference", "slower"):
        link = "" if num_failed else ", but"
        return (
            f"{passed}{link} inconclusive: {change}. Try --repeats {2 * check.current.num}, also"
            " for the baseline."
        )
    limit = ""
    if check.judgement == "slower":
        limit = f", but not measurably by more than {100 * check.fail_above:g} %"
    return f"{passed}: {check.judgement}{limit}, {change}"


def baseline_sections(sample: SpeedSample, path: Path, warnings: Sequence[str]) -> list[Section]:
    """Returns what was kept as a baseline, where, how to use it, and what speaks against it."""
    title = f"Baseline of {sample.recipe}: {_describe_speeds(sample)}"
    pairs = {
        "Stored as": str(path),
        "Sessions": (
            "1. Where days differ by 3 %, unchanged code fails in about 5 % of checks. Save"
            " baselines on 3 days: a slow-down against each is false in less than 1 %."
        ),
        "Next": f"the same command with --baseline {path} instead of --save",
    }
    return _facts_and_warnings(title, pairs, warnings)


def check_document(check: RegressionCheck, source: str, num_failed: int) -> dict[str, Any]:
    """Returns a check as plain values; speeds in samples per second.

    Args:
        check: The comparison with the baseline.
        source: The baseline, as the user named it.
        num_failed: Runs that failed now.
    """
    plain = to_document(check)
    plain["baseline"]["source"] = source
    return {**plain, "sentence": judgement_sentence(check, num_failed), "num_failed": num_failed}


def _describe_speeds(sample: SpeedSample) -> str:
    processes = "1 process" if sample.num == 1 else f"{sample.num} processes"
    speed = f"{format_speed(sample.speed)} samples/s"
    text = with_interval(speed, log_interval(sample.samples_per_second))
    return f"{text}, {processes}"


def _describe(differences: Sequence[Difference]) -> str:
    return "; ".join(
        f"{in_words(pair.name)} {format_value(pair.a)} -> {format_value(pair.b)}"
        for pair in differences
    )
