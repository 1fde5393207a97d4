"""The training itself: epochs with their validation, and what happens between them."""

import time
from collections.abc import Callable
from typing import Any

from tfbench import backends
from tfbench.analysis.run.early_stop import find_stop_reason
from tfbench.backends.placed import Placed
from tfbench.datasets.sources.splits import SplitName, Splits
from tfbench.models.structure.foreign_model import can_evaluate
from tfbench.recipe.sections import OutputConfig, TrainingConfig
from tfbench.records.journal import SYNC_SECONDS, Journal, files_folder
from tfbench.records.machine import InputCheck
from tfbench.records.run import EpochRecord, RunRequest
from tfbench.records.snapshots import FOLDER
from tfbench.schema import to_plain
from tfbench.worker import snapshots
from tfbench.worker.ledger import Ledger
from tfbench.worker.recorder import Validation, build_callbacks, flatten_logs
from tfbench.worker.span_clock import SpanClock

NO_VALIDATION = "the network was not validated: it comes without a loss, and without a test_step of its own."
_CHECK_SECONDS = 0.5  # of drawing from the input pipeline alone, at least: a rate that it can keep up
UNLIMITED_EPOCHS = 1_000_000_000  # a run limited by steps or seconds ends by these, not by the recipe's epochs


def train(
    request: RunRequest,
    splits: Splits,
    model: Any,
    steps_per_epoch: int,
    resolved: Placed,
    journal: Journal,
    ledger: Ledger,
    read_energy: Callable[[], None] | None = None,
) -> float | None:
    """Trains a compiled model as the request says, from the first epoch or from a snapshot on.

    Args:
        request: The run; a run limited by steps or seconds is not validated.
        splits: Its data.
        model: Compiled; with a snapshot's values already, if there is one.
        steps_per_epoch: Steps after which an epoch ends.
        resolved: Where the variables and the first step must turn out to be.
        journal: Receives "spans", "epoch", "ledger", "snapshot", "stopped" and "note" records.
        ledger: Told of what takes the time.
        read_energy: Called as the steady part begins.

    Returns:
        Steps per second after the warm-up; None if there were none.
    """
    from tfbench.worker.state_reset import build_state_reset

    backend = backends.current()
    training, measurement = request.recipe.training, request.recipe.measurement
    done = request.resume.epochs if request.resume else ()
    is_validated, is_resident = not measurement.is_limited and can_evaluate(model), training.data_on_device
    if not measurement.is_limited and not is_validated:
        journal.append("note", text=NO_VALIDATION)
    between = _BetweenEpochs(request, model, journal, ledger)
    with ledger.entry("callbacks"), backend.watch() as watch:
        synchronize = backend.synchronize
        clock = SpanClock(
            measurement,
            synchronize=synchronize,
            on_span=journal.append_span,
            ledger=ledger,
            ask_first=_ask_first if resolved.placement.num_workers > 1 else None,
        )
        callbacks = build_callbacks(
            clock,
            ledger=ledger,
            model=model,
            steps_per_epoch=steps_per_epoch,
            global_batch_size=training.global_batch_size,
            warmup_steps=measurement.warmup_steps,
            batches_ahead=0 if is_resident else backend.count_ahead(splits, training.global_batch_size),
            cuts_last_execution=is_resident,
            validation=_validation(training, splits, resolved) if is_validated else None,
            on_epoch=between.on_epoch,
            on_first_step=lambda: watch.verify(resolved, model),
            evaluate_training=(
                (lambda: evaluate(request, model, splits, "train"))
                if training.evaluates_training and is_validated
                else None
            ),
            read_energy=read_energy,
            elapsed_before=done[-1].elapsed_seconds if done else 0.0,
            others=[build_state_reset(request.recipe.model)],
            on_note=lambda text: journal.append("note", text=text),
        )
        with ledger.entry("data"):
            first_step = request.resume.num_steps if request.resume else 0
            if is_resident:
                batches = backend.build_resident_training(
                    model, splits, training, resolved, steps_per_epoch=steps_per_epoch, first_step=first_step
                )
            else:
                batches = backend.build_training_dataset(
                    splits,
                    global_batch_size=training.global_batch_size,
                    seed=training.seed,
                    first_step=first_step,
                    part=request.part,
                )
            validation_data = build_evaluation_dataset(request, splits, "validation") if is_validated else None
        model.fit(
            batches,
            initial_epoch=len(done),
            epochs=UNLIMITED_EPOCHS if measurement.is_limited else training.epochs,
            steps_per_epoch=steps_per_epoch,
            callbacks=callbacks,
            shuffle=False,
            verbose=0,
            validation_data=validation_data,
        )
    return clock.steady_steps_per_second


