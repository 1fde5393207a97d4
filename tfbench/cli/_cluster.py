"""Sweeps over several machines: options, and what `tfbench sweep` does with them."""

import socket
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from tfbench.cli._completion import complete_sweep
from tfbench.cli._measuring import Measuring, add_options
from tfbench.cli._output import echo_json, echo_lines, exit_code, text_width, waiting
from tfbench.cli._runs import open_maker, warn_of_missing_view
from tfbench.cli._sweeping import show_swept

if TYPE_CHECKING:
    from tfbench.errors import ExitCode
    from tfbench.records.sweep import SweepPlan
    from tfbench.runs.maker import RunMaker
    from tfbench.store.sweep_log import SweepLog
    from tfbench.store.tracking_state import TrackingState
    from tfbench.sweeps.collecting import Collected
    from tfbench.sweeps.sweep import SweepEnd

F = TypeVar("F", bound=Callable[..., Any])

ENGINES = ("ray", "slurm")
_OPTIONS = (
    click.option(
        "--engine", type=click.Choice(ENGINES), help="Make the runs on the machines of a Ray or Slurm cluster."
    ),
    click.option(
        "--engine-option",
        "engine_options",
        multiple=True,
        metavar="KEY=VALUE",
        help="Of slurm an option of sbatch, such as partition=gpu or time=2:00:00; of ray address=HOST:6379.",
    ),
    click.option(
        "--node-store",
        type=click.Path(path_type=Path),
        metavar="DIR",
        help="Folder on each machine that its runs are kept in; of slurm one that all share. [default: STORE-nodes]",
    ),
    click.option(
        "--plan",
        "plan_path",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="Write the plan for another scheduler, with a command a task, and measure nothing.",
    ),
    click.option("--force", "replaces", is_flag=True, help="Overwrite the file of --plan if it is there."),
    click.option("--task", type=int, metavar="N", help="Make task N of the plan in --plan FILE, on this machine."),
    click.option("--cell", type=int, metavar="M", help="With --task: make run M of it, and no other."),
    click.option(
        "--machine", metavar="NAME", help="With --task: what this machine is called. [default: its host name]"
    ),
    click.option(
        "--collect",
        metavar="ID",
        shell_complete=complete_sweep,
        help="Bring what machines made of a sweep into the store: tfbench sweep --collect ID STORE...",
    ),
)


class Cluster(NamedTuple):
    """What the options of `cluster_options` were given."""

    engine: str | None
    engine_options: tuple[str, ...]
    node_store: Path | None
    plan_path: Path | None
    replaces: bool
    task: int | None
    cell: int | None
    machine: str | None
    collect: str | None

    @property
    def finds_machines(self) -> bool:
        """Whether the runs of a sweep are made by other machines, which a scheduler chooses."""
        return bool(self.engine or self.plan_path)

    def require_sense(self, *, is_named: bool) -> None:
        """Refuses options that mean nothing beside each other; `is_named`: there are words that are no options."""
        ways = [name for name, value in (("--engine", self.engine), ("--collect", self.collect)) if value]
        ways += ["--plan"] if self.plan_path else []
        if len(ways) > 1:
            raise click.UsageError(f"{' and '.join(ways)}: each is another way to make a sweep. Leave all but one out.")
        if self.task is None and (self.cell is not None or self.machine):
            raise click.UsageError("--cell and --machine go with --task.")
        if self.replaces and (self.task is not None or not self.plan_path):
            raise click.UsageError("--force goes with --plan, where a plan is written.")
        if self.task is not None and (is_named or not self.plan_path):
            raise click.UsageError("--task makes a task of a plan: tfbench sweep --plan FILE --task N --store DIR")
        if not self.engine and (self.engine_options or self.node_store):
            raise click.UsageError("--engine-option and --node-store go with --engine.")


def cluster_options(command: F) -> F:
    """Adds what a sweep over several machines takes; the command gets it together as `cluster`."""
    return add_options(command, _OPTIONS, "cluster", Cluster)


