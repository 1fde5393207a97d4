"""A spinner for what takes long and has nothing else to show."""

from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from tfbench.report.run.console import open_console, shown


def make_spinner(text: str) -> Progress:
    """Returns what shows, once it is entered, a text on stderr and the time that passes; it leaves nothing behind."""
    progress = Progress(
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        TimeElapsedColumn(),
        console=open_console(stderr=True),
        refresh_per_second=4,
        transient=True,
        redirect_stdout=False,  # what is printed meanwhile is cleaned by the streams, not by rich
        redirect_stderr=False,
    )
    progress.add_task(shown(text).plain, total=None)
    return progress
