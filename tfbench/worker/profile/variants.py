"""How variants of a step compare: all are built several times over, and those of a build take turns."""

import gc
import math
import time
from typing import Any

from tfbench import backends
from tfbench.backends.profiling import Call, StepCalls
from tfbench.errors import RecipeError, TfbenchError
from tfbench.models.structure.foreign_model import reason_of
from tfbench.recipe import devices
from tfbench.recipe.sections import Recipe
from tfbench.records.journal import Journal, plain_fields
from tfbench.records.profile import ProfiledLayer, ProfileRequest, VariantRound, VariantSetup
from tfbench.records.run import RunRequest
from tfbench.records.variants import BASE, apply_variant
from tfbench.schema import to_plain
from tfbench.worker.benchmark import Prepared
from tfbench.worker.compiled_model import build_compiled_model
from tfbench.worker.ledger import Ledger
from tfbench.worker.name_counts import names_from
from tfbench.worker.process_settings import configure_keras
from tfbench.worker.profile.batches import build_batches
from tfbench.worker.profile.turns import TimedTurns

_LOSS_STEPS, _LOSS_SECONDS = 60, 8.0
_STEP = "/step"  # what the name of a step that is traced, too, ends with
_MIN_ROUNDS = 2  # of a build, which is one figure of the sample however many rounds it has: one each way


def compare_variants(
    request: RunRequest, profile: ProfileRequest, prepared: Prepared, journal: Journal, ledger: Ledger
) -> None:
    """Builds the step as it stands and its variants, which take turns; then all of them again, and so on.

    One build after another is held in memory. Every second one goes through the variants backwards.

    Args:
        request: The run.
        profile: What it asks for.
        prepared: What was built for it.
        journal: Receives a "profile_setup" of each variant and build, and "profile_variant_round" records.
        ledger: As of `run_benchmark`.
    """
    builder = _Builder(request, profile, prepared, journal)
    for number in range(1, profile.builds + 1):
        which = f", build {number} of {profile.builds}"
        ledger.switch("first_step")
        journal.append("stage", name=f"building and compiling the variants{which}")
        functions, restore = builder.build_all(number)
        ledger.switch("steady")
        journal.append("stage", name=f"timing the variants in turns{which}")
        for one in functions.rounds(profile.seconds / profile.builds, restore, min_rounds=_MIN_ROUNDS):
            traced = {name.removesuffix(_STEP): call for name, call in one.traced.items()}
            record = VariantRound(build=number, seconds=one.seconds, traced=traced)
            journal.append("profile_variant_round", round=to_plain(record))
        del functions, restore
        gc.collect()  # Keras's models are in cycles; the next build needs their memory
    ledger.switch(None)


class _Builder:
    """Builds the step without changes and its variants, all from the same weights and on the same batches."""

    def __init__(self, request: RunRequest, profile: ProfileRequest, prepared: Prepared, journal: Journal) -> None:
        self._request, self._prepared, self._journal = request, prepared, journal
        self._batches = build_batches(prepared)
        self._recipes: dict[str, Recipe | TfbenchError] = {BASE: request.recipe}
        for variant in profile.variants:
            try:
                self._recipes[variant.name] = apply_variant(request.recipe, variant)
            except RecipeError as error:
                self._recipes[variant.name] = error
        known = [one for one in self._recipes.values() if isinstance(one, Recipe)]
        # So that executions of all sizes end at the same step.
        self._num_loss_steps = max(_LOSS_STEPS, math.lcm(*(one.training.steps_per_execution for one in known)))
        self._changes_model = any(one.model != request.recipe.model for one in known)
        self._weights: list[Any] = []

    def build_all(self, number: int) -> tuple[TimedTurns, Call]:
        """Builds whatever has not been refused yet.

        Args:
            number: Of the build, from 1.

        Returns:
            The steps, ready to be timed in turns, and what gives all of them the weights of the beginning.
        """
        functions, steps = TimedTurns(), list[StepCalls]()
        names = list(self._recipes) if number % 2 else list(reversed(self._recipes))
        for name in names:
            try:
                setup = self._build_one(name, number, functions, steps)
            except Exception as error:  # a framework raises what it likes where a variant cannot be had on a device
                if name == BASE:
                    raise
                functions.discard(name)
                del self._recipes[name]
                setup = VariantSetup(name=name, build=number, refusal=_reason_of(error))
            self._journal.append("profile_setup", **plain_fields(setup=setup))

        def restore() -> None:
            for step in steps:
                step.restore()

        return functions, restore

    def _build_one(self, name: str, number: int, functions: TimedTurns, steps: list[StepCalls]) -> VariantSetup:
        recipe, prepared = self._recipes[name], self._prepared
        if isinstance(recipe, TfbenchError):
            raise recipe
        is_given = name == BASE and number == 1
        model = prepared.model if is_given else _build(recipe, prepared, self._request)
        self._weights = self._weights or list(map(backends.current().variables.to_numpy, model.weights))
        has_same = [weight.shape for weight in model.weights] == [weight.shape for weight in self._weights]
        if has_same:
            model.set_weights(self._weights)
        step = backends.current().profiling.build_step(model, self._batches, prepared.resolved)
        functions.add(name, *step.keras_call(self._batches.iterator()))
        losses, layers = list[float | None](), list[ProfiledLayer]()
        if number == 1 or (name == BASE and number == 2):  # the latter: whether the step repeats its own loss
            losses = _train_losses(step, self._batches.iterator(), self._num_loss_steps)
        if self._changes_model and (layers := step.describe_layers(recipe.training.global_batch_size)):
            functions.add(f"{name}{_STEP}", step.call("update"), is_traced=True)
        steps.append(step)
        return VariantSetup(
            name=name,
            build=number,
            losses=tuple(losses),
            layers=tuple(layers) if number == 1 else (),
            has_same_weights=has_same,
        )


def _build(recipe: Recipe, prepared: Prepared, request: RunRequest) -> Any:
    """Builds a variant, with the names of the first build; its precision is that of the process only for as long."""
    configure_keras(recipe.training)
    try:
        devices.require_usable(recipe.distribution, recipe.training)
        with prepared.resolved.scope(), names_from(prepared.name_counts):
            return build_compiled_model(
                recipe.model,
                recipe.training,
                prepared.splits.spec,
                allows_code=request.allows_code,
                splits=prepared.splits,
            )
    finally:
        configure_keras(request.recipe.training)


def _reason_of(error: Exception) -> str:
    """Returns in one line what a variant failed of; where a framework tells first where, that is the last line."""
    lines = [line.strip() for line in str(error).splitlines()]
    told = [line for line in lines if line and not line.startswith("[[")] or [type(error).__name__]
    if told[0] in ("in user code:", "Graph execution error:"):
        return told[-1].partition(" [Op:")[0]
    return reason_of(error) or told[0]


def _train_losses(step: StepCalls, iterator: Any, num_loss_steps: int) -> list[float | None]:
    """Trains from the weights of the beginning, and back to them; returns the mean loss of each execution's steps.

    Args:
        step: The step.
        iterator: Of its batches.
        num_loss_steps: To train for, unless that takes too long.
    """
    step.restore()
    num_steps = step.model.steps_per_execution
    losses, total, start = list[float | None](), 0.0, time.perf_counter()
    for done in range(num_steps, num_loss_steps + 1, num_steps):
        mean = step.train(iterator)  # over all steps so far
        loss = (mean * done - total) / num_steps
        losses.append(loss if math.isfinite(loss) else None)
        total = mean * done
        if time.perf_counter() - start > _LOSS_SECONDS:
            break
    step.restore()
    return losses
