"""How variants of a step compare: each is built and trained for its losses; then all of them take turns."""

import math
import time
from typing import Any

from tfbench import distribution
from tfbench.benchmark import Prepared, build_compiled_model, configure_keras
from tfbench.errors import RecipeError, TfbenchError
from tfbench.foreign_model import reason_of
from tfbench.journal import Journal, plain_fields
from tfbench.measure.ledger import Ledger
from tfbench.profile_records import ProfileRequest, VariantRound, VariantSetup
from tfbench.profile_variants import BASE, CONTROL, apply_variant
from tfbench.profiled_batches import ProfiledBatches
from tfbench.recipe import Recipe
from tfbench.results import RunRequest
from tfbench.schema import to_plain
from tfbench.step_calls import StepCalls
from tfbench.timed_turns import TimedTurns

_LOSS_STEPS, _LOSS_SECONDS = 60, 8.0


def compare_variants(
    request: RunRequest, profile: ProfileRequest, prepared: Prepared, journal: Journal, ledger: Ledger
) -> None:
    """Builds the step as it stands, the same again, and its variants; then all of them take turns.

    Args:
        request: The run.
        profile: What it asks for.
        prepared: What was built for it.
        journal: Receives a "profile_setup" of each variant, and "profile_variant_round" records.
        ledger: As of `run_benchmark`.
    """
    ledger.switch("first_step")
    batches = ProfiledBatches(prepared)
    recipes: dict[str, Recipe | TfbenchError] = {BASE: request.recipe, CONTROL: request.recipe}
    for variant in profile.variants:
        try:
            recipes[variant.name] = apply_variant(request.recipe, variant)
        except RecipeError as error:
            recipes[variant.name] = error
    journal.append("stage", name="building and compiling the variants")
    functions = TimedTurns()
    steps: dict[str, StepCalls] = {}
    weights: list[Any] = []
    sizes = [one.training.steps_per_execution for one in recipes.values() if isinstance(one, Recipe)]
    num_loss_steps = max(_LOSS_STEPS, math.lcm(*sizes))  # so that executions of all sizes end at the same step
    changes_model = any(isinstance(one, Recipe) and one.model != request.recipe.model for one in recipes.values())
    for name, recipe in recipes.items():
        try:
            if isinstance(recipe, TfbenchError):
                raise recipe
            model = prepared.model if name == BASE else _build(recipe, prepared, request)
            weights = weights or [weight.numpy() for weight in model.weights]
            has_same = [weight.shape for weight in model.weights] == [weight.shape for weight in weights]
            if has_same:
                model.set_weights(weights)
            step = StepCalls(model, batches, prepared.resolved.strategy)
            call, num_steps = step.keras_call(batches.iterator(prepared.resolved.strategy))
            functions.add(name, call, num_steps)
            losses = _train_losses(step, batches.iterator(prepared.resolved.strategy), num_loss_steps)
            layers = []
            if changes_model and not step.why_not_apart:
                layers = step.describe_layers(recipe.training.global_batch_size)
                functions.add(f"{name}/step", step.call("update"), is_traced=True)
            setup = VariantSetup(name=name, losses=tuple(losses), layers=tuple(layers), has_same_weights=has_same)
            steps[name] = step
        except Exception as error:  # TensorFlow raises what it likes where a variant cannot be had on a device
            if name in (BASE, CONTROL):
                raise
            functions.discard(name)
            setup = VariantSetup(name=name, refusal=_reason_of(error))
        journal.append("profile_setup", **plain_fields(setup=setup))
    ledger.switch("steady")
    journal.append("stage", name="timing the variants in turns")

    def restore() -> None:
        for step in steps.values():
            step.restore()

    for one in functions.rounds(profile.seconds, restore):
        traced = {name.removesuffix("/step"): call for name, call in one.traced.items()}
        journal.append("profile_variant_round", round=to_plain(VariantRound(seconds=one.seconds, traced=traced)))
    ledger.switch(None)


def _build(recipe: Recipe, prepared: Prepared, request: RunRequest) -> Any:
    """Builds a variant; the precision of its layers is that of the process only for as long."""
    configure_keras(recipe.training)
    try:
        distribution.require_usable(recipe.distribution, recipe.training)
        with prepared.resolved.strategy.scope():
            return build_compiled_model(
                recipe.model, recipe.training, prepared.splits.spec, allows_code=request.allows_code
            )
    finally:
        configure_keras(request.recipe.training)


def _reason_of(error: Exception) -> str:
    """Returns in one line what a variant failed of; where TensorFlow tells first where, that is the last line."""
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
    step.model.reset_metrics()
    num_steps = step.model.steps_per_execution
    losses, total, start = list[float | None](), 0.0, time.perf_counter()
    for done in range(num_steps, num_loss_steps + 1, num_steps):
        mean = float(step.model.train_function(iterator)["loss"])  # over all steps so far
        loss = (mean * done - total) / num_steps
        losses.append(loss if math.isfinite(loss) else None)
        total = mean * done
        if time.perf_counter() - start > _LOSS_SECONDS:
            break
    step.restore()
    return losses
