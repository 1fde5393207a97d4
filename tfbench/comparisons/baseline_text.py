"""Whether a recipe has become slower, as sections and as JSON."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tfbench.comparisons.baseline import SpeedSample
from tfbench.comparisons.difference import describe_change
from tfbench.comparisons.equality import Difference, in_words
from tfbench.comparisons.intervals import log_interval
from tfbench.comparisons.judging import describe_ratio
from tfbench.comparisons.regression import RegressionCheck, find_deciding
from tfbench.comparisons.speeds import with_interval
from tfbench.show.document import to_document
from tfbench.show.formats import format_date, format_speed
from tfbench.show.table import Section, facts, warnings_section
from tfbench.wording import count, format_share

_LEAST_PRECISION = 0.1  # of a baseline, beyond which a check is of little use


def check_sections(
    checks: Mapping[str, RegressionCheck], num_failed: int, warnings: Sequence[str] = ()
) -> list[Section]:
    """Returns the judgement, the speeds then and now, other changes and warnings.

    Args:
        checks: The comparison with each baseline, by its name as the user typed it.
        num_failed: Runs that failed now, and are left out.
        warnings: What disturbed the runs.
    """
    source = find_deciding(checks)
    check = checks[source]
    others = []
    for name, other in checks.items():
        if name != source:
            others.append(f"{describe_ratio(other.speedup)} against {name}")
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
        "Others": "; ".join(others),
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
    if num_failed and check.judgement != "regression":
        finding = f"{count(num_failed, 'run')} failed. The others: {finding}"
    return f"{_find_outcome(check, num_failed)}: {finding}"


def _find_outcome(check: RegressionCheck, num_failed: int) -> str:
    if check.judgement == "regression" or num_failed:
        return "FAILED"
    if not check.is_undecided:
        return "PASSED"
    return "UNDECIDED" if check.require_detect is None else "FAILED"


def baseline_sections(sample: SpeedSample, path: Path, warnings: Sequence[str]) -> list[Section]:
    """Returns what was kept as a baseline, where, and what speaks against it."""
    title = f"Baseline of {sample.recipe}: {_describe_speeds(sample)}"
    pairs = {
        "Stored as": str(path),
        "Sessions": (
            "1. Where days differ by 3 %, unchanged code fails in about 3 % of checks. With"
            " baselines of 3 days (--baseline for each), less than 1 %."
        ),
    }
    interval = log_interval(sample.samples_per_second)
    if interval and interval.relative_half_width > _LEAST_PRECISION:
        precision = format_share(interval.relative_half_width)
        first = " First follow the warnings below." if warnings else ""
        noisy = (
            f"Too noisy: the baseline is known to ± {precision}, and a check cannot detect less."
            f"{first} Save it again while nothing else runs, or with more --repeats."
        )
        warnings = [noisy, *warnings]
    return _facts_and_warnings(title, pairs, warnings)


def check_document(checks: Mapping[str, RegressionCheck], num_failed: int) -> dict[str, Any]:
    """Returns a check as plain values; speeds in samples per second.

    Args:
        checks: The comparison with each baseline, by its name as the user typed it.
        num_failed: Runs that failed now.
    """
    documents = {}
    for source, check in checks.items():
        plain = to_document(check)
        plain["baseline"]["source"] = source
        plain["sentence"] = judgement_sentence(check, num_failed)
        plain["outcome"] = _find_outcome(check, num_failed)
        documents[source] = plain
    deciding = documents.pop(find_deciding(checks))
    return {**deciding, "num_failed": num_failed, "others": list(documents.values())}


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
