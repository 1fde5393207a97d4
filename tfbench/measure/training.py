"""The training itself: epochs with their validation, and what happens between them."""

import dataclasses
import functools
from typing import Any

from tfbench import backends
from tfbench.backends.profiling import Call
from tfbench.datasets.sources.splits import SplitName
from tfbench.measure import checkpoints
from tfbench.measure.compiled_model import count_values
from tfbench.measure.prepared import Prepared
from tfbench.measure.recorder import (
    CarriedState,
    FitReadings,
    Validation,
    build_callbacks,
    flatten_logs,
)
from tfbench.measure.span_clock import SpanClock
from tfbench.models.structure.foreign_model import can_evaluate
from tfbench.runs.early_stop import find_stop_reason
from tfbench.runs.record import EpochRecord
from tfbench.store.journal import SYNC_SECONDS, files_folder
from tfbench.store.run_folder import CHECKPOINTS

NO_VALIDATION = (
    "the network was not validated: it comes without a loss, and without a test_step of its own."
)
NO_VALIDATION_DATA = "the network was not validated: the data has no validation samples."
# a run limited by steps or seconds ends by these, not by the recipe's epochs
UNLIMITED_EPOCHS = 1_000_000_000


def train(prepared: Prepared, read_energy: Call | None = None) -> float | None:
    """Trains a compiled model as the request says, from the first epoch or from a checkpoint on.

    A run limited by steps or seconds is not validated. The journal receives "spans", "epoch",
    "breakdown", "checkpoint", "stopped" and "note" records.

    Args:
        prepared: The model, with a checkpoint's values already, if there is one.
        read_energy: Called as the steady part begins.

    Returns:
        Steps per second after the warm-up; None if there were none.
    """
    backend = backends.current()
    model = prepared.model
    training = prepared.training
    recipe = prepared.request.recipe
    placement = prepared.resolved.placement
    breakdown = prepared.breakdown
    pipeline = prepared.splits.pipeline
    is_limited = recipe.measurement.is_limited
    has_samples = prepared.splits.validation.num_samples > 0
    is_validated = not is_limited and has_samples and can_evaluate(model)
    if not is_limited and not is_validated:
        prepared.note(NO_VALIDATION if has_samples else NO_VALIDATION_DATA)
    resume = prepared.request.resume
    done = resume.epochs if resume else ()
    with breakdown.entry("callbacks"), backend.watch() as watch:
        clock = SpanClock(
            recipe.measurement,
            synchronize=backend.synchronize,
            on_span=prepared.journal.append_span,
            breakdown=breakdown,
            ask_first=_ask_first if placement.num_workers > 1 else None,
            epoch_steps=prepared.steps_per_epoch if prepared.splits.pipeline else None,
        )
        readings = FitReadings(
            clock=clock,
            model=model,
            steps_per_epoch=prepared.steps_per_epoch,
            batch_sizes=prepared.batch_sizes,
            on_epoch=functools.partial(end_epoch, prepared, list(done)),
            on_first_step=functools.partial(_end_first_step, prepared, watch),
            is_of_bytes=recipe.dataset.name == "text",
            resets_state=recipe.model.options.get("reset_state") == "epoch",
            read_energy=read_energy,
        )
        if done:
            readings.elapsed_before = done[-1].elapsed_seconds
        if is_validated:
            readings.validation = Validation(
                prepared.splits.validation.num_samples,
                prepared.evaluation_batch_size,
                is_whole=(
                    placement.num_replicas == 1
                    and training.steps_per_execution == 1
                    and not pipeline
                ),
            )
            if training.evaluates_training:
                readings.evaluate_training = functools.partial(evaluate, prepared, "train")
        if pipeline or training.data_on_device:
            # How many batches are ahead is not known of the one, and nothing of the other.
            readings.cuts_last_execution = True
        else:
            readings.batches_ahead = backend.count_ahead(prepared.splits, training)
        with breakdown.entry("data"):
            arguments = _arguments_of_fit(prepared, is_validated=is_validated)
        readings.begin_training()
        model.fit(
            initial_epoch=len(done),
            epochs=UNLIMITED_EPOCHS if is_limited else training.epochs,
            callbacks=build_callbacks(readings),
            verbose=0,
            **arguments,
        )
    return clock.steady_steps_per_second


