"""Whether a recipe has become slower, as sections and as JSON."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tfbench.comparisons.baseline import RegressionCheck, SpeedSample
from tfbench.comparisons.difference import describe_change
from tfbench.comparisons.equality import Difference, in_words
from tfbench.comparisons.intervals import log_interval
from tfbench.comparisons.judging import describe_ratio
from tfbench.comparisons.speeds import with_interval
from tfbench.show.document import to_document
from tfbench.show.formats import format_date, format_speed
from tfbench.show.table import Section, facts, warnings_section
from tfbench.wording import count, format_share

_LEAST_PRECISION = 0.1  # of a baseline, beyond which a check is of little use


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
    limits = f"limit {100 * check.fail_above:g} %"
    if check.require_detect is not None:
        limits += f", required {100 * check.require_detect:g} %"
    unequal = _describe(check.unequal)
    if unequal:
        unequal += " (allowed by --allow-unequal)"
    pairs = {
        "Check": (
            f"{check.current.recipe} against {source} of {format_date(check.baseline.created)}"
        ),
        "Baseline": _describe_speeds(check.baseline),
        "Now": f"{_describe_speeds(check.current)}, group {check.current.group}",
        "Detects": f"slow-downs of {detectable} or more ({limits})",
        "Unequal": unequal,
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

    Where even a large slow-down would have passed, it says "could not tell". That is a failure if
    the user named a slow-down that has to be seen. A check of which a run failed has not passed.
    """
    finding: str = check.judgement
    if finding == "slower":
        how = "could not tell whether" if check.is_undecided else "not measurably"
        finding = f"slower, but {how} by more than {100 * check.fail_above:g} %"
    elif check.is_undecided:
        finding = "could not tell"
    finding += f", {describe_ratio(check.speedup)} of the baseline's speed"
    if check.is_undecided:
        finding += f". Try --repeats {2 * check.current.num}, also for the baseline."
    if check.judgement == "regression":
        return f"FAILED: {finding}"
    if num_failed:
        return f"FAILED: {count(num_failed, 'run')} failed. The others: {finding}"
    if not check.is_undecided:
        return f"PASSED: {finding}"
    if check.require_detect is None:
        return f"UNDECIDED: {finding}"
    return f"FAILED: {finding}"


def baseline_sections(sample: SpeedSample, path: Path, warnings: Sequence[str]) -> list[Section]:
    """Returns what was kept as a baseline, where, and what speaks against it."""
    title = f"Baseline of {sample.recipe}: {_describe_speeds(sample)}"
    pairs = {
        "Stored as": str(path),
        "Sessions": (
            "1. Where days differ by 3 %, unchanged code fails in about 5 % of checks. Save"
            " baselines on 3 days: a slow-down against each is false in less than 1 %."
        ),
    }
    interval = log_interval(sample.samples_per_second)
    if interval and interval.relative_half_width > _LEAST_PRECISION:
        precision = format_share(interval.relative_half_width)
        noisy = (
            f"Too noisy: the baseline is known to ± {precision}, and a check cannot detect less."
            " Save it again while nothing else runs, or with more --repeats."
        )
        warnings = [noisy, *warnings]
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
    speed = f"{format_speed(sample.speed)} samples/s"
    text = with_interval(speed, log_interval(sample.samples_per_second))
    ending = "" if sample.num == 1 else "es"
    return f"{text}, {sample.num} process{ending}"


def _describe(differences: Sequence[Difference]) -> str:
    texts: dict[str, None] = {}  # a file may be of network and data
    for pair in differences:
        texts[f"{in_words(pair.name)} {describe_change(pair)}"] = None
    return "; ".join(texts)
