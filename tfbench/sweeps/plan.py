"""Plans sweeps, and checks every point of one before anything runs."""

import dataclasses
import itertools
import math
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from tfbench.errors import DeviceError, Notice, RecipeError
from tfbench.machine.devices import count_gpus
from tfbench.machine.frameworks import describe_lack, is_installed
from tfbench.recipe import tables
from tfbench.recipe.abilities import BACKEND_TITLES, BackendName
from tfbench.recipe.devices import MAX_LOGICAL_CPUS, require_strategy, require_usable
from tfbench.recipe.keys import THREADS
from tfbench.recipe.sections import DistributionConfig, Recipe, StrategyName
from tfbench.recipe.tables import require_code_allowed
from tfbench.records.run import RunRequest
from tfbench.records.scaling import MODE_STRATEGIES, Mode, replica_arms
from tfbench.records.sweep import (
    BACKEND_KEY,
    BATCH_KEY,
    THREAD_KEYS,
    Arm,
    Refinement,
    SweepPlan,
    Variation,
    list_settings,
    name_point,
    resolve_recipe,
)
from tfbench.sweeps.arguments import are_alike_numbers, is_range, make_variation, parse_variation
from tfbench.wording import shorten


def plan_sweep(
    request: RunRequest,
    arms: Sequence[Arm],
    variations: Sequence[Variation],
    *,
    aa: bool = False,
    refine: int = 0,
    step: int = 1,
    **options: Any,
) -> SweepPlan:
    """Plans a sweep, and checks every point of it.

    Args:
        request: What a run of the recipe would be.
        arms: The first is the baseline; none: the recipe's own strategy and devices, where these are not the defaults,
            otherwise what there is to compare on this machine, without what cannot be at every point.
        variations: What is varied; none: what the recipe's [sweep] varies.
        aa: Whether each arm is run against itself.
        refine: How many values are added at most where the faster arm changes; 0: none.
        step: What these are multiples of.
        options: As of `new_plan`.

    Raises:
        RecipeError: Naming every point that cannot be, or there is nothing to refine.
        DeviceError: The back end did not say which GPUs it sees.
    """
    variations = variations or own_variations(request.recipe)
    if refine:
        if aa:
            raise RecipeError("--refine looks for where the faster arm changes: leave --aa out.")
        if len(variations) != 1 or not all(map(are_alike_numbers, variations[0].values)):
            raise RecipeError("--refine needs one --vary of whole numbers, KEY=LOW..HIGH.")
        options["refinement"] = Refinement(num_first=len(variations[0].values), most=refine, step=step)
    arms = arms or choose_arms(request, variations)
    if aa:
        arms = [one for arm in dict.fromkeys(arms) for one in (arm, dataclasses.replace(arm, again=True))]
    plan = new_plan(request, arms, variations=variations, **options)
    check_points(plan)
    return plan


def new_plan(
    request: RunRequest,
    arms: Sequence[Arm],
    *,
    variations: Sequence[Variation] = (),
    names_machines: bool = False,
    **fields: Any,
) -> SweepPlan:
    """Plans the runs of a recipe under several arms.

    Args:
        request: What a run of the recipe would be; the sweep gets its id.
        arms: Each is taken once; the first is the baseline. None sets what is varied. In the plan each says its
            back end, unless that and the recipe's are TensorFlow: others may stand beside it later.
        variations: What is varied.
        names_machines: Whether a scheduler will find the machines that arms name.
        fields: Others of the plan: its rounds, limits, time budget, batch size of a replica, refinement.

    Raises:
        RecipeError: An arm sets what is varied, or names a machine that nobody will find.
    """
    require_machine_found(arms, names_machines=names_machines)
    varied = {
        key for variation in variations for key in (THREAD_KEYS if variation.key == THREADS else (variation.key,))
    }
    for arm in arms:
        if both := varied.intersection(dict(arm.values)):
            raise RecipeError(
                f"{shorten(arm.label)}: {', '.join(sorted(both))} is varied already. Set it in one place."
            )
    return SweepPlan(
        sweep_id=request.run_id,
        created=request.created,
        recipe_name=request.recipe.name,
        tables=tables.to_tables(request.recipe),
        overrides=request.overrides,
        variations=tuple(variations),
        arms=tuple(dict.fromkeys(_name_back_end(arm, request.recipe) for arm in arms)),
        data_dir=request.data_dir,
        allows_code=request.allows_code,
        argv=request.argv,
        **fields,
    )


