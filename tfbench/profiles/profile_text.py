"""A step's profile in sentences: its bottleneck, what to try, and what to be careful with."""

import shlex
from collections.abc import Iterator
from pathlib import Path

from tfbench.profiles.estimate import summarize_profile
from tfbench.profiles.profile_tables import operation_section, profile_sections, trace_section
from tfbench.profiles.readings import TRACE_FOLDER
from tfbench.profiles.step import HOST_OVERHEAD, KERAS_LOOP, StepProfile
from tfbench.recipe.tables import to_tables
from tfbench.runs.record import RunResult, Summary
from tfbench.runs.run_text import settings_sections, status_line
from tfbench.show.advised import words_of_recipe
from tfbench.show.document import Document, to_document
from tfbench.show.formats import format_time
from tfbench.show.table import Section, short_warnings, warnings_section
from tfbench.store.journal import files_folder
from tfbench.wording import command_line, format_share, store_of

_MAX_DIFFERENCE = 0.1  # of a sum from what it should be, before a warning
# of a step, that the phases may miss it by before the longest of them is no answer
_MAX_UNCLEAR = 0.25
_MAX_UNNAMED = 0.2  # of a phase, that the trace may not name before a warning
_LEAST_NAMED = 0.5  # of a phase, below which it is one, too
_MIN_SHARE = 0.03  # of a step, that a difference must be to matter
_STANDS_OUT = 0.1  # of a step, that a part must be to be called its bottleneck
# times the longest part, from which all layers of a kind are the bottleneck together
_OUTWEIGHS = 2
_LONGER_SECONDS = 60  # of a profile whose figures are uncertain
_PAID_BY_CALLS = ("dispatch", KERAS_LOOP, HOST_OVERHEAD)


def describe_bottleneck(step: StepProfile) -> str:
    """Returns the sentence that names the largest part of a step.

    It names none where the phases are far from adding up to the step, or where that part is within
    the measurement's error.
    """
    is_off = abs(step.difference_seconds) > _MAX_UNCLEAR * step.full_seconds
    if is_off and not _is_of_pipeline(step):
        added = f"{100 * step.sum_seconds / step.full_seconds:,.0f} %"
        return f"Bottleneck: not clear, the phases add up to {added} of a step."
    longest = step.bottleneck
    kind, seconds = _find_longest_kind(step)
    if not longest.is_clear and seconds <= longest.seconds:
        half_width = format_time(longest.half_width or 0.0, 3)
        return (
            f"Bottleneck: not clear. The longest part, {longest.name}, takes"
            f" {format_time(longest.seconds, 3)} ± {half_width} of"
            f" {format_time(step.full_seconds, 3)}."
        )
    name = f"{longest.name} ({longest.kind})" if longest.layer else longest.name
    size = (
        f"{format_time(longest.seconds, 3)} of {format_time(step.full_seconds, 3)}"
        f" ({format_share(longest.share)})"
    )
    times = 1 if longest.share < _STANDS_OUT else _OUTWEIGHS
    if seconds > times * longest.seconds:
        together = f"{format_time(seconds, 3)} ({format_share(seconds / step.full_seconds)})"
        return (
            f"Bottleneck: all {kind} layers, {together} together; the longest part is {name},"
            f" {size}."
        )
    return f"Bottleneck: {name}, {size}."


def next_command(result: RunResult) -> list[str]:
    """Returns a command that tests a remedy for the bottleneck or looks into it."""
    step = summarize_profile(result)
    request = result.request
    if step is None or request.profile is None:
        return []
    recipe = request.recipe
    words = words_of_recipe(
        recipe.name,
        to_tables(recipe),
        argv=request.argv,
        overrides=request.overrides,
        data_dir=request.data_dir,
        allows_code=request.allows_code,
    )
    if not step.bottleneck.is_clear:
        seconds = max(_LONGER_SECONDS, 3 * round(request.profile.seconds))
        return ["profile", *words, "--seconds", str(seconds)]
    cause = step.bottleneck.name.partition(" of ")[0]
    backend = recipe.training.backend
    if cause in _PAID_BY_CALLS and backend == "tensorflow":  # the others have one step per call
        return ["run", *words, "--fast"]
    if backend == "jax":
        return []
    if step.bottleneck.layer:
        compiler = "inductor" if backend == "torch" else "xla"
        return ["sweep", *words, "--setup", "default", "--setup", f"default compiler={compiler}"]
    return ["profile", *words, "--trace"]


def profile_warnings(result: RunResult) -> list[str]:
    """Returns at most two warnings: that phases do not add up to a step, or layers to phases."""
    step = summarize_profile(result)
    if step is None:
        return []
    return [*_check_step(step), *_check_layers(step)]


