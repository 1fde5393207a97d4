"""What is shown of a profile, of a step or of a trace; nothing here prints."""

import dataclasses
from typing import Any

from tfbench.analysis.profile.summary import summarize_profile
from tfbench.records.run import RunResult, Summary
from tfbench.report.document import to_plain
from tfbench.report.profile.operations import operation_section
from tfbench.report.profile.sections import profile_sections
from tfbench.report.profile.sentences import describe_bottleneck, profile_warnings
from tfbench.report.table import Section


def show_profile(result: RunResult, *, is_whole: bool = False) -> list[Section]:
    """Returns what a profile found, the bottleneck first; nothing for a run that trained.

    Args:
        result: The run.
        is_whole: As of `profile_sections`.
    """
    if result.profile is None or result.request.profile is None:
        return []
    if step := summarize_profile(result):
        return [Section(describe_bottleneck(step)), *profile_sections(result, step, is_whole=is_whole)]
    if result.request.profile.kind == "step":
        return [Section("Nothing of it was timed: the run ended before its first round was done.")]
    if result.profile.traced_step_seconds is None:
        return [Section("No trace was taken: the run ended before its last step.")]
    return [operation_section(result.profile)]


def add_warnings(result: RunResult, summary: Summary) -> Summary:
    """Returns the summary of a profile with its own warnings, behind those of the machine."""
    step = summarize_profile(result)
    return dataclasses.replace(summary, warnings=(*summary.warnings, *(profile_warnings(step) if step else ())))


def profile_document(result: RunResult) -> dict[str, Any]:
    """Returns the statistics of a profile, and every reading that they were made of; nothing of a run that trained."""
    if result.request.profile is None:
        return {}
    step = summarize_profile(result)
    return {
        "request": to_plain(result.request.profile),
        "step": to_plain(step) | {"sentence": describe_bottleneck(step)} if step else None,
        "readings": to_plain(result.profile),
    }