def write_plan(
    plan: "SweepPlan", opened: "AbstractContextManager[SweepLog]", path: Path, measuring: Measuring, *, replaces: bool
) -> "ExitCode":
    """Writes a plan's file, and begins the sweep's record; nothing is measured."""
    from tfbench.errors import ExitCode, TrackingError
    from tfbench.records.tasks import list_tasks
    from tfbench.records.whole_files import is_stream
    from tfbench.report.sweep.machines import planned_lines
    from tfbench.report.sweep.sweep import plan_lines
    from tfbench.sweeps.tasks import write_plan_file

    if path.exists() and not (replaces or is_stream(path)):
        raise TrackingError(f"{path}: is there already. Use --force to overwrite it, or another file for --plan.")
    write_plan_file(plan, path)
    with opened:
        num_left = sum(len(task.cells) for task in list_tasks(plan))
    collect = measuring.store.command("sweep", "--collect", plan.sweep_id)
    lines = [*plan_lines(plan, num_left, text_width()), "", *planned_lines(plan, path, collect)]
    echo_lines(lines, err=measuring.as_json)
    if measuring.as_json:
        document = {"sweep_id": plan.sweep_id, "plan": str(path), "num_tasks": len(list_tasks(plan))}
        echo_json(document, f"The plan is written to {path}")
    return ExitCode.DONE


def make_task(path: Path, number: int, cluster: Cluster, measuring: Measuring, *, has_own_data: bool) -> "ExitCode":
    """Makes a task of a plan's file on this machine, with data of its own or where the plan has it."""
    from tfbench.errors import RecipeError
    from tfbench.report.sweep.console import open_sweep_console
    from tfbench.sweeps.tasks import find_task, read_plan_file, run_task

    plan = read_plan_file(path)
    if plan.allows_code and not measuring.allows_code:
        raise RecipeError("the sweep calls functions of your own: allow it again with --allow-code.")
    task, cell = find_task(plan, number, cluster.cell)
    data_dir = measuring.data_dir if has_own_data or not plan.data_dir else None
    maker = open_maker(measuring._replace(no_mlflow=True))
    end = run_task(
        plan,
        task,
        maker,
        open_sweep_console(plan, quiet_stdout=measuring.as_json, is_tracked=False, num_runs=len(task.cells)),
        machine=cluster.machine or socket.gethostname(),
        cell=cell,
        data_dir=str(data_dir.absolute()) if data_dir else None,
        tell=lambda text: echo_lines([text], err=True),
    )
    if measuring.as_json:
        document = {
            "sweep_id": plan.sweep_id,
            "task": task.number,
            "num_left": end.num_left,
            "num_failed": end.num_failed,
        }
        echo_json(document, f"The runs are in {measuring.store_root}")
    return exit_code(has_failed=end.num_failed > 0, was_interrupted=end.was_interrupted)


def collect(sweep_id: str, stores: tuple[str, ...], measuring: Measuring) -> "ExitCode":
    """Brings what machines made of a sweep into the store, and shows what there is of it."""
    from tfbench.records.sweep import list_cells
    from tfbench.report.sweep.machines import missing_lines
    from tfbench.store.store import Store
    from tfbench.store.sweep_log import find_sweep, find_tracking, reopened_log
    from tfbench.sweeps.collecting import Collector, find_stores
    from tfbench.sweeps.sweep import SweepEnd

    store = measuring.store
    if not stores:
        raise click.UsageError("--collect: name the folders that the tasks were made into: --collect ID STORE...")
    for folder in stores:
        if not Path(folder).is_dir():
            raise click.UsageError(f"--collect: {folder} is no folder.")
    sweep_id = find_sweep(store, sweep_id)
    found_in = {folder: find_stores(Path(folder), sweep_id) for folder in stores}
    empty = [
        f"Warning: {folder}: holds nothing of sweep {sweep_id}." for folder, found in found_in.items() if not found
    ]
    echo_lines(empty, err=True)
    maker = open_maker(measuring, find_tracking(store, sweep_id))
    with reopened_log(store, sweep_id) as log, waiting("collecting"):
        collector = Collector(log, store, maker.state)
        collector.collect([Store(path) for found in found_in.values() for path in found], {}, is_over=False)
    num_cells = len(list_cells(log.plan))
    num_left = num_cells - len(log.results)
    why = "what machines made of them has not come back" if num_left else ""
    end = SweepEnd(
        num_cells=num_cells, num_left=num_left, was_interrupted=False, results=dict(log.results), why_left=why
    )
    found = collector.collected
    echo_lines([f"Collected {found.num_results} results and {len(found.imported)} journals."], err=measuring.as_json)
    return _finish(log, end, found, maker, measuring, missing_lines(log.plan, log.results))


