"""Plans sweeps, and checks every configuration before anything runs."""

import contextlib
import dataclasses
import itertools
import math
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tfbench.errors import DeviceError, Notice, RecipeError
from tfbench.machine.frameworks import count_gpus, describe_lack, is_installed, require_gpus
from tfbench.recipe import tables
from tfbench.recipe.backend_support import BACKEND_TITLES, BackendName
from tfbench.recipe.device_names import require_usable
from tfbench.recipe.sections import Recipe
from tfbench.recipe.tables import require_code_allowed
from tfbench.runs.launch import require_data_dir
from tfbench.runs.record import RunRequest
from tfbench.runs.stored_run import NO_LIMITS, RunLimits
from tfbench.sweeps.arguments import (
    Rounds,
    are_alike_numbers,
    is_range,
    make_variation,
    parse_variation,
)
from tfbench.sweeps.plan import (
    BACKEND_KEY,
    BATCH_KEY,
    MODE_STRATEGIES,
    WORKERS_KEY,
    Mode,
    PlannedRun,
    Refinement,
    Setup,
    SweepPlan,
    Variation,
    list_configurations,
    name_cell,
    resolve_recipe,
)
from tfbench.wording import shorten


def plan_sweep(
    request: RunRequest,
    setups: Sequence[Setup],
    variations: Sequence[Variation],
    *,
    refine: int = 0,
    step: int = 1,
    **options: Any,
) -> SweepPlan:
    """Plans a sweep, and checks every configuration.

    Args:
        request: What a run of the recipe would be.
        setups: The first is the baseline; none: the recipe's own strategy and devices, where these
            are not the defaults, otherwise what there is to compare on this machine, without what
            cannot be in all configurations.
        variations: What is varied; none: what the recipe's [sweep] varies.
        refine: How many values are added at most where the faster setup changes; 0: none.
        step: What these are multiples of.
        options: As of `new_plan`.

    Raises:
        RecipeError: Naming every configuration that cannot be, or there is nothing to refine.
        DeviceError: The backend did not say which GPUs it sees.
    """
    recipe = request.recipe
    variations = variations or [
        make_variation(key, listed, origin=f"{recipe.name}: sweep")
        for key, listed in recipe.sweep.items()
    ]
    if refine:
        if len(variations) != 1 or not all(map(are_alike_numbers, variations[0].values)):
            raise RecipeError("a crossover needs one --vary of whole numbers, KEY=LOW..HIGH.")
        options["refinement"] = Refinement(
            num_first=len(variations[0].values), most=refine, step=step
        )
    setups = setups or choose_setups(request, variations)
    plan = new_plan(request, setups, variations=variations, **options)
    check_configurations(plan)
    return plan


def new_plan(
    request: RunRequest,
    setups: Sequence[Setup],
    *,
    variations: Sequence[Variation] = (),
    rounds: Rounds,
    limits: RunLimits = NO_LIMITS,
    **fields: Any,
) -> SweepPlan:
    """Plans the runs of a recipe under several setups.

    Args:
        request: What a run of the recipe would be; the sweep gets its id.
        setups: The first is the baseline. One that is named twice is compared with itself (A/A
            test). None sets what is varied. In the plan each says its backend, unless that and the
            recipe's are TensorFlow: others may stand beside it later.
        variations: What is varied.
        rounds: How many there are.
        limits: Of each run.
        fields: Others of the plan: its time budget, batch size of a replica, refinement.

    Raises:
        RecipeError: A setup sets what is varied.
    """
    varied = {variation.key for variation in variations}
    planned_setups: list[Setup] = []
    for setup in setups:
        if both := varied.intersection(dict(setup.values)):
            raise RecipeError(
                f"{shorten(setup.label)}: {', '.join(sorted(both))} is varied already. Set it in"
                " one place."
            )
        planned = _name_backend(setup, request.recipe)
        if planned in planned_setups:
            planned = dataclasses.replace(planned, again=True)
        if planned not in planned_setups:
            planned_setups.append(planned)
    if len(planned_setups) == 1:  # nothing is compared that more rounds could decide
        rounds = Rounds(rounds.fewest, rounds.fewest)
    return SweepPlan(
        sweep_id=request.run_id,
        created=request.created,
        recipe_name=request.recipe.name,
        tables=tables.to_tables(request.recipe),
        overrides=request.overrides,
        variations=tuple(variations),
        setups=tuple(planned_setups),
        num_rounds=rounds.most,
        first_rounds=None if rounds.are_fixed else rounds.fewest,
        data_dir=request.data_dir,
        allows_code=request.allows_code,
        run_timeout_seconds=limits.timeout_seconds,
        memory_limit_bytes=limits.memory_bytes,
        argv=request.argv,
        **fields,
    )


