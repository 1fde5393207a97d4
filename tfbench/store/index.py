"""The briefs of a store's runs: a small file beside each journal, so that reading is quick."""

import contextlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from tfbench.errors import TrackingError
from tfbench.runs.record import RunResult, Summary
from tfbench.runs.summary import summarize_run
from tfbench.schema import read_as, to_plain
from tfbench.store.brief import FORMAT_VERSION, RunBrief, make_brief
from tfbench.store.journal import damaged, describe, read_result
from tfbench.store.store import Store
from tfbench.store.whole_files import read_regular_file, write_whole


class Briefs(NamedTuple):
    """Briefs of runs that are over, and by id why others could not be read."""

    found: list[RunBrief]
    unreadable: dict[str, str]


def write_brief(result: RunResult, summary: Summary, journal_path: Path) -> RunBrief:
    """Writes a run's brief beside its journal, whole or not at all.

    Raises:
        OSError: The folder cannot be written to.
    """
    brief = make_brief(result, summary, journal_bytes=journal_path.stat().st_size)
    keep_brief(brief, journal_path)
    return brief


def keep_brief(brief: RunBrief, journal_path: Path) -> None:
    """Writes a brief beside the journal that it was made from, as of `write_brief`."""
    write_whole(brief_path(journal_path), json.dumps(to_plain(brief), separators=(",", ":")))


def brief_path(journal_path: Path) -> Path:
    """Returns where the brief of a run is, or would be."""
    return journal_path.with_suffix(".brief.json")


def read_briefs(store: Store, run_ids: Iterable[str]) -> Briefs:
    """Returns the briefs of runs that are over, in their order.

    It makes those that are missing from the journals. A run that is damaged stops none of the
    others.
    """
    briefs = Briefs([], {})
    for run_id in run_ids:
        try:
            brief = _read_brief(store.journal_path(run_id))
        except TrackingError as error:
            briefs.unreadable[run_id] = str(error)
        else:
            if brief:
                briefs.found.append(brief)
    return briefs


def find_brief(journal_path: Path) -> RunBrief | None:
    """Returns the brief beside a journal; None: there is none, or the journal has changed."""
    with contextlib.suppress(OSError, ValueError):
        brief = read_as(RunBrief, read_regular_file(brief_path(journal_path)))
        is_current = brief.format_version == FORMAT_VERSION and brief.run_id == journal_path.stem
        if is_current and brief.journal_bytes == journal_path.stat().st_size:
            return brief
    return None


def _read_brief(journal_path: Path) -> RunBrief | None:
    if brief := find_brief(journal_path):
        return brief
    result = read_result(journal_path)
    if result.exit is None:
        return None  # it still runs, or `tfbench recover` will say how it ended
    summary = summarize_stored(result, journal_path)
    with contextlib.suppress(OSError):  # a store that can only be read is slower to read
        return write_brief(result, summary, journal_path)
    return make_brief(result, summary)


def summarize_stored(result: RunResult, journal_path: Path) -> Summary:
    """Makes the figures of a run of a store.

    Raises:
        TrackingError: They cannot be made, of a journal that was not written by tfbench alone.
    """
    try:
        summary = summarize_run(result)
        make_brief(result, summary)
    except Exception as error:
        raise damaged(journal_path, f"its figures cannot be made: {describe(error)}") from error
    return summary
