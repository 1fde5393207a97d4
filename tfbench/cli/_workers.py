"""Several workers: where the command line says they are, and one worker's part of a run tracked elsewhere."""

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from tfbench.cli._measuring import Measuring, add_options
from tfbench.cli._options import is_given
from tfbench.cli._output import echo_json, echo_lines, exit_code

if TYPE_CHECKING:
    from tfbench.records.run import RunRequest
    from tfbench.runs.launchers.clusters import Place

F = TypeVar("F", bound=Callable[..., Any])

_OPTIONS = (
    click.option(
        "--workers", metavar="N", type=click.IntRange(1, 4096), help="Of multi_worker: start N of them on this machine."
    ),
    click.option(
        "--coordinator",
        metavar="HOST:PORT",
        envvar="TFBENCH_COORDINATOR",
        show_envvar=True,
        help="Of multi_worker on several machines: where worker 0 is, which tracks the run.",
    ),
    click.option(
        "--num-workers",
        metavar="N",
        type=click.IntRange(1, 4096),
        envvar="TFBENCH_NUM_WORKERS",
        show_envvar=True,
        help="Of multi_worker on several machines: how many there are. Slurm, MPI and TF_CONFIG say it themselves.",
    ),
    click.option(
        "--worker-index",
        metavar="I",
        type=click.IntRange(0, 4095),
        envvar="TFBENCH_WORKER_INDEX",
        show_envvar=True,
        help="Of multi_worker on several machines: which one this is, from 0.",
    ),
)


class Workers(NamedTuple):
    """What the options of `worker_options` were given."""

    workers: int | None
    coordinator: str | None
    num_workers: int | None
    worker_index: int | None


def worker_options(command: F) -> F:
    """Adds where several workers are; the command gets it together as `workers`."""
    return add_options(command, _OPTIONS, "workers", Workers)


def find_place(request: "RunRequest", workers: Workers) -> "tuple[RunRequest, Place | None]":
    """Returns a request whose recipe says how many workers there are, and which of them are started here.

    Raises:
        RecipeError: It is not said, one thing contradicts another, or there is one worker alone.
        DeviceError: The batch does not divide among the workers.
    """
    import dataclasses

    from tfbench.errors import RecipeError
    from tfbench.recipe.devices import require_usable
    from tfbench.runs.launchers import clusters

    recipe = request.recipe
    if recipe.distribution.strategy != "multi_worker":
        if given_names := _given_on_command_line(workers):
            raise RecipeError(
                f"{', '.join(given_names)}: of strategy multi_worker. Received: strategy "
                f"{recipe.distribution.strategy}. Add --strategy multi_worker."
            )
        return request, None
    given = clusters.GivenPlace(**workers._asdict())
    place = clusters.find_place(given, recipe.distribution.num_workers, os.environ)
    distribution = dataclasses.replace(recipe.distribution, num_workers=place.num_workers)
    require_usable(distribution, recipe.training)
    return dataclasses.replace(request, recipe=dataclasses.replace(recipe, distribution=distribution)), place


def _given_on_command_line(workers: Workers) -> list[str]:
    """Returns the options that were given, not those that variables stand for, which are for all commands."""
    context = click.get_current_context()
    return [
        f"--{name.replace('_', '-')}"
        for name, value in workers._asdict().items()
        if value is not None and is_given(context, name)
    ]


def echo_followed(request: "RunRequest", place: "Place", measuring: Measuring) -> int:
    """Does one worker's part of a run that another machine tracks, says what came of it, and returns the exit code."""
    from tfbench.runs.following import follow

    followed = follow(request, place, measuring.store, lambda text: echo_lines([text], err=True))
    end = followed.end
    if measuring.as_json:
        document = {
            "id": followed.run_id,
            "worker_index": followed.index,
            "num_workers": followed.num_workers,
            "status": end.status,
            "reason": end.reason,
            "journal": str(followed.journal),
        }
        echo_json(document, f"The journal of this worker is {followed.journal}.")
    else:
        reason = f": {end.reason}" if end.reason else ""
        echo_lines([f"{followed.name}, run {followed.run_id}: {end.status}{reason}. Its journal: {followed.journal}"])
    has_failed = end.status != "FINISHED"
    return exit_code(has_failed=has_failed, was_interrupted=has_failed and followed.was_interrupted)