def _name_backend(setup: Setup, recipe: Recipe) -> Setup:
    usual = recipe.training.backend
    values = dict(setup.values)
    backend = values.pop(BACKEND_KEY, usual)
    if backend != "tensorflow" or usual != "tensorflow":
        values = {BACKEND_KEY: backend} | values
    return dataclasses.replace(setup, values=tuple(values.items()))


def own_setup(recipe: Recipe) -> Setup:
    """Returns the strategy and devices that a recipe names."""
    return Setup(strategy=recipe.distribution.strategy, devices=recipe.distribution.devices)


def choose_setups(request: RunRequest, variations: Sequence[Variation]) -> list[Setup]:
    """Returns the recipe's own setup; where that is the default, those to compare on this machine.

    A setup that cannot run at every value is left out: a batch may not divide among several
    replicas.
    """
    recipes_setup = own_setup(request.recipe)
    if recipes_setup != Setup(strategy="default"):
        return [recipes_setup]
    backend = request.recipe.training.backend
    setups = []
    left_out = []
    for setup in _machine_setups(count_gpus(backend), backend):
        try:
            check_configurations(
                new_plan(request, [setup], rounds=Rounds(1, 1), variations=variations)
            )
            setups.append(setup)
        except RecipeError as error:
            left_out.append(f"left out: {setup.label}: {error}")
    if not setups:
        return [recipes_setup]  # its own error names what is wrong with all of them
    for text in left_out:
        warnings.warn(text, Notice, stacklevel=2)
    return setups


def _machine_setups(num_gpus: int, backend: BackendName) -> tuple[Setup, ...]:
    """Returns what there is to compare on a machine: its processor, a GPU, and all of several.

    Without a GPU it is the processor with two logical devices of it, which shows what a strategy
    itself costs. A backend without strategies has the processor and a GPU.
    """
    setups = [Setup(strategy="default", devices=("cpu:0",))]
    if num_gpus:
        setups.append(Setup(strategy="default", devices=("gpu:0",)))
    if backend == "tensorflow" and num_gpus == 0:
        setups.append(Setup(strategy="mirrored", devices=("cpu:0", "cpu:1")))
    if backend == "tensorflow" and num_gpus > 1:
        every_gpu = tuple(f"gpu:{index}" for index in range(num_gpus))
        setups.append(Setup(strategy="mirrored", devices=every_gpu))
    return tuple(setups)


def read_variations(
    texts: Sequence[str],
    request: RunRequest,
    setups: Sequence[Setup],
    *,
    refines: bool,
    step: int | None,
) -> tuple[list[Variation], int]:
    """Reads what is varied, and returns what the first key's values are multiples of.

    Args:
        texts: Each KEY=VALUES or KEY=LOW..HIGH.
        request: What a run of the recipe would be.
        setups: Among whose replicas batches are divided.
        refines: Whether values are added later.
        step: What values of a range are multiples of; None: batch sizes of the replicas, others of
            1.

    Raises:
        RecipeError: A text has no values, or its key cannot be varied or is named twice.
    """
    variations: dict[str, Variation] = {}
    multiple = step or 1
    for text in texts:
        is_batch = text.partition("=")[0].strip() == BATCH_KEY
        multiple = step or 1
        if step is None and is_batch and (refines or is_range(text)):
            multiple = find_step(setups, request.recipe.training.backend)
        variation = parse_variation(text, request.recipe, multiple)
        if variation.key in variations:
            raise RecipeError(
                f"{shorten(variation.key)}: is varied twice. Give all of its values once."
            )
        variations[variation.key] = variation
    return list(variations.values()), multiple


def find_step(setups: Iterable[Setup], backend: BackendName) -> int:
    """Returns the number whose multiples divide among the replicas of each setup."""
    counts = [1]
    for setup in setups:
        if setup.strategy not in ("mirrored", "multi_worker", "hybrid"):
            continue
        if setup.devices and "gpu" not in setup.devices:
            counts.append(setup.num_devices)
        else:
            own_backend = dict(setup.values).get(BACKEND_KEY, backend)
            counts.append(count_gpus(own_backend) or 1)
    return math.lcm(*counts)


def check_machine(plan: SweepPlan, due: Iterable[PlannedRun]) -> None:
    """Checks that this machine has what the runs need that are to be made; warns of unused GPUs.

    Raises:
        DeviceError: A setup names a GPU, and there is none.
        DatasetError: The data folder is not there.
    """
    dataset = plan.tables["dataset"]
    for number in {run.setup for run in due}:
        setup = plan.setups[number]
        if not setup.machine:
            require_data_dir(dataset["name"], dataset.get("data", "real"), plan.data_dir)
            require_gpus(setup.devices)
    without_devices = [setup for setup in plan.setups if not (setup.devices or setup.machine)]
    for backend in _backends(plan, without_devices):
        with contextlib.suppress(DeviceError):  # of a backend that does not answer: its runs say so
            count_gpus(backend)


