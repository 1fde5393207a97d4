"""Several workers: which of them the command line says are here, and one worker's part of another command's run."""

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from tfbench.cli._measuring import Measuring, add_options
from tfbench.cli._options import is_given
from tfbench.cli._output import echo_json, echo_lines, exit_code

if TYPE_CHECKING:
    from tfbench.records.run import RunRequest

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
        help="Of multi_worker on several machines: where worker 0 is; on TensorFlow each one, separated by commas.",
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


def with_workers(request: "RunRequest", workers: Workers) -> "RunRequest":
    """Returns a request that says how many workers there are, and which of them is started here unless all are.

    Raises:
        RecipeError: It is not said, one thing contradicts another, or there is one worker alone.
        DeviceError: The batch does not divide among the workers.
    """
    import dataclasses

    from tfbench.errors import RecipeError
    from tfbench.recipe.devices import require_usable
    from tfbench.runs.launchers.ranks import GivenRank, find_rank

    recipe = request.recipe
    if recipe.distribution.strategy != "multi_worker":
        if given_names := _given_on_command_line(workers):
            raise RecipeError(
                f"{', '.join(given_names)}: of strategy multi_worker. Received: strategy "
                f"{recipe.distribution.strategy}. Add --strategy multi_worker."
            )
        return request
    given = GivenRank(**workers._asdict())
    number, member = find_rank(given, recipe.distribution.num_workers, recipe.training.backend, os.environ)
    distribution = dataclasses.replace(recipe.distribution, num_workers=number)
    require_usable(distribution, recipe.training)
    recipe = dataclasses.replace(recipe, distribution=distribution)
    return dataclasses.replace(request, recipe=recipe, member=member)


def _given_on_command_line(workers: Workers) -> list[str]:
    """Returns the options that were given, not those that variables stand for, which are for all commands."""
    context = click.get_current_context()
    return [
        f"--{name.replace('_', '-')}"
        for name, value in workers._asdict().items()
        if value is not None and is_given(context, name)
    ]


def echo_other_worker(request: "RunRequest", measuring: Measuring) -> int:
    """Does the part of a worker whose run another command tracks, says what came of it, and returns the exit code."""
    from tfbench.records.members import member_path
    from tfbench.records.observer import Observer
    from tfbench.runs.maker import RunMaker, choose_place

    store, index = measuring.store, request.member.index if request.member else 0
    maker = RunMaker(store, choose_place(store, tracking_uri=None, experiment=None), None)
    outcome = maker.make(request, Observer())
    status, end, num_workers = outcome.result.status, outcome.result.exit, request.recipe.distribution.num_workers
    reason, journal = end.reason if end else "", member_path(store.journal_path(request.run_id), index)
    if measuring.as_json:
        document = {
            "worker_index": index,
            "num_workers": num_workers,
            "status": status,
            "reason": reason,
            "journal": str(journal),
        }
        echo_json(document, f"The journal of this worker is {journal}.")
    else:
        echo_lines([f"worker {index} of {num_workers}: {status}{reason and f': {reason}'}. Its journal: {journal}"])
    has_failed = status != "FINISHED"
    return exit_code(has_failed=has_failed, was_interrupted=has_failed and outcome.was_interrupted)
