"""What a network is expected to learn: which expectations can be met, whether a run met them, and when."""

import dataclasses
from collections.abc import Collection, Iterator

from tfbench.measure.early_stop import reaches
from tfbench.recipe import REGRESSION_LOSSES, ExpectConfig, TrainingConfig
from tfbench.results import RunRequest, RunResult

_EPOCHS, _LOSS = "training.epochs", "training.loss"
_OF_LEARNING = ("model", "dataset", "training")  # the sections that what is learned hangs on
_WORSE = "Speed without learning is void: find out why the network learned less before this run is quoted."
_BETTER = (
    "That is too good: samples of the validation set among those of the training, an easier task or another network. "
    "Find out which before this run is quoted."
)


def find_unreachable(expect: ExpectConfig, training: TrainingConfig) -> list[str]:
    """Returns what of a recipe's expectations no run of it could ever be held against, and why."""
    problems = []
    if training.loss in REGRESSION_LOSSES:
        accuracies = {"val_accuracy_at_epoch": expect.val_accuracy_at_epoch, "target_accuracy": expect.target_accuracy}
        problems += [
            f'expect.{key}: cannot be met, since there is no accuracy with training.loss = "{training.loss}". '
            "Leave it out, or expect a val_loss_at_epoch."
            for key, value in accuracies.items()
            if value
        ]
    for key in ("val_accuracy_at_epoch", "val_loss_at_epoch"):
        problems += [
            f"expect.{key}.{epoch}: must be of an epoch that is trained, {training.epochs} at most (training.epochs). "
            f"Received: {epoch}."
            for epoch in getattr(expect, key)
            if int(epoch) > training.epochs
        ]
    return problems


def drop_unreachable(expect: ExpectConfig, training: TrainingConfig, overridden: Collection[str]) -> ExpectConfig:
    """Returns the expectations without those that other values made unreachable: fewer epochs, another loss.

    Args:
        expect: What the recipe expects.
        training: As it is to be.
        overridden: Dotted keys that the command line set, or a sweep varies.
    """
    accuracies, losses, target = expect.val_accuracy_at_epoch, expect.val_loss_at_epoch, expect.target_accuracy
    if _LOSS in overridden and training.loss in REGRESSION_LOSSES:
        accuracies, target = {}, None
    if _EPOCHS in overridden:
        accuracies = {epoch: band for epoch, band in accuracies.items() if int(epoch) <= training.epochs}
        losses = {epoch: band for epoch, band in losses.items() if int(epoch) <= training.epochs}
    return dataclasses.replace(
        expect, val_accuracy_at_epoch=accuracies, val_loss_at_epoch=losses, target_accuracy=target
    )


def time_to_accuracy_seconds(result: RunResult) -> float | None:
    """Returns the seconds from the start of training to the end of the first epoch on target, validation included.

    None: the recipe has no expect.target_accuracy, no epoch reached it, or the data is synthetic. A run that goes on
    from a snapshot counts the time of the runs before, as `elapsed_seconds` does.
    """
    target = result.request.recipe.expect.target_accuracy
    if target is None or result.is_synthetic:
        return None
    on_target = (record.elapsed_seconds for record in result.epochs if reaches(record.val_accuracy, target))
    return next(on_target, None)


def check_learning(result: RunResult) -> Iterator[str]:
    """Yields a text for each epoch whose validation is outside of what the recipe expects of it.

    Nothing is said of synthetic data, of a limited run, which is not validated, and of epochs that were not reached.
    """
    recipe = result.request.recipe
    if result.is_synthetic or recipe.measurement.is_limited:
        return
    records = {str(record.epoch): record for record in result.epochs}
    for name, bands, is_better_high in (
        ("val_accuracy", recipe.expect.val_accuracy_at_epoch, True),
        ("val_loss", recipe.expect.val_loss_at_epoch, False),
    ):
        for epoch in sorted(bands.keys() & records.keys(), key=int):
            value: float | None = getattr(records[epoch], name)
            low, high = bands[epoch]
            expected = f"{low:g} to {high:g} expected{_describe_differences(result.request)}"
            if value is None:
                yield f"{name} was not finite at epoch {epoch}, with {expected}. {_WORSE}"
            elif not (reaches(value, low) and reaches(high, value)):
                remark = _BETTER if (value > high) == is_better_high else _WORSE
                yield f"{name} was {value:.4g} at epoch {epoch}, with {expected}. {remark}"


def _describe_differences(request: RunRequest) -> str:
    changed = [key for key in request.overrides if key.partition(".")[0] in _OF_LEARNING]
    return f" of the recipe, from which this run differs in {', '.join(changed)}" if changed else ""
