"""Files that a run leaves: those kept beside it where it is tracked, and its user's."""

import json
import shutil
from pathlib import Path

from tfbench.profiles.readings import TRACE_FOLDER
from tfbench.runs.epoch_plots import run_plots
from tfbench.runs.record import RunResult, Summary, TrackedRun
from tfbench.runs.run_document import run_document
from tfbench.show.figures import write_plots
from tfbench.store.journal import files_folder
from tfbench.store.run_folder import list_worker_journals
from tfbench.tags import SWEEP_TAG


def write_files(
    result: RunResult,
    summary: Summary,
    journal_path: Path,
    folder: Path,
    tracked: TrackedRun | None = None,
) -> None:
    """Writes what is kept beside a tracked run: journal, result, profile, plots, trace, model.

    A limited run of a sweep gets no plots: they take longer than all the rest between two runs, and
    the sweep's report shows its speeds and where the time went.

    Args:
        result: A run in whatever state.
        summary: Its figures.
        journal_path: Its journal, which is copied.
        folder: Where to; it exists.
        tracked: Where the run stands in MLflow, which the result repeats.

    Raises:
        OSError: The folder cannot be written to.
    """
    kept = files_folder(journal_path)
    shutil.copyfile(journal_path, folder / "journal.jsonl")
    document = run_document(result, summary, tracked)
    (folder / "result.json").write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    is_in_sweep = SWEEP_TAG in result.request.tags
    if not is_in_sweep or not result.request.recipe.measurement.is_limited:
        write_plots(run_plots(result, summary), folder)
    paths = list_files(journal_path)
    paths += list_worker_journals(journal_path).values()
    paths += sorted(path for path in (kept / TRACE_FOLDER).rglob("*") if path.is_file())
    for path in paths:
        target = folder / path.relative_to(kept)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.symlink_to(path.absolute())  # a copy might not fit


def list_files(journal_path: Path) -> list[Path]:
    """Returns what a run left for its user: the trained model, and the picture of it."""
    return sorted(files_folder(journal_path).glob("model.?*"))
