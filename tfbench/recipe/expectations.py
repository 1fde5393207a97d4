"""What a recipe expects a network to learn: which expectations can be met at all."""

import dataclasses
from collections.abc import Collection

from tfbench.recipe.sections import REGRESSION_LOSSES, ExpectConfig, TrainingConfig

_EPOCHS, _LOSS = "training.epochs", "training.loss"


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