def _ask_first(figure: float) -> float:
    """Returns the figure that the first of several workers has; each has to ask at the same time."""
    return backends.current().gather_figures([figure])[0][0]


def check_input(request: RunRequest, splits: Splits) -> InputCheck:
    """Draws batches from the training's input pipeline, with nothing trained beside it.

    As training draws them, in compiled code. The batches that the pipeline has ready from the start, or in the making,
    are left out.

    Args:
        request: The run.
        splits: Its data.
    """
    training = request.recipe.training
    backend = backends.current()
    draw = backend.compile_draws(
        backend.build_training_dataset(
            splits, global_batch_size=training.global_batch_size, seed=training.seed, part=request.part
        )
    )
    draw(1)  # compiles
    draw(sum(backend.most_ahead()))
    num_batches, count, start = 0, 1, time.perf_counter()
    while True:
        draw(count)
        num_batches += count
        seconds = time.perf_counter() - start
        if seconds >= _CHECK_SECONDS:
            return InputCheck(num_batches=num_batches, seconds=seconds)
        count = max(1, min(num_batches, int(num_batches * (_CHECK_SECONDS / seconds - 1)) + 1))


def build_evaluation_dataset(request: RunRequest, splits: Splits, split: SplitName) -> Any:
    """Builds the batches of a split that a model is judged by."""
    return backends.current().build_validation_dataset(
        splits, batch_size=_evaluation_batch_size(request.recipe.training), split=split, part=request.part
    )


def evaluate(request: RunRequest, model: Any, splits: Splits, split: SplitName) -> dict[str, float]:
    """Returns loss and metrics of a whole split in inference mode."""
    from tfbench.worker.state_reset import StateReset

    dataset = build_evaluation_dataset(request, splits, split)
    return flatten_logs(model.evaluate(dataset, verbose=0, return_dict=True, callbacks=[StateReset()]))


class _BetweenEpochs:
    """What happens once an epoch is validated: its record, a snapshot when one is due, perhaps an early stop."""

    def __init__(self, request: RunRequest, model: Any, journal: Journal, ledger: Ledger) -> None:
        self._training: TrainingConfig = request.recipe.training
        self._output: OutputConfig = request.recipe.output
        self._is_limited = request.recipe.measurement.is_limited  # ends by its limit alone, maybe within an epoch
        self._model = model
        self._journal = journal
        self._ledger = ledger
        self._is_first = request.member is None or request.member.index == 0  # of the workers, the one that writes
        self._epochs = list(request.resume.epochs) if request.resume else []

    def on_epoch(self, record: EpochRecord) -> bool:
        """Takes in an epoch; says whether to stop."""
        self._epochs.append(record)
        self._journal.append("epoch", epoch=to_plain(record))
        self._journal.append("ledger", ledger=to_plain(self._ledger.record()))
        self._journal.sync(every_seconds=SYNC_SECONDS)
        if self._is_limited:
            return False
        every = self._output.snapshot_every_epochs
        if self._is_first and every and record.epoch % every == 0:
            self._write_snapshot(record.epoch)
        reason = find_stop_reason(self._training, self._epochs)
        if reason and record.epoch < self._training.epochs:
            self._journal.append("stopped", reason=reason)
        return reason is not None

    def _write_snapshot(self, epoch: int) -> None:
        folder = files_folder(self._journal.path) / FOLDER
        variables = backends.current().training_variables(self._model)
        try:
            self._journal.sync()  # so that a snapshot is never ahead of its journal
            snapshots.write_snapshot(folder, epoch=epoch, variables=variables, kept=self._output.snapshots_kept)
        except OSError as error:
            self._journal.append("note", text=f"no snapshot of epoch {epoch}: {folder}: {error.strerror}.")
        else:
            self._journal.append("snapshot", epoch=epoch)


def _validation(training: TrainingConfig, splits: Splits, resolved: Placed) -> Validation:
    return Validation(
        splits.validation.num_samples,
        _evaluation_batch_size(training),
        is_whole=resolved.placement.num_replicas == 1 and training.steps_per_execution == 1,
    )


def _evaluation_batch_size(training: TrainingConfig) -> int:
    return training.validation_batch_size or training.global_batch_size
