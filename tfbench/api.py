"""tfbench from Python: make runs and sweeps, read what is stored, compare.

    import pandas
    import tfbench

    run = tfbench.run("mnist_mlp", synthetic=True, overrides={"measurement.steps": 200})
    print(run.status, run.metrics["samples_per_second"], run.warnings)

    sizes = {"training.global_batch_size": [32, 512]}
    swept = tfbench.sweep("mnist_mlp", vary=sizes, synthetic=True)
    print(*swept.verdict)

    table = pandas.DataFrame(tfbench.load_runs("mlruns"))

What is made so is what the command line makes: measured in a process of its own, kept in a store,
tracked in MLflow, found by `tfbench compare`, `tfbench ui` and `tfbench recover`. Nothing is
printed: an observer is told what happens, and what a user can mend is raised as a
`tfbench.TfbenchError`. A run that fails is a result, whose `status` and `reason` say so.
Ctrl-C ends a run in good order; what was measured by then is kept, and returned.

Of variables, MLFLOW_TRACKING_URI, MLFLOW_EXPERIMENT_NAME and TFBENCH_DATA_DIR count as they do for
the command line.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tfbench.comparisons.user_settings import SESSION_SCATTER, MachineSettings, UserSettings
from tfbench.errors import RecipeError, TfbenchError, UnknownNameError, did_you_mean
from tfbench.runs.maker import find_earlier_place, open_maker
from tfbench.runs.observer import Observer
from tfbench.runs.record import RunRequest
from tfbench.runs.requests import load_request, merge_overrides, resumed_request
from tfbench.runs.stored_run import (
    NO_LIMITS,
    Run,
    RunLimits,
    list_rows,
    read_predecessor,
    read_stored,
)
from tfbench.store.store import Store
from tfbench.store.sweep_log import find_named, read_sweep
from tfbench.sweeps.arguments import DEFAULT_ROUNDS, check_rounds, make_variation, parse_setup
from tfbench.sweeps.compared import ComparedRuns, Swept, compare_stored, compare_sweep
from tfbench.sweeps.execution import make_sweep, new_sweep, reopen_sweep
from tfbench.sweeps.planning import plan_sweep
from tfbench.wording import DEFAULT_STORE

__all__ = [
    "ComparedRuns",
    "MachineSettings",
    "Observer",
    "Run",
    "RunLimits",
    "Swept",
    "TfbenchError",
    "compare",
    "load_runs",
    "read_run",
    "resume_sweep",
    "run",
    "sweep",
]

Folder = str | Path


def run(
    recipe: Folder | None = None,
    *,
    resume: str | None = None,
    overrides: Mapping[str, Any] | None = None,
    strategy: str | None = None,
    devices: str | Sequence[str] | None = None,
    backend: str | None = None,
    synthetic: bool = False,
    data_dir: Folder | None = None,
    name: str | None = None,
    allows_code: bool = False,
    limits: RunLimits = NO_LIMITS,
    store: Folder = DEFAULT_STORE,
    track: bool = True,
    tracking_uri: str | None = None,
    experiment: str | None = None,
    observer: Observer | None = None,
) -> Run:
    """Measures one run in a process of its own, or resumes an earlier one, as `tfbench run` does.

    Args:
        recipe: A recipe's name, or the path of its file.
        resume: Instead of a recipe: an earlier run, whose newest checkpoint this one goes on from;
            the beginning of its id, its name, or "@last". Its name, its data folder and where it is
            tracked hold unless others are given.
        overrides: Dotted key to value, laid over the recipe: `{"training.epochs": 3}`. Of a run
            that goes on, the recipe's length, early stops, outputs, prices and expectations may
            change.
        strategy: "default", "one_device" or "mirrored"; None: the recipe's.
        devices: "cpu:0", "gpu:0,gpu:1" or a list of these; None: the recipe's.
        backend: "tensorflow", "jax" or "torch"; None: the recipe's.
        synthetic: Train on data made from the seed, of the same shapes and sizes, which needs no
            download.
        data_dir: Folder of prepared data.
        name: Of the run; None: made from the recipe.
        allows_code: Call the functions of your own that the recipe names; that it was allowed
            before does not count.
        limits: Seconds and bytes beyond which the run is ended; by default as much as it needs.
        store: Folder that keeps it.
        track: Whether it is sent to MLflow now; otherwise `tfbench recover` does it later.
        tracking_uri: Of an MLflow server; None: the store's own database. One that an earlier run
            names is named again.
        experiment: Of MLflow; None: as MLFLOW_EXPERIMENT_NAME says, else "tfbench".
        observer: Told what happens; None: nobody.

    Raises:
        TfbenchError: The run was rejected, or stopped before it was ready: nothing was measured and
            nothing stored.
    """
    values = merge_overrides(
        overrides,
        strategy=strategy,
        devices=devices,
        backend=backend,
        data="synthetic" if synthetic else None,
    )
    kept = Store(Path(store))
    request = make_request(
        kept,
        recipe,
        resume,
        values=values,
        name=name,
        data_dir=_data_dir(data_dir),
        allows_code=allows_code,
    )
    maker = open_maker(kept, track, tracking_uri, experiment, find_earlier_place(kept, request))
    return maker.make(request, observer or Observer(), limits)


def sweep(
    recipe: Folder,
    *,
    vary: Mapping[str, Sequence[Any]] | None = None,
    setups: Sequence[str] = (),
    rounds: int | tuple[int, int] = DEFAULT_ROUNDS,
    seconds: float | None = 1.0,
    overrides: Mapping[str, Any] | None = None,
    backend: str | None = None,
    synthetic: bool = False,
    data_dir: Folder | None = None,
    allows_code: bool = False,
    limits: RunLimits = NO_LIMITS,
    time_budget_seconds: float | None = None,
    store: Folder = DEFAULT_STORE,
    track: bool = True,
    tracking_uri: str | None = None,
    experiment: str | None = None,
    observer: Observer | None = None,
) -> Swept:
    """Runs a recipe over several sizes and setups and compares them, as `tfbench sweep` does.

    Args:
        recipe: A recipe's name, or the path of its file.
        vary: Dotted key to values: `{"training.global_batch_size": [32, 512]}`; None: as in the
            recipe's [sweep].
        setups: "mirrored cpu:0,cpu:1", "default cpu:0 backend=jax"; the first is the baseline, and
            one that is named twice is compared with itself; none: the recipe's own strategy and
            devices, if it names any, else processor and GPUs of this machine.
        rounds: In each of which every configuration is run once, the setups taking turns: how many,
            or the fewest and the most, between which rounds are added where it is undecided which
            setup is faster.
        seconds: Steady time of a run unless the recipe limits it, of five steps at least; None: the
            recipe's epochs, validation included.
        overrides: As of `run`, and so for what is not named here.
        backend: Of all setups that name none.
        synthetic: As of `run`.
        data_dir: As of `run`.
        allows_code: As of `run`.
        limits: Of each run; one that goes beyond them is a result, and the sweep goes on.
        time_budget_seconds: After which no further run is begun.
        store: As of `run`.
        track: As of `run`.
        tracking_uri: As of `run`.
        experiment: As of `run`.
        observer: Told what happens; None: nobody.

    Raises:
        TfbenchError: A configuration of it cannot be, the first has no data (nothing is kept then),
            or it cannot be written.
    """
    numbers = (rounds, rounds) if isinstance(rounds, int) else tuple(rounds)
    if len(numbers) != 2 or not all(type(number) is int for number in numbers):
        raise RecipeError(
            f"rounds: must be a number or two, such as (3, 20). Received: {rounds!r}."
        )
    values = merge_overrides(overrides, backend=backend, data="synthetic" if synthetic else None)
    request = load_request(
        str(recipe),
        values=values,
        data_dir=_data_dir(data_dir),
        allows_code=allows_code,
        steady_seconds=seconds,
    )
    plan = plan_sweep(
        request,
        [parse_setup(text) for text in setups],
        [make_variation(key, values, origin="vary") for key, values in (vary or {}).items()],
        rounds=check_rounds(*numbers, "rounds"),
        limits=limits,
        time_budget_seconds=time_budget_seconds,
    )
    maker = open_maker(Store(Path(store)), track, tracking_uri, experiment)
    return make_sweep(new_sweep(maker.store, plan), maker, observer or Observer())


def resume_sweep(
    which: str = "@last",
    *,
    allows_code: bool = False,
    store: Folder = DEFAULT_STORE,
    track: bool = True,
    tracking_uri: str | None = None,
    experiment: str | None = None,
    observer: Observer | None = None,
) -> Swept:
    """Makes the runs that a sweep lacks, as `tfbench sweep --resume` does; tracked as the others.

    Args:
        which: The beginning of its id, or "@last".
        allows_code: As of `run`, and so for what follows; that it was allowed then does not count.
        store: Folder that keeps it.
        track: As of `run`.
        tracking_uri: As of `run`.
        experiment: As of `run`.
        observer: As of `sweep`.

    Raises:
        TfbenchError: There is no such sweep, its record is damaged, or another process is at it.
    """
    kept = Store(Path(store))
    planned = reopen_sweep(kept, which, allows_code=allows_code)
    maker = open_maker(kept, track, tracking_uri, experiment, planned.before)
    return make_sweep(planned, maker, observer or Observer())


def compare(
    runs: Iterable[str] | None = None,
    *,
    sweep: str | None = None,
    recipe: str | None = None,
    baseline: str | None = None,
    allows_unequal: bool = False,
    machines: Mapping[str, MachineSettings] | None = None,
    session_scatter: float = SESSION_SCATTER,
    store: Folder = DEFAULT_STORE,
) -> ComparedRuns:
    """Sets stored runs side by side, as `tfbench compare` does.

    Args:
        runs: Ids of runs, of series or of one sweep, or a part of them; names; "@last"; None: all,
            or the sweep's.
        sweep: The beginning of a sweep's id, or "@last", instead of runs.
        recipe: Among all runs, only those of this recipe.
        baseline: The setup that others are compared with, such as "default cpu:0"; None: the first.
        allows_unequal: Compare setups although they differ in what must be equal.
        machines: What machines cost, by host name or by the name that setups give them; None: that
            is not known.
        session_scatter: By which share the speed of a machine drifts from one session to the next.
        store: Folder that keeps them.

    Returns:
        What could be read: `comparison.unreadable` has the others, by id with why.

    Raises:
        UnknownNameError: There are no such runs, or no such setup.
        TrackingError: The record of the sweep is damaged.
    """
    kept = Store(Path(store))
    settings = UserSettings(machines=dict(machines or {}), session_scatter=session_scatter)
    plan = None
    sweep_id, run_ids = find_named(kept, runs, sweep)
    if sweep_id:
        record = read_sweep(kept, sweep_id)
        plan = record.plan
        comparison = compare_sweep(kept, record, baseline=baseline, settings=settings)
    else:
        comparison = compare_stored(
            kept,
            run_ids,
            recipe=recipe,
            baseline=baseline,
            allows_unequal=allows_unequal,
            settings=settings,
        )
    if not comparison.rows and not comparison.unreadable:
        raise UnknownNameError(
            f"store {kept.root}: no runs to compare. `{kept.command('sweep', 'RECIPE')}` makes some"
        )
    if comparison.rows and baseline and baseline not in comparison.setups:
        raise UnknownNameError(
            f"--baseline '{baseline}': no such setup.{did_you_mean(baseline, comparison.setups)}"
            f" There are: {', '.join(comparison.setups)}."
        )
    return ComparedRuns(comparison=comparison, plan=plan)


def load_runs(store: Folder = DEFAULT_STORE, *, recipe: str | None = None) -> list[dict[str, Any]]:
    """Returns all runs of a store that are over as plain rows, oldest first.

    `pandas.DataFrame(load_runs("mlruns"))` makes a table of them.

    Args:
        store: Folder that keeps them.
        recipe: Only runs of this recipe; None: of all.

    Returns:
        A row per run: what it is, its figures under names that end in their units, its recipe's
        values under dotted keys. One that cannot be read has the status UNREADABLE, and says why
        under "reason".
    """
    return list_rows(Store(Path(store)), recipe=recipe)


def read_run(which: str = "@last", *, store: Folder = DEFAULT_STORE) -> Run:
    """Reads a run of a store as far as its journal goes.

    Args:
        which: The beginning of its id, a run's name, or "@last".
        store: Folder that keeps it.

    Raises:
        UnknownNameError: No run, or more than one, is meant.
        TrackingError: Its journal is damaged.
    """
    return read_stored(Store(Path(store)), which)


def make_request(
    store: Store,
    recipe: Folder | None,
    resume: str | None = None,
    *,
    values: Mapping[str, Any],
    **options: Any,
) -> RunRequest:
    """Builds the request for a run of a recipe, or for one that goes on from a run of the store.

    Args:
        store: Where the earlier run is.
        recipe: As of `run`, as `resume`.
        resume: The earlier run.
        values: Dotted key to value, laid over the recipe.
        options: As of `load_request` or `resumed_request`.

    Raises:
        TfbenchError: Neither is named or both, there is none of this name, or it cannot be run as
            it stands.
    """
    if resume and recipe is None:
        previous = read_predecessor(store, resume)
        return resumed_request(previous.result, previous.journal, overrides=values, **options)
    if recipe is None or resume:
        raise RecipeError("name a recipe (`tfbench list` shows them), or a run to go on with.")
    return load_request(str(recipe), values=values, **options)


def _data_dir(given: Folder | None) -> Path | None:
    folder = given or os.environ.get("TFBENCH_DATA_DIR")
    return Path(folder) if folder else None
