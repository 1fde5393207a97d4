"""Several workers: which of them the command line says are here, and one worker's part of another command's run."""

import os
from typing import TYPE_CHECKING, Any

import click

from tfbench.cli._measuring import Measuring
from tfbench.cli._options import require_absent, stack
from tfbench.cli._output import echo_json, echo_lines, exit_code

if TYPE_CHECKING:
    from tfbench.errors import ExitCode
    from tfbench.records.run import RunRequest

_COUNT = click.IntRange(1, 4096)

worker_options = stack(
    click.option("--workers", metavar="N", type=_COUNT, help="Start N workers on this machine."),
    click.option(
        "--coordinator",
        metavar="HOST:PORT",
        envvar="TFBENCH_COORDINATOR",
        show_envvar=True,
        help="On several machines: where worker 0 is; on TensorFlow each one, separated by commas.",
    ),
    click.option(
        "--num-workers",
        metavar="N",
        type=_COUNT,
        envvar="TFBENCH_NUM_WORKERS",
        show_envvar=True,
        help="On several machines: how many there are. Slurm, MPI and TF_CONFIG say it themselves.",
    ),
    click.option(
        "--worker-index",
        metavar="I",
        type=click.IntRange(0, 4095),
        envvar="TFBENCH_WORKER_INDEX",
        show_envvar=True,
        help="On several machines: which one this is, from 0.",
    ),
)


def with_workers(request: "RunRequest", **given: Any) -> "RunRequest":
    """Returns a request that says how many workers there are, and which of them is started here unless all are.

    Args:
        request: What is to be run.
        given: What the options of `worker_options` were given.

    Raises:
        RecipeError: It is not said, one thing contradicts another, or there is one worker alone.
        DeviceError: The batch does not divide among the workers.
    """
    import dataclasses

    from tfbench.recipe.devices import require_usable
    from tfbench.runs.launchers.ranks import GivenRank, find_rank

    recipe = request.recipe
    if recipe.distribution.strategy != "multi_worker":  # variables may stand, which are for all commands
        require_absent(f"{recipe.distribution.strategy} has no workers, --strategy multi_worker has", *given)
        return request
    rank = GivenRank(**given)
    number, member = find_rank(rank, recipe.distribution.num_workers, recipe.training.backend, os.environ)
    distribution = dataclasses.replace(recipe.distribution, num_workers=number)
    require_usable(distribution, recipe.training)
    recipe = dataclasses.replace(recipe, distribution=distribution)
    return dataclasses.replace(request, recipe=recipe, member=member)


def make_other_worker(request: "RunRequest", measuring: Measuring) -> "ExitCode":
    """Does the part of a worker whose run another command tracks, says what came of it, and returns the exit code."""
    from tfbench.records.members import member_path
    from tfbench.records.observer import Observer
    from tfbench.runs.maker import RunMaker, choose_place

    store, index = measuring.store, request.member.index if request.member else 0
    maker = RunMaker(store, choose_place(store, tracking_uri=None, experiment=None), None)
    outcome = maker.make(request, Observer(), measuring.limits)
    status, end, num_workers = outcome.result.status, outcome.result.exit, request.recipe.distribution.num_workers
    reason, journal = end.reason if end else "", member_path(store.journal_path(request.run_id), index)
    if measuring.as_json:
        document = {"worker_index": index, "num_workers": num_workers, "status": status, "reason": reason}
        echo_json(document | {"journal": str(journal)}, f"The journal of this worker is {journal}.")
    else:
        echo_lines([f"worker {index} of {num_workers}: {status}{reason and f': {reason}'}. Its journal: {journal}"])
    has_failed = status != "FINISHED"
    return exit_code(has_failed=has_failed, was_interrupted=has_failed and outcome.was_interrupted)