def _end_first_step(prepared: Prepared, watch: Any) -> None:
    """Looks where the first step ran, and counts the weights that it made."""
    model = prepared.model
    watch.verify(prepared.resolved, model)
    if not prepared.summary.is_built:
        built = dataclasses.replace(
            prepared.summary,
            num_parameters=count_values(model.weights),
            num_trainable_parameters=count_values(model.trainable_variables),
            is_built=True,
        )
        prepared.record("built", model=built)


def _arguments_of_fit(prepared: Prepared, *, is_validated: bool) -> dict[str, Any]:
    """Returns the arguments of `fit` that say what to train and validate with."""
    pipeline = prepared.splits.pipeline
    if not pipeline:
        return {
            "x": _build_batches(prepared),
            "validation_data": prepared.build_evaluation_batches() if is_validated else None,
            "steps_per_epoch": prepared.steps_per_epoch,
            "shuffle": False,
        }
    # It says itself when an epoch is over, if no argument does.
    arguments = {"x": pipeline.training, **pipeline.arguments}
    if not is_validated:
        arguments.pop("validation_steps", None)
        return arguments
    arguments["validation_data"] = pipeline.validation
    if isinstance(pipeline.validation, tuple):
        # Beside batches of the user's, `fit` chooses the size if nobody else does.
        size = prepared.training.validation_batch_size
        if not pipeline.is_users:
            size = prepared.evaluation_batch_size
        arguments["validation_batch_size"] = size
    return arguments


def _build_batches(prepared: Prepared) -> Any:
    """Builds the batches that `fit` trains with, on the device or on the host."""
    if not prepared.training.data_on_device:
        return prepared.build_batches(prepared.first_step)
    return backends.current().build_resident_training(
        prepared.model,
        prepared.splits,
        prepared.training,
        prepared.resolved,
        steps_per_epoch=prepared.steps_per_epoch,
        first_step=prepared.first_step,
    )


def _ask_first(figure: float) -> float:
    """Returns the figure of the first of several workers, which all ask at the same time."""
    rows = backends.current().gather_figures([figure])
    return rows[0][0]


def evaluate(prepared: Prepared, split: SplitName) -> dict[str, float]:
    """Returns loss and metrics of a whole split in inference mode."""
    dataset = prepared.build_evaluation_batches(split)
    state = CarriedState(prepared.model)
    state.set_aside()
    logs = prepared.model.evaluate(dataset, verbose=0, return_dict=True)
    state.put_back()
    return flatten_logs(logs)


def end_epoch(prepared: Prepared, epochs: list[EpochRecord], record: EpochRecord) -> bool:
    """Keeps an epoch that is validated, and a checkpoint when one is due; says whether to stop.

    Args:
        prepared: Of the training.
        epochs: The epochs before; this one is added to them.
        record: Of the epoch.
    """
    recipe = prepared.request.recipe
    epochs.append(record)
    prepared.record("epoch", epoch=record)
    prepared.record("breakdown", breakdown=prepared.breakdown.record())
    prepared.journal.sync(every_seconds=SYNC_SECONDS)
    if prepared.splits.pipeline and record.num_steps == 0:
        prepared.note("the training ended early: the batches of its data ran out.")
        return True
    if recipe.measurement.is_limited:  # ends by its limit alone, maybe within an epoch
        return False
    every = recipe.output.checkpoint_every_epochs
    if prepared.is_first and every and record.epoch % every == 0:
        _write_checkpoint(prepared, record.epoch)
    reason = find_stop_reason(recipe.training, epochs)
    if reason and record.epoch < recipe.training.epochs:
        prepared.journal.append("stopped", reason=reason)
    return reason is not None


def _write_checkpoint(prepared: Prepared, epoch: int) -> None:
    journal = prepared.journal
    kept = prepared.request.recipe.output.checkpoints_kept
    folder = files_folder(journal.path) / CHECKPOINTS
    variables = backends.current().training_variables(prepared.model)
    try:
        journal.sync()  # so that a checkpoint is never ahead of its journal
        checkpoints.write_checkpoint(folder, epoch=epoch, variables=variables, kept=kept)
    except OSError as error:
        prepared.note(f"no checkpoint of epoch {epoch}: {folder}: {error.strerror}.")
    else:
        journal.append("checkpoint", epoch=epoch)