def require_backends(plan: SweepPlan) -> None:
    """Rejects a plan whose setups need backends that are not installed, before any is measured.

    Raises:
        DeviceError: Naming the backends.
    """
    missing = [
        describe_lack(backend, in_sweep=True)
        for backend in _backends(plan, plan.setups)
        if not is_installed(backend)
    ]
    if missing:
        raise DeviceError("\n".join(missing))


def _backends(plan: SweepPlan, setups: Iterable[Setup]) -> list[BackendName]:
    configuration = list_configurations(plan)[0]
    recipes = [resolve_recipe(plan, configuration, setup) for setup in setups]
    return list(dict.fromkeys(recipe.training.backend for recipe in recipes))


def check_configurations(plan: SweepPlan) -> None:
    """Builds every configuration's recipe to report bad values before any run.

    Functions outside of tfbench must be allowed. Devices that are all named must be usable, and
    divide the batch.

    Raises:
        RecipeError: Every problem once, with the first configuration that has it, and how many more
            have.
    """
    titles: dict[str, list[str]] = {}  # by problem; "" where that names no configuration
    for configuration, setup in itertools.product(list_configurations(plan), plan.setups):
        title = name_cell(plan, configuration, setup)
        for line in _find_problems(plan, configuration, setup):
            problem = line.removeprefix(title)
            titles.setdefault(problem, []).append("" if problem == line else title)
    lines = []
    for problem, (first, *others) in titles.items():
        more = f" and {len(others)} more" if first and others else ""
        lines.append(f"{first}{more}{problem}")
    if lines:
        raise RecipeError("\n".join(lines))


def _find_problems(plan: SweepPlan, configuration: Mapping[str, Any], setup: Setup) -> list[str]:
    try:
        recipe = resolve_recipe(plan, configuration, setup)
        require_code_allowed(recipe, allows_code=plan.allows_code)
        require_usable(recipe.distribution, recipe.training)
    except (RecipeError, DeviceError) as error:
        return str(error).splitlines()
    return []


def choose_kind(
    asked: str | None, counts: tuple[int, ...], num_gpus: int, backend: BackendName = "tensorflow"
) -> str:
    """Returns the kind of devices, "gpu" or "cpu": as asked for, else GPUs if there are any.

    Raises:
        DeviceError: There are too few GPUs.
    """
    kind = asked or ("gpu" if num_gpus else "cpu")
    if kind == "gpu" and counts[-1] > num_gpus:
        raise DeviceError(
            f"--replicas {counts[-1]} needs GPUs, but {BACKEND_TITLES[backend]} sees"
            f" {num_gpus or 'none'}. `tfbench devices` explains why. Or use --devices cpu."
        )
    return kind


def plan_scaling(
    request: RunRequest,
    counts: tuple[int, ...],
    kind: str,
    *,
    modes: Sequence[Mode],
    **options: Any,
) -> SweepPlan:
    """Plans a sweep of one configuration, with a setup for each number of devices and each mode.

    Args:
        request: What a run of the recipe would be.
        counts: Numbers of devices, from one on.
        kind: Of the devices, "gpu" or "cpu".
        modes: How several of them share the work.
        options: As of `new_plan`; with `per_replica_batch_size` scaling is weak.

    Raises:
        RecipeError: The backend has not all modes, or the batch does not divide among the devices.
    """
    setups = replica_setups(kind, counts, modes, request.recipe.training.backend)
    plan = new_plan(request, setups, scaling_modes=tuple(modes), **options)
    check_configurations(plan)
    return plan


def replica_setups(
    kind: str,
    counts: Sequence[int],
    modes: Sequence[Mode] = ("data",),
    backend: BackendName = "tensorflow",
) -> tuple[Setup, ...]:
    """Returns a setup for each number of devices and mode; one device has nothing to distribute.

    Args:
        kind: Of the devices, "gpu" or "cpu".
        counts: Numbers of devices.
        modes: How several of them share the work.
        backend: Whose strategies they are.
    """
    alone = "one_device" if backend == "tensorflow" else "default"
    setups = []
    for count in counts:
        devices = tuple(f"{kind}:{index}" for index in range(count))
        strategies = [alone] if count == 1 else [MODE_STRATEGIES[mode] for mode in modes]
        for strategy in strategies:
            setup = Setup(strategy=strategy, devices=devices)
            if strategy == MODE_STRATEGIES["workers"]:  # each has one device
                workers = ((WORKERS_KEY, count),)
                setup = Setup(strategy=strategy, devices=devices[:1], values=workers)
            setups.append(setup)
    return tuple(setups)
