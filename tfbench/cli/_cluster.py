"""Sweeps over several machines: options, and what `tfbench sweep` does with them."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from tfbench.cli._measuring import Measuring, add_options
from tfbench.cli._output import echo_json, echo_lines, exit_code, text_width, waiting
from tfbench.cli._runs import open_maker, warn_of_missing_view
from tfbench.cli._sweeping import show_swept

if TYPE_CHECKING:
    from tfbench.errors import ExitCode
    from tfbench.records.sweep import CellResult, SweepPlan
    from tfbench.store.sweep_log import SweepLog
    from tfbench.store.tracking_state import TrackingState

F = TypeVar("F", bound=Callable[..., Any])

_OPTIONS = (
    click.option(
        "--ray", metavar="ADDRESS", help="Make the runs on the machines of a Ray cluster: auto, or HOST:6379."
    ),
    click.option(
        "--plan",
        "plan_path",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="Write the plan for the machines of a scheduler, and measure nothing.",
    ),
    click.option("--force", "replaces", is_flag=True, help="Overwrite the file of --plan if it is there."),
    click.option("--task", type=int, metavar="N", help="Make task N of the plan in --plan FILE, on this machine."),
)


class Cluster(NamedTuple):
    """What the options of `cluster_options` were given."""

    ray: str | None
    plan_path: Path | None
    replaces: bool
    task: int | None

    @property
    def finds_machines(self) -> bool:
        """Whether the runs of a sweep are made by other machines, which a scheduler chooses."""
        return bool(self.ray or self.plan_path)

    def require_sense(self, *, is_named: bool) -> None:
        """Refuses options that mean nothing beside each other; `is_named`: there is a recipe."""
        if self.ray and self.plan_path:
            raise click.UsageError("--ray and --plan: each is another way to make a sweep. Leave one out.")
        if self.replaces and (self.task is not None or not self.plan_path):
            raise click.UsageError("--force goes with --plan, where a plan is written.")
        if self.task is not None and (is_named or not self.plan_path):
            raise click.UsageError("--task makes a task of a plan: tfbench sweep --plan FILE --task N --store DIR")


def cluster_options(command: F) -> F:
    """Adds what a sweep over several machines takes; the command gets it together as `cluster`."""
    return add_options(command, _OPTIONS, "cluster", Cluster)


def write_plan(
    plan: "SweepPlan", opened: "AbstractContextManager[SweepLog]", path: Path, measuring: Measuring, *, replaces: bool
) -> "ExitCode":
    """Writes a plan's file, and begins the sweep's record; nothing is measured."""
    from tfbench.errors import ExitCode, TrackingError
    from tfbench.records.sweep import list_cells
    from tfbench.records.whole_files import is_stream
    from tfbench.report.sweep.sweep import plan_lines
    from tfbench.sweeps.tasks import list_tasks, write_plan_file

    if path.exists() and not (replaces or is_stream(path)):
        raise TrackingError(f"{path}: is there already. Use --force to overwrite it, or another file for --plan.")
    write_plan_file(plan, path)
    with opened:
        tasks = list_tasks(plan)
    machines = dict.fromkeys(task.machine for task in tasks if task.machine)
    of_kinds = {kind: ",".join(str(task.number) for task in tasks if task.machine == kind) for kind in machines}
    store = measuring.store
    lines = [
        *(*plan_lines(plan, len(list_cells(plan)), text_width()), ""),
        f"{path} has tasks 0 to {len(tasks) - 1}, each for one machine that does nothing else meanwhile.",
        *(f"  on {kind}: {numbers}" for kind, numbers in of_kinds.items()),
        "This makes a task, then brings home what came of all of them, as often as you like, and shows it:",
        f"  tfbench sweep --plan {path} --task N --store DIR",
        f"  {store.command('import')} DIR/journals/*.jsonl",
        f"  {store.command('compare', '--sweep', plan.sweep_id)}",
    ]
    echo_lines(lines, err=measuring.as_json)
    if measuring.as_json:
        document = {"id": plan.sweep_id, "plan": str(path), "num_tasks": len(tasks)}
        echo_json(document, f"The plan is written to {path}.")
    return ExitCode.DONE


def make_task(path: Path, number: int, measuring: Measuring, *, has_own_data: bool) -> "ExitCode":
    """Makes a task of a plan's file on this machine, with data of its own or where the plan has it."""
    from tfbench.errors import RecipeError
    from tfbench.report.sweep.console import SweepConsole
    from tfbench.sweeps import making
    from tfbench.sweeps.tasks import find_task, read_plan_file

    plan = read_plan_file(path)
    if plan.allows_code and not measuring.allows_code:
        raise RecipeError("the sweep calls functions of your own: allow it again with --allow-code.")
    task = find_task(plan, number)
    data_dir = measuring.data_dir if has_own_data or not plan.data_dir else None
    end = making.make_task(
        plan,
        task,
        open_maker(measuring._replace(no_mlflow=True)),
        SweepConsole(plan, quiet_stdout=measuring.as_json, is_tracked=False, num_runs=len(task.cells)),
        str(data_dir.absolute()) if data_dir else None,
    )
    if measuring.as_json:
        document = {"id": plan.sweep_id, "task": number, "num_left": end.num_left, "num_failed": end.num_failed}
        echo_json(document, f"The runs are in {measuring.store_root}.")
    return exit_code(has_failed=end.num_failed > 0, was_interrupted=end.was_interrupted)


