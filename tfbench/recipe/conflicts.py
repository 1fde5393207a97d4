"""What is wrong between sections of a recipe that are each right by themselves."""

from tfbench.recipe import registry
from tfbench.recipe.backend_support import find_lacking
from tfbench.recipe.dataset_spec import DatasetSpec
from tfbench.recipe.sections import REGRESSION_LOSSES, Recipe, TrainingConfig
from tfbench.wording import shorten

_NO_SYNTHETIC = (
    "dataset.data: cannot be synthetic, since only loading {} tells its shapes and sizes."
    " Received: 'synthetic'. Use --data real."
)

LABELS_HINT = (
    "If targets are labels, make them integers: y.argmax(axis=1) of one-hot ones,"
    " y.astype('int64')."
)
_NO_MIRRORED_LOOP = (
    "training.data_on_device: cannot be true with distribution.strategy = {}, on one device either:"
    " TensorFlow does not add gradients up in a loop of steps on the devices (merge_call), and"
    " samples would lie whole on every one. Set it to false, or use --strategy default or"
    " --strategy one_device."
)


def find_conflicts(recipe: Recipe) -> list[str]:
    """Returns what is wrong between sections that are each right by themselves."""
    training = recipe.training
    dataset = recipe.dataset
    strategy = recipe.distribution.strategy
    problems = []
    if training.data_on_device and training.backend != "tensorflow":
        problems.append(
            "training.data_on_device: must be false on backend "
            f"{training.backend}. Set it to false, or use --backend tensorflow."
        )
    elif training.data_on_device and strategy not in ("default", "one_device"):
        problems.append(_NO_MIRRORED_LOOP.format(strategy))
    problems += _find_unused_pipeline(training)
    if registry.is_code(dataset.name):
        if dataset.data == "synthetic":
            problems.append(_NO_SYNTHETIC.format(shorten(dataset.name)))
        return problems
    module = registry.load("datasets", dataset.name)
    spec = module.describe(module.Config(**dataset.options))
    problems += find_misfits(spec, dataset.name, training)
    may_come_compiled = registry.is_code(recipe.model.name) or recipe.model.name == "keras_file"
    unfit_loss = find_unfit_loss(spec, training, dataset.name)
    if unfit_loss and not may_come_compiled:
        problems.append(unfit_loss)
    stateful = bool(recipe.model.options.get("stateful"))
    problems += find_lacking(training.backend, carries_state=stateful)
    if stateful and not recipe.measurement.is_limited:
        problems += _find_short_batches(spec, dataset.name, training)
    return problems


def _find_unused_pipeline(training: TrainingConfig) -> list[str]:
    """Returns which keys of tfbench's pipeline would change nothing."""
    problems = []
    if training.parallel_batches is not None and training.backend != "tensorflow":
        problems.append(
            "training.parallel_batches: a single thread makes batches on backend"
            f" {training.backend}. Leave it out."
        )
    if training.changes_pipeline and (training.feed == "fit" or training.data_on_device):
        instead = "data_on_device=false"
        if training.feed == "fit":
            instead = "feed=pipeline"
        problems.append(
            "training.prefetched_batches, training.parallel_batches: tfbench's pipeline is not"
            f" used. Use --set training.{instead}, or leave both out."
        )
    return problems


def find_misfits(spec: DatasetSpec, name: str, training: TrainingConfig) -> list[str]:
    """Returns why a data set, of this name, cannot be trained with like this."""
    problems = []
    if training.global_batch_size > spec.train_samples:
        problems.append(
            f"training.global_batch_size: must be at most {spec.train_samples}, the training"
            f" samples of {name}. Received: {training.global_batch_size}."
        )
    if spec.num_rows not in (None, training.global_batch_size):
        problems.append(
            f"training.global_batch_size: must be {spec.num_rows}, the dataset.num_rows that go on"
            f" from batch to batch. Received: {training.global_batch_size}. Use --set"
            f" dataset.num_rows={training.global_batch_size}."
        )
    return problems


def find_unfit_loss(spec: DatasetSpec, training: TrainingConfig, name: str = "") -> str:
    """Returns why a network cannot be trained with the recipe's loss, or "".

    This is for networks that bring no loss of their own.
    """
    losses: tuple[str, ...] = ("sparse_categorical_crossentropy",)
    classes = f"{spec.num_classes} classes"
    if spec.num_classes is None:
        losses = REGRESSION_LOSSES
        classes = "no classes"
    if training.loss in losses:
        return ""
    data = f"data set {name}" if name else "data"
    hint = ""
    if not name and not spec.num_classes:  # the data may be anyone's
        hint = f" {LABELS_HINT}"
    return (
        f"training.loss: must be {' or '.join(losses)}, since the {data} has {classes}."
        f" Received: {training.loss}.{hint}"
    )


def _find_short_batches(spec: DatasetSpec, name: str, training: TrainingConfig) -> list[str]:
    """Returns why evaluations have batches unfit for a stateful model, built for one batch size."""
    batch_size = training.global_batch_size
    problems = []
    if training.validation_batch_size not in (None, batch_size):
        problems.append(
            f"training.validation_batch_size: must be the global_batch_size, {batch_size}, since a"
            " stateful model is built for one size of batch. Received:"
            f" {training.validation_batch_size}. Leave it out."
        )
    counts = [spec.validation_samples, spec.test_samples]
    if training.evaluates_training:
        counts.append(spec.train_samples)
    if any(count % batch_size for count in counts):
        evaluated = " and ".join(f"{count:,}" for count in counts if count)
        problems.append(
            f"training.global_batch_size: must divide the {evaluated} samples of {name} that are"
            " evaluated, since a stateful model is built for one size of batch. Received:"
            f" {batch_size}. Choose another, or use --set model.stateful=false."
        )
    return problems
