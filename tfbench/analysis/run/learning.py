"""What a network is expected to learn: which expectations can be met, whether a run met them, and when."""

from collections.abc import Iterator

from tfbench.analysis.run.early_stop import reaches
from tfbench.records.run import RunRequest, RunResult

_OF_LEARNING = ("model", "dataset", "training")  # the sections that what is learned hangs on
_WORSE = "Speed without learning is void: find out why the network learned less before this run is quoted."
_BETTER = (
    "That is too good: samples of the validation set among those of the training, an easier task or another network. "
    "Find out which before this run is quoted."
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