def _check_step(step: StepProfile) -> Iterator[str]:
    difference = abs(step.relative_difference)
    if difference <= _MAX_DIFFERENCE:
        return
    more = "more" if step.difference_seconds > 0 else "less"
    text = f"the phases add up to {format_share(difference)} {more} than the full step."
    if _is_of_pipeline(step):
        pipeline = format_time(step.pipeline_seconds or 0.0, 3)
        text += f" The input pipeline alone takes {pipeline} per batch."
    if step.difference_seconds > 0 and step.on_device:
        text += " Calls of phases wait for the GPU each, and steps of fit do not."
    yield f"{text} Measure for longer (--seconds {_LONGER_SECONDS}) on a quiet machine."


def _check_layers(step: StepProfile) -> Iterator[str]:
    """Yields a warning if the times of layers are uncertain, with the phases where they are."""
    texts = []
    least = _MIN_SHARE * step.full_seconds
    for check in step.checks:
        phase = check.phase_seconds
        named = check.named_seconds
        unnamed = check.unnamed_seconds
        missing = phase - named
        is_off = abs(check.sum_seconds - phase) > max(_MAX_DIFFERENCE * abs(phase), least)
        is_at_work = (unnamed or 0.0) > max(least, _MAX_UNNAMED * phase)
        is_large = unnamed is None or missing > _STANDS_OUT * step.full_seconds
        is_idle = (check.named_share or 0.0) < _LEAST_NAMED and is_large
        is_missing = phase > 0 and missing > least
        if is_off or (is_missing and (is_at_work or is_idle)):
            texts.append(f"{1e3 * named:.3g} of {1e3 * phase:.3g} ms of {check.phase}")
    if texts:
        yield f"the times of layers are uncertain: the trace explains {', '.join(texts)}."


def _is_of_pipeline(step: StepProfile) -> bool:
    """Says whether the input pipeline may explain what the phases lack of a step."""
    return 0 < -step.difference_seconds <= 2 * (step.pipeline_seconds or 0.0)


def _find_longest_kind(step: StepProfile) -> tuple[str, float]:
    """Returns the kind of which all layers together take longest, and for how long."""
    kinds = {"": 0.0}
    for layer in step.layers:
        kinds[layer.kind] = kinds.get(layer.kind, 0.0) + layer.seconds
    longest = max(kinds, key=kinds.__getitem__)
    return longest, kinds[longest]


def profile_screen(
    result: RunResult, summary: Summary, store_hint: str, following: Section, *, is_whole: bool
) -> list[Section]:
    """Returns what a profile shows when it is over.

    Args:
        result: Of the profile.
        summary: With the warnings of the machine, and notes.
        store_hint: Where its journal lies.
        following: How to go on.
        is_whole: As of `profile_sections`.
    """
    sections = show_profile(result, is_whole=is_whole)
    if result.status != "FINISHED":
        sections.insert(0, Section(status_line(result)))
    warnings = [*summary.warnings, *profile_warnings(result)]
    if is_whole:
        sections += settings_sections(result)
        if warnings:
            sections.append(warnings_section(warnings))
    else:
        sections += short_warnings(warnings, summary.notes)
        if words := next_command(result):
            command = command_line(*words, store=store_of(store_hint))
            following = Section("", code=f"{following.code}\n  {'Try':10}  {command}")
    sections.append(following)
    trace = files_folder(Path(store_hint)) / TRACE_FOLDER
    if trace.is_dir():
        backend = result.request.recipe.training.backend
        sections.append(trace_section(shlex.quote(str(trace)), backend))
    return sections


def show_profile(result: RunResult, *, is_whole: bool = False) -> list[Section]:
    """Returns what a profile found, the bottleneck first; nothing for a run that trained."""
    if result.profile is None or result.request.profile is None:
        return []
    if step := summarize_profile(result):
        sections = profile_sections(result, step, is_whole=is_whole)
        return [Section(describe_bottleneck(step)), *sections]
    if result.request.profile.kind == "step":
        return [Section("Nothing of it was timed: the run ended before its first round was done.")]
    if result.profile.traced_step_seconds is None:
        return [Section("No trace was taken: the run ended before its last step.")]
    return [operation_section(result.profile)]


def profile_document(result: RunResult) -> Document:
    """Returns the statistics of a profile, and every reading that they were made of.

    Nothing of a run that trained.
    """
    if result.request.profile is None:
        return {}
    step = None
    if statistics := summarize_profile(result):
        step = to_document(statistics) | {"sentence": describe_bottleneck(statistics)}
    return {
        "request": to_document(result.request.profile),
        "step": step,
        "readings": to_document(result.profile),
    }
