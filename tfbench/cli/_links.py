"""What `tfbench calibrate --links` measures and shows."""

from typing import TYPE_CHECKING

import click

from tfbench.cli._output import echo_json, echo_lines, text_width, waiting

if TYPE_CHECKING:
    from tfbench.store.store import Store

DEFAULT_PROCESSES = 5
_MIN_PROCESSES = 3


def calibrate_links(store: "Store", devices: str | None, num_processes: int | None, *, as_json: bool) -> None:
    """Measures a link and stores it.

    Raises:
        DeviceError: A device is absent, or JAX.
        MeasurementError: A process did not measure.
    """
    from tfbench.report.parallel.links import link_lines, link_to_json
    from tfbench.runs.links import choose_link_devices, measure_link
    from tfbench.store.links import save_link

    num = DEFAULT_PROCESSES if num_processes is None else num_processes
    if not _MIN_PROCESSES <= num <= 1000:
        raise click.UsageError(f"--rounds: must be from {_MIN_PROCESSES} to 1000. Received: {num}.")
    with waiting(f"adding up in {num} processes"):
        names = [part.strip() for part in devices.split(",")] if devices else choose_link_devices()
        measured = measure_link(names, num)
    if not as_json:
        echo_lines(link_lines(measured, text_width()))
    path = save_link(store, measured)
    if as_json:
        echo_json(link_to_json(measured), f"The link is stored as {path}")
    else:
        echo_lines([f"  stored as {path}"])