def make_on_cluster(
    plan: "SweepPlan",
    opened: "AbstractContextManager[SweepLog]",
    num_made: int,
    cluster: Cluster,
    measuring: Measuring,
    *,
    is_dry: bool,
    before: "TrackingState | None",
) -> "ExitCode":
    """Has the runs of a sweep that are missing made on a cluster, and shows what came of all of them."""
    from tfbench.errors import ExitCode
    from tfbench.records.sweep import list_cells
    from tfbench.report.sweep.machines_console import open_machines_console
    from tfbench.report.sweep.sweep import plan_lines
    from tfbench.store.briefs import typical_start_seconds
    from tfbench.store.store import Store
    from tfbench.store.sweep_log import plan_path
    from tfbench.sweeps.engines.drive import drive
    from tfbench.sweeps.engines.engine import EngineSetting, open_engine
    from tfbench.sweeps.tasks import write_plan_file

    root = measuring.store_root.absolute()
    node_store = (cluster.node_store or root.with_name(f"{root.name}-nodes")).absolute()
    options = _read_options(cluster.engine_options)
    path = plan_path(Store(root), plan.sweep_id)
    setting = EngineSetting(plan=plan, plan_path=path, store_root=root, node_store=node_store, options=options)
    engine = open_engine(str(cluster.engine), setting)
    num_left = len(list_cells(plan)) - num_made
    lines = plan_lines(plan, num_left, text_width(), typical_start_seconds(measuring.store))
    echo_lines([*lines, f"  machines  of {cluster.engine}, each keeps its runs in {node_store}"], err=measuring.as_json)
    if is_dry:
        return ExitCode.DONE
    maker = open_maker(measuring, before)
    with opened as log:
        write_plan_file(plan, path)
        driven = drive(
            log, maker.store, maker.state, engine, open_machines_console(plan, quiet_stdout=measuring.as_json)
        )
    words = [
        *("--resume", plan.sweep_id),
        "--engine",
        str(cluster.engine),
        *(["--node-store", str(cluster.node_store)] if cluster.node_store else []),
    ]
    words += [word for text in cluster.engine_options for word in ("--engine-option", text)]
    again = ["This makes them:", f"  {measuring.store.command('sweep', *words)}"]
    return _finish(log, driven.end, driven.collected, maker, measuring, again)


def _finish(
    log: "SweepLog",
    end: "SweepEnd",
    collected: "Collected",
    maker: "RunMaker",
    measuring: Measuring,
    again: Sequence[str] = (),
) -> "ExitCode":
    """Brings what was collected into MLflow, and shows the comparison and what is wrong with it."""
    from tfbench.report.sweep.machines import loss_lines, machine_lines
    from tfbench.store.sweep_log import read_losses
    from tfbench.sweeps.collecting import describe_left_out
    from tfbench.sweeps.making import look_at

    plan, store = log.plan, maker.store
    if maker.tracker is not None:
        _track(log, collected, measuring)
    warnings = [f"Warning: not collected: {problem}" for problem in collected.problems]
    warnings += [
        f"Warning: may still be going on: {run}. Collect again once it is over." for run in collected.under_way
    ]
    echo_lines(warnings, err=True)
    losses = read_losses(store, plan.sweep_id)
    swept = look_at(plan, end, maker)
    warn_of_missing_view(swept.view_problem)
    lines = [*machine_lines(plan, end.results), *loss_lines(losses), *describe_left_out(log)]
    document = {
        "made_on": {str(number): result.machine for number, result in sorted(end.results.items())},
        "lost": [loss._asdict() for loss in losses],
        "not_collected": list(collected.problems),
    }
    show_swept(swept, maker, measuring, lines, document, again)
    return exit_code(has_failed=end.num_failed > 0 or bool(end.num_left), was_interrupted=end.was_interrupted)


def _track(log: "SweepLog", collected: "Collected", measuring: Measuring) -> None:
    from tfbench.cli._store import make_tracker
    from tfbench.runs.recovery import recover
    from tfbench.tracking.mlflow_process import MlflowProcess
    from tfbench.wording import count

    store = measuring.store
    run_ids = dict.fromkeys([*(one.run_id for one in log.found if one.run_id), *collected.imported])
    with (
        MlflowProcess(needs_pandas=measuring.tracking_uri is not None) as process,
        waiting("bringing the runs into MLflow"),
    ):
        runs = recover(
            store, lambda uri, name: make_tracker(uri, name, store, measuring.tracking_uri, process), of=list(run_ids)
        )
    if failed := [run for run in runs if run.outcome == "failed"]:
        echo_lines(
            [
                f"Warning: {count(len(failed), 'run')} could not be brought into MLflow: {failed[0].message} "
                f"`{store.command('recover')}` tries again."
            ],
            err=True,
        )


def _read_options(texts: tuple[str, ...]) -> dict[str, str]:
    options = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not key or not equals:
            raise click.UsageError(f"--engine-option {text}: must be KEY=VALUE, for example partition=gpu.")
        options[key] = value
    return options