def make_on_ray(
    plan: "SweepPlan",
    opened: "AbstractContextManager[SweepLog]",
    results: "dict[int, CellResult]",
    address: str,
    measuring: Measuring,
    *,
    is_dry: bool,
    before: "TrackingState | None",
) -> "ExitCode":
    """Has the tasks of a sweep that are not whole made on a Ray cluster, and shows what came of all of them."""
    from tfbench.errors import ExitCode
    from tfbench.records.sweep import list_cells
    from tfbench.report.sweep.sweep import plan_lines
    from tfbench.store.briefs import typical_start_seconds
    from tfbench.sweeps import ray_engine
    from tfbench.sweeps.making import look_at
    from tfbench.sweeps.sweep import SweepEnd
    from tfbench.sweeps.tasks import list_tasks

    cells = list_cells(plan)
    lines = plan_lines(plan, len(cells) - len(results), text_width(), typical_start_seconds(measuring.store))
    echo_lines(lines, err=measuring.as_json)
    if is_dry:
        return ExitCode.DONE
    tasks = [task for task in list_tasks(plan) if any(cell.number not in results for cell in task.cells)]
    maker = open_maker(measuring, before)
    with ray_engine.connected(address, tasks), opened as log:
        was_interrupted = ray_engine.make_tasks(
            log, tasks, maker.store, maker.state, lambda text: echo_lines([text], err=True)
        )
    if maker.tracker is not None:
        _track([result.run_id for result in log.results.values() if result.run_id], measuring)
    num_left = len(cells) - len(log.results)
    end = SweepEnd(
        num_cells=len(cells),
        num_left=num_left,
        was_interrupted=was_interrupted,
        results=log.results,
        why_left="no machine has made them",
    )
    swept = look_at(plan, end, maker)
    warn_of_missing_view(swept.view_problem)
    show_swept(swept, maker, measuring, ("--ray", address))
    return exit_code(has_failed=end.num_failed + num_left > 0, was_interrupted=was_interrupted)


def _track(run_ids: list[str], measuring: Measuring) -> None:
    from tfbench.cli._store import make_tracker
    from tfbench.runs.recovery import recover
    from tfbench.tracking.mlflow_process import MlflowProcess
    from tfbench.wording import count

    store = measuring.store
    with (
        MlflowProcess(needs_pandas=measuring.tracking_uri is not None) as process,
        waiting("bringing the runs into MLflow"),
    ):
        runs = recover(
            store, lambda uri, name: make_tracker(uri, name, store, measuring.tracking_uri, process), of=run_ids
        )
    if failed := [run for run in runs if run.status == "failed"]:
        said = f"{count(len(failed), 'run')} could not be brought into MLflow: {failed[0].message}"
        echo_lines([f"Warning: {said} `{store.command('recover')}` tries again."], err=True)
