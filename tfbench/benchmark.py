"""The measured job, from devices to the last epoch, in the order in which it happens."""

import math
import resource
from collections.abc import Callable
from typing import Any

from tfbench import distribution, environment, input_pipeline, registry, synthetic
from tfbench.errors import DatasetError, DeviceError
from tfbench.journal import Journal, plain_fields
from tfbench.measure.recorder import SpanClock, build_callbacks
from tfbench.recipe import DatasetConfig, ModelConfig, Recipe, TrainingConfig
from tfbench.results import DatasetSpec, DatasetSummary, ModelSummary, RunRequest
from tfbench.schema import to_plain
from tfbench.splits import Splits

UNLIMITED_EPOCHS = 1_000_000_000  # a run limited by steps or seconds ends by these, not by the recipe's epochs


SHARED_MACHINE = (
    "another tfbench run was measuring on this machine at the same time: times may be too long. Measure one at a time."
)


def run_benchmark(request: RunRequest, journal: Journal, wait_for_start: Callable[[], None]) -> None:
    """Trains as the request says, and writes what happens to the journal.

    Args:
        request: The run.
        journal: Receives "stage", "ready", "started", "spans", "epoch", "note" and "finished" records.
        wait_for_start: Called when devices, data and model are ready; returns when the measurement may begin.

    Raises:
        TfbenchError: Before "ready": the run was refused, nothing was measured. After it: the measurement is not valid.
    """
    recipe = request.recipe
    training = recipe.training
    distribution.require_possible(recipe.distribution, training)

    journal.append("stage", name="starting TensorFlow")
    _set_process_wide(training)
    resolved = distribution.resolve(recipe.distribution, training)

    journal.append("stage", name="loading data")
    splits = load_data(recipe.dataset, request.data_dir, seed=training.seed)

    journal.append("stage", name="building the model")
    with resolved.strategy.scope():
        model = build_compiled_model(recipe.model, training, splits.spec)
    steps_per_epoch = input_pipeline.count_steps_per_epoch(splits.train.num_samples, training.global_batch_size)
    shares_machine = environment.count_other_workers() > 0
    journal.append(
        "ready",
        steps_per_epoch=steps_per_epoch,
        **plain_fields(
            placement=resolved.placement,
            settings=environment.read_settings(model, training),
            environment=environment.collect_environment(),
            dataset=_summarize_data(recipe.dataset, splits),
            model=_summarize_model(model),
        ),
    )
    wait_for_start()

    journal.append("started")
    _train(recipe, splits, model, steps_per_epoch, resolved, journal)
    if shares_machine or environment.count_other_workers():
        journal.append("note", text=SHARED_MACHINE)
    journal.append("finished", peak_memory_bytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)


def load_data(config: DatasetConfig, data_dir: str | None, *, seed: int) -> Splits:
    """Loads the real data set, or makes its synthetic stand-in."""
    module = registry.load("datasets", config.name)
    options = module.Config(**config.options)
    if config.data == "synthetic":
        return synthetic.generate_splits(module.describe(options), seed=seed)
    splits = module.load_splits(options, data_dir)
    if not isinstance(splits, Splits):
        raise DatasetError(
            f"data set {config.name}: load_splits must return Splits. Received: {type(splits).__name__}."
        )
    return splits


def build_compiled_model(config: ModelConfig, training: TrainingConfig, spec: DatasetSpec) -> Any:
    """Builds and compiles the model; to be called in the strategy's scope.

    Everything that Keras would otherwise choose by device and strategy (XLA above all) is given explicitly.

    Raises:
        RecipeError: The optimizer's groups do not fit the model.
        DeviceError: Keras would not use XLA although it was asked for.
    """
    from tfbench import objective, optimizer

    module = registry.load("models", config.name)
    model = objective.apply_head(module.build_model(module.Config(**config.options), spec), training)
    steps_per_epoch = input_pipeline.count_steps_per_epoch(spec.train_samples, training.global_batch_size)
    model.compile(
        optimizer=optimizer.build_optimizer(training.optimizer, model, total_steps=training.epochs * steps_per_epoch),
        loss=objective.build_loss(training),
        metrics=objective.build_metrics(training),
        jit_compile=training.jit_compile,
        steps_per_execution=training.steps_per_execution,
    )
    if bool(model.jit_compile) != training.jit_compile:  # Keras drops it with no more than a Python warning
        names = ", ".join(layer.name for layer in model.layers if not layer.supports_jit) or "the model"
        raise DeviceError(
            f"training.jit_compile: Keras does not compile {names} with XLA on this device. Use jit_compile = false."
        )
    return model


def _train(
    recipe: Recipe,
    splits: Splits,
    model: Any,
    steps_per_epoch: int,
    resolved: distribution.ResolvedDistribution,
    journal: Journal,
) -> None:
    training, measurement = recipe.training, recipe.measurement
    with distribution.DeviceWatch() as watch:
        clock = SpanClock(measurement, synchronize=distribution.synchronize, on_span=journal.append_span)
        callbacks = build_callbacks(
            clock,
            model=model,
            steps_per_epoch=steps_per_epoch,
            global_batch_size=training.global_batch_size,
            warmup_steps=measurement.warmup_steps,
            validates=not measurement.is_limited,
            on_epoch=lambda epoch: journal.append("epoch", epoch=to_plain(epoch)),
            on_first_step=lambda: distribution.verify_placement(resolved, model, watch.stop()),
        )
        model.fit(
            input_pipeline.build_training_dataset(
                splits, global_batch_size=training.global_batch_size, seed=training.seed
            ),
            epochs=UNLIMITED_EPOCHS if measurement.is_limited else training.epochs,
            steps_per_epoch=steps_per_epoch,
            callbacks=callbacks,
            shuffle=False,
            verbose=0,
            validation_data=None if measurement.is_limited else _validation_dataset(training, splits),
        )


def _validation_dataset(training: TrainingConfig, splits: Splits) -> Any:
    batch_size = training.validation_batch_size or training.global_batch_size
    return input_pipeline.build_validation_dataset(splits, batch_size=batch_size)


def _set_process_wide(training: TrainingConfig) -> None:
    """Sets what TensorFlow only takes before its first operation."""
    import keras
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(training.intra_op_threads)
    tf.config.threading.set_inter_op_parallelism_threads(training.inter_op_threads)
    keras.utils.set_random_seed(training.seed)
    if training.deterministic:
        tf.config.experimental.enable_op_determinism()
    tf.config.experimental.enable_tensor_float_32_execution(training.tensor_float_32)
    # Keras reads these from a file in the user's home folder.
    keras.config.set_floatx("float32")
    keras.config.set_epsilon(1e-7)
    keras.config.set_image_data_format("channels_last")
    keras.config.set_dtype_policy(training.precision)


def _summarize_data(config: DatasetConfig, splits: Splits) -> DatasetSummary:
    return DatasetSummary(
        name=config.name,
        source=splits.source,
        synthetic=splits.synthetic,
        train_samples=splits.train.num_samples,
        validation_samples=splits.validation.num_samples,
    )


def _summarize_model(model: Any) -> ModelSummary:
    return ModelSummary(
        num_parameters=model.count_params(),
        num_trainable_parameters=sum(math.prod(variable.shape) for variable in model.trainable_variables),
    )
