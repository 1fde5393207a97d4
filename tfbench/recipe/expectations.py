"""What a recipe expects a network to learn: which expectations can be met at all."""

import dataclasses
from collections.abc import Collection
from typing import Any

from tfbench.recipe.sections import REGRESSION_LOSSES, ExpectConfig, TrainingConfig


def find_unreachable(expect: ExpectConfig, training: TrainingConfig) -> list[str]:
    """Returns what of a recipe's expectations no run of it could ever be held against, and why."""
    problems = []
    for key in ("val_accuracy_at_epoch", "target_accuracy", "val_loss_at_epoch"):
        value = getattr(expect, key)
        if value and "accuracy" in key and training.loss in REGRESSION_LOSSES:
            problems.append(
                f'expect.{key}: cannot be met, since there is no accuracy with training.loss = "{training.loss}". '
                "Leave it out, or expect a val_loss_at_epoch."
            )
        problems += [
            f"expect.{key}.{epoch}: must be of an epoch that is trained, {training.epochs} at most (training.epochs). "
            f"Received: {epoch}."
            for epoch in (value if isinstance(value, dict) else ())
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
    changes: dict[str, Any] = {}
    if "training.epochs" in overridden:
        for key in ("val_accuracy_at_epoch", "val_loss_at_epoch"):
            bands = getattr(expect, key).items()
            changes[key] = {epoch: band for epoch, band in bands if int(epoch) <= training.epochs}
    if "training.loss" in overridden and training.loss in REGRESSION_LOSSES:
        changes |= {"val_accuracy_at_epoch": {}, "target_accuracy": None}
    return dataclasses.replace(expect, **changes)