def require_machine_found(arms: Iterable[Arm], *, names_machines: bool) -> None:
    """Refuses arms that name a machine where all runs are made on this one.

    Raises:
        RecipeError: Naming the first.
    """
    if named := [arm for arm in arms if arm.machine and not names_machines]:
        raise RecipeError(
            f'arm "{shorten(named[0].label)}": names a machine, and all runs are made on this one. `tfbench sweep '
            "--plan FILE` leaves its tasks to a scheduler, `--ray ADDRESS` finds it in a Ray cluster."
        )


def _name_back_end(arm: Arm, recipe: Recipe) -> Arm:
    usual, values = recipe.training.backend, dict(arm.values)
    backend = values.pop(BACKEND_KEY, usual)
    own = {} if backend == usual == "tensorflow" else {BACKEND_KEY: backend}
    return dataclasses.replace(arm, values=tuple((own | values).items()))


def own_variations(recipe: Recipe) -> list[Variation]:
    """Returns what a recipe's [sweep] varies.

    Raises:
        RecipeError: A key of it cannot be varied.
    """
    return [make_variation(key, listed, origin=f"{recipe.name}: sweep") for key, listed in recipe.sweep.items()]


def own_arm(recipe: Recipe) -> Arm:
    """Returns where a recipe is measured unless told otherwise."""
    return Arm(strategy=recipe.distribution.strategy, devices=recipe.distribution.devices)


def choose_arms(request: RunRequest, variations: Sequence[Variation]) -> list[Arm]:
    """Returns the recipe's own arm where it is not the default, otherwise what there is to compare on this machine.

    An arm that cannot be at every value is left out: a batch may not divide among several replicas.
    """
    own = own_arm(request.recipe)
    if own != Arm(strategy="default"):
        return [own]
    arms, left_out = [], []
    for arm in machine_arms(count_gpus(request.recipe.training.backend), request.recipe.training.backend):
        try:
            check_points(new_plan(request, [arm], num_rounds=1, variations=variations))
            arms.append(arm)
        except RecipeError as error:
            left_out.append(f"left out: {arm.label}: {error}")
    if not arms:
        return [own]  # what is wrong with all of them, it is told with
    for text in left_out:
        warnings.warn(text, Notice, stacklevel=2)
    return arms


def machine_arms(num_gpus: int, backend: BackendName = "tensorflow") -> tuple[Arm, ...]:
    """Returns what there is to compare on a machine: its processor with a GPU, and with all of several.

    Without a GPU it is the processor with two logical devices of it, which tells what a strategy itself costs. A back
    end without strategies has the processor and a GPU.
    """
    processor = Arm(strategy="default", devices=("cpu:0",))
    if backend != "tensorflow":
        return processor, *((Arm(strategy="default", devices=("gpu:0",)),) if num_gpus else ())
    if not num_gpus:
        return processor, Arm(strategy="mirrored", devices=("cpu:0", "cpu:1"))
    gpus = tuple(f"gpu:{index}" for index in range(num_gpus))
    every = (Arm(strategy="mirrored", devices=gpus),) if num_gpus > 1 else ()
    return processor, Arm(strategy="default", devices=gpus[:1]), *every


def read_variations(
    texts: Sequence[str], request: RunRequest, arms: Sequence[Arm], *, refines: bool, step: int | None
) -> tuple[list[Variation], int]:
    """Reads what is varied, and returns what the first key's values are multiples of.

    Args:
        texts: Each KEY=VALUES or KEY=LOW..HIGH.
        request: What a run of the recipe would be.
        arms: Among whose replicas batches are divided.
        refines: Whether values are added later.
        step: What values of a range are multiples of; None: batch sizes of the replicas, others of 1.

    Raises:
        RecipeError: A text has no values, or its key cannot be varied.
    """
    steps = [step or 1] * len(texts)
    for place, text in enumerate(texts):
        if step is None and text.partition("=")[0].strip() == BATCH_KEY and (refines or is_range(text)):
            steps[place] = find_step(arms, request.recipe.training.backend)
    varied = [parse_variation(text, request.recipe, own) for text, own in zip(texts, steps, strict=True)]
    return varied, steps[0] if steps else 1


def find_step(arms: Iterable[Arm], backend: BackendName) -> int:
    """Returns what batch sizes must be multiples of, to be divided among the replicas of each arm."""
    counts = [1]
    for arm in arms:
        if arm.strategy in ("mirrored", "multi_worker", "hybrid"):
            are_named = bool(arm.devices) and "gpu" not in arm.devices
            own = dict(arm.values).get(BACKEND_KEY, backend)
            counts.append(arm.num_devices if are_named else max(1, count_gpus(own)))
    return math.lcm(*counts)


def require_back_ends(plan: SweepPlan) -> None:
    """Refuses a plan whose arms need what is not installed, before its other arms are measured in vain.

    Raises:
        DeviceError: Naming the back ends.
    """
    setting = list_settings(plan)[0]
    backends = dict.fromkeys(resolve_recipe(plan, setting, arm).training.backend for arm in plan.arms)
    if missing := [describe_lack(backend) for backend in backends if not is_installed(backend)]:
        raise DeviceError("\n".join(missing))


def check_points(plan: SweepPlan) -> None:
    """Builds the recipe of every point, so that a value that cannot be is told before anything runs.

    So is one that names a function outside of tfbench, if that was not allowed. Of devices that are all named, it is
    told, too, whether they can be used and the batch divides among them.

    Raises:
        RecipeError: Naming every point that cannot be; what is wrong with an arm whatever the setting, once.
    """
    settings, found = list_settings(plan), dict[tuple[str, str], list[str]]()  # by arm at all points, and problem
    for setting, arm in itertools.product(settings, plan.arms):
        point = name_point(plan, setting, arm)
        for line in _find_problems(plan, setting, arm):
            is_named = line.startswith(f"{point}: ")
            place = (name_point(plan, {}, arm) if is_named else "", line.removeprefix(point) if is_named else line)
            found.setdefault(place, []).append(point if is_named else "")
    problems: list[str] = []
    for (everywhere, problem), points in found.items():
        is_of_arm = len(points) == len(settings) > 1  # whatever the setting
        problems += [f"{point}{problem}" for point in ([everywhere] if is_of_arm else dict.fromkeys(points))]
    if problems:
        raise RecipeError("\n".join(problems))


def _find_problems(plan: SweepPlan, setting: Mapping[str, Any], arm: Arm) -> list[str]:
    try:
        recipe = resolve_recipe(plan, setting, arm)
        require_code_allowed(recipe, allows_code=plan.allows_code)
        require_usable(recipe.distribution, recipe.training)
    except (RecipeError, DeviceError) as error:
        return str(error).splitlines()
    return []


def choose_kind(asked: str | None, counts: tuple[int, ...], num_gpus: int, backend: BackendName = "tensorflow") -> str:
    """Returns which devices are taken, "gpu" or "cpu": those asked for, else GPUs if the back end sees any.

    Raises:
        DeviceError: There are too few.
    """
    kind = asked or ("gpu" if num_gpus else "cpu")
    most, there = counts[-1], num_gpus if kind == "gpu" else MAX_LOGICAL_CPUS
    if most <= there:
        return kind
    if kind == "cpu":
        raise DeviceError(f"--replicas: at most {there} logical CPUs. Received: {most}.")
    found = "no GPU" if not there else "1 GPU" if there == 1 else f"{there} GPUs"
    raise DeviceError(
        f"--replicas: {BACKEND_TITLES[backend]} sees {found}. Received: {most}. `tfbench devices` says why one that is "
        "in the machine is not seen; with --devices cpu replicas are logical devices of the processor, which share its "
        "cores."
    )


def plan_scaling(
    request: RunRequest, counts: tuple[int, ...], kind: str, *, modes: Sequence[Mode] = ("data",), **options: Any
) -> SweepPlan:
    """Plans a sweep of one setting, with an arm for each number of devices and each mode of sharing the work.

    Args:
        request: What a run of the recipe would be.
        counts: Numbers of devices, from one on.
        kind: Of the devices, "gpu" or "cpu".
        modes: How several of them share the work.
        options: As of `new_plan`; with `per_replica_batch_size` scaling is weak.

    Raises:
        DeviceError: The back end has not all modes.
        RecipeError: The recipe of an arm cannot be, or its batch does not divide among the devices.
    """
    training = request.recipe.training
    for mode in modes:
        strategy = cast(StrategyName, MODE_STRATEGIES[mode])
        try:
            require_strategy(DistributionConfig(strategy=strategy), training)
        except DeviceError as error:
            raise DeviceError(f"--modes {mode}: {error}") from error
    plan = new_plan(request, replica_arms(kind, counts, modes, training.backend), **options)
    check_points(plan)
    return plan
