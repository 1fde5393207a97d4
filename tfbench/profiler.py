"""The measured job of a profile: where a step's time goes, TensorFlow's own trace of it, or how variants of it compare.

Functions take turns: each round calls every one of them some times in a row, so that what the machine does in between
slows all alike. Each round begins with the same weights. Training on the same few batches for long would end in
gradients so small that a processor handles them many times as slowly as those of real training.
"""

import itertools
import math
import time
from collections.abc import Callable
from typing import Any

from tfbench import distribution, input_pipeline, op_trace
from tfbench.benchmark import Prepared, build_compiled_model, configure_keras, note_shared_machine, prepare
from tfbench.errors import MeasurementError, RecipeError, TfbenchError
from tfbench.foreign_model import reason_of
from tfbench.journal import Journal, files_folder, plain_fields
from tfbench.measure.ledger import Ledger
from tfbench.peak import measure_bandwidth, measure_peak
from tfbench.profile_records import (
    CALLS,
    COPY_CALL,
    TRACE_FOLDER,
    EpochCheck,
    ProfiledLayer,
    VariantRound,
    VariantSetup,
)
from tfbench.profile_variants import BASE, CONTROL, apply_variant
from tfbench.profiled_batches import ProfiledBatches, build_pipeline, iterate
from tfbench.recipe import Recipe
from tfbench.results import RunRequest
from tfbench.schema import to_plain
from tfbench.timed_turns import Call, TimedTurns, time_calls
from tfbench.usage import UsageMeter

_MAX_LAYERS = 250  # above, a whole step is not compiled a second time: 500 layers take 50 s on two cores
_PEAK_SECONDS = 0.6
_EPOCH_SHARE = 0.4  # of the time for rounds; an epoch that takes longer is measured in part
# Calls after which batches come no faster than they are made: those that waited are used up.
_DRAINING_CALLS = 1 + input_pipeline.PREFETCHED_BATCHES + input_pipeline.PARALLEL_BATCHES
_FAST_PIPELINE = 0.3  # share of a step that making a batch may take for the step never to wait for it
_TRACED_STEPS, _TRACED_SECONDS = 20, 3.0
_LOSS_STEPS, _LOSS_SECONDS = 60, 8.0


def run_profile(request: RunRequest, journal: Journal, ledger: Ledger, wait_for_start: Callable[[], None]) -> None:
    """Finds out what the request asks for, and writes what was read to the journal.

    Args:
        request: The run; `request.profile` is there.
        journal: Receives the records of `run_benchmark` but for those of a training, and "profile_*" records.
        ledger: As of `run_benchmark`.
        wait_for_start: As of `run_benchmark`.

    Raises:
        TfbenchError: As of `run_benchmark`.
    """
    prepared = prepare(request, journal, ledger, wait_for_start)
    if request.profile is None:
        raise MeasurementError("the run was not asked for a profile.")
    job = {"step": _profile_step, "trace": _trace_steps, "variants": _compare_variants}[request.profile.kind]
    journal.append("started")
    meter = UsageMeter(prepared.gpu_names)
    with input_pipeline.broken_samples_named(prepared.splits.source), prepared.resolved.strategy.scope():
        job(request, prepared, journal, ledger)
    journal.append("trained", **plain_fields(usage=meter.finish()))
    note_shared_machine(prepared, journal)
    journal.append("ledger", **plain_fields(ledger=ledger.record()))
    journal.append("finished")


class _Step:
    """A compiled model's step and what it is made of, as functions without arguments; each waits until it is done."""

    def __init__(self, model: Any, batches: ProfiledBatches, strategy: Any) -> None:
        import tensorflow as tf

        from tfbench.profiled_step import ProfiledStep
        from tfbench.snapshots import carried_states

        self.model = model
        self._batches = batches
        self._profiled = ProfiledStep(model, strategy)
        self._keras_steps = model.steps_per_execution
        self._variables = [*self._profiled.variables, *carried_states(model)]
        self._kept = [tf.identity(variable) for variable in self._variables]
        model.make_train_function()

    def call(self, upto: str) -> Call:
        """Returns one call of the step up to a phase; see `ProfiledStep.build`."""
        function, cycle = self._profiled.build(upto), self._batches.cycle()

        def call() -> None:
            result = function(*next(cycle))
            (result[0] if isinstance(result, tuple) else result).numpy()

        return call

    def keras_call(self, iterator: Any) -> tuple[Call, int]:
        """Returns one call of Keras's training function, and the steps that it does.

        It does not wait for a device, as `fit` does not either.
        """

        def call() -> None:
            self.model.train_function(iterator)

        return call, self._keras_steps

    @property
    def num_layers(self) -> int:
        """Uses of a layer."""
        return self._profiled.num_calls

    def take_call(self, iterator: Any) -> Call:
        """Returns one call of a function that takes a batch of an iterator, as Keras's does, and nothing else."""
        function = self._profiled.build_take()

        def call() -> None:
            function(iterator).numpy()

        return call

    def restore(self) -> None:
        """Gives all variables the values of the beginning."""
        for variable, value in zip(self._variables, self._kept, strict=True):
            variable.assign(value)

    def describe_layers(self, batch_size: int) -> list[ProfiledLayer]:
        """Returns the layers, for which XLA must be off: it makes one program of all."""
        return self._profiled.describe_layers(batch_size)


def _profile_step(request: RunRequest, prepared: Prepared, journal: Journal, ledger: Ledger) -> None:
    model, strategy = prepared.model, prepared.resolved.strategy
    training = request.recipe.training
    ledger.switch("first_step")
    batches = ProfiledBatches(prepared)
    step = _Step(model, batches, strategy)
    problem = _why_not_apart(model)
    layers = [] if problem else step.describe_layers(training.global_batch_size)
    journal.append("profile_layers", layers=[to_plain(layer) for layer in layers], problem=problem)
    _stage(journal, "compiling the step, phase by phase")
    functions = TimedTurns()
    with distribution.DeviceWatch() as watch:
        for name in CALLS if step.num_layers <= _MAX_LAYERS else CALLS[:-1]:
            functions.add(name, step.call(name), is_traced=not problem and name != "dispatch")
        distribution.verify_placement(prepared.resolved, model, watch.stop())
    if step.num_layers > _MAX_LAYERS:
        journal.append(
            "note",
            text=f"with {step.num_layers} uses of a layer, compiling takes long: the whole step is compiled as Keras's "
            "own alone, so that the update of the weights is not told apart from the rest of that.",
        )
    functions.add("keras", *step.keras_call(batches.iterator(strategy)))
    functions.add("pipeline", _draw(iter(batches.dataset)), num_before=_DRAINING_CALLS)
    pipeline, limit = iterate(batches.dataset, strategy), _FAST_PIPELINE * functions.estimate("keras")
    num_before = _DRAINING_CALLS if functions.estimate("pipeline") > limit else 1
    functions.add("full", *step.keras_call(pipeline), num_before=num_before)
    # Not of the pipeline itself: one turn would use up the batches that it has ready, and then time their making.
    functions.add("take", step.take_call(batches.iterator(strategy, num_ahead=input_pipeline.PREFETCHED_BATCHES)))
    if prepared.gpu_names:
        functions.add(COPY_CALL, _copy(batches, prepared.device))
    ledger.switch("steady")
    _stage(journal, "timing phases and layers in turns")
    for one in functions.rounds(_seconds(request), step.restore):
        journal.append("profile_round", round=to_plain(one))
    step.restore()
    ledger.switch("callbacks")
    _stage(journal, "training, for the time of an epoch")
    journal.append(
        "profile_epoch",
        **plain_fields(epoch=_train_epoch(prepared, functions.estimate("full"), _EPOCH_SHARE * _seconds(request))),
    )
    ledger.switch("checks")
    _stage(journal, "measuring what the devices compute and move at most")
    peak = measure_peak(tuple(prepared.resolved.logical_names), training.precision, seconds=_PEAK_SECONDS)
    journal.append("peak_check", **plain_fields(peak_check=peak))
    bandwidth = measure_bandwidth(tuple(prepared.resolved.logical_names), seconds=_PEAK_SECONDS)
    journal.append("profile_bandwidth", **plain_fields(bandwidth=bandwidth))
    ledger.switch(None)


def _trace_steps(request: RunRequest, prepared: Prepared, journal: Journal, ledger: Ledger) -> None:
    """Traces Keras's own steps, from a pipeline that runs, once they are steady."""
    ledger.switch("first_step")
    _stage(journal, "compiling the step")
    batches = ProfiledBatches(prepared)
    call, num_steps = _Step(prepared.model, batches, prepared.resolved.strategy).keras_call(
        iterate(batches.dataset, prepared.resolved.strategy)
    )
    call()
    distribution.synchronize()
    ledger.switch("warmup")
    seconds = time_calls(call, 3)
    num_calls = max(1, min(_TRACED_STEPS // num_steps, int(_TRACED_SECONDS / seconds)))
    ledger.switch("steady")
    _stage(journal, "tracing steady steps")
    took: list[float] = []
    folder = files_folder(journal.path) / TRACE_FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    operations = op_trace.trace(lambda: took.append(time_calls(call, num_calls)), folder)
    found = op_trace.sum_up(operations, num_calls * num_steps)
    journal.append(
        "profile_operations",
        operations=[to_plain(one) for one in found],
        num_steps=num_calls * num_steps,
        step_seconds=took[0] / num_steps,
    )
    ledger.switch(None)


def _compare_variants(request: RunRequest, prepared: Prepared, journal: Journal, ledger: Ledger) -> None:
    """Builds the step as it stands, the same again, and its variants; then all of them take turns."""
    if request.profile is None:
        return
    ledger.switch("first_step")
    batches = ProfiledBatches(prepared)
    recipes: dict[str, Recipe | TfbenchError] = {BASE: request.recipe, CONTROL: request.recipe}
    for variant in request.profile.variants:
        try:
            recipes[variant.name] = apply_variant(request.recipe, variant)
        except RecipeError as error:
            recipes[variant.name] = error
    _stage(journal, "building and compiling the variants")
    functions = TimedTurns()
    steps: dict[str, _Step] = {}
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
            step = _Step(model, batches, prepared.resolved.strategy)
            call, num_steps = step.keras_call(batches.iterator(prepared.resolved.strategy))
            functions.add(name, call, num_steps)
            losses = _train_losses(step, batches.iterator(prepared.resolved.strategy), num_loss_steps)
            layers = []
            if changes_model and not _why_not_apart(model):
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
    _stage(journal, "timing the variants in turns")

    def restore() -> None:
        for step in steps.values():
            step.restore()

    for one in functions.rounds(_seconds(request), restore):
        traced = {name.removesuffix("/step"): call for name, call in one.traced.items()}
        journal.append("profile_variant_round", round=to_plain(VariantRound(seconds=one.seconds, traced=traced)))
    ledger.switch(None)


def _why_not_apart(model: Any) -> str:
    if model.jit_compile:
        return (
            "XLA makes one program of all layers (jit_compile = true): no layer can be timed apart. "
            "--set training.jit_compile=false shows them as TensorFlow alone computes them."
        )
    return ""


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


def _train_losses(step: _Step, iterator: Any, num_loss_steps: int) -> list[float | None]:
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


def _train_epoch(prepared: Prepared, step_seconds: float, seconds: float) -> EpochCheck:
    """Trains with Keras's `fit`, a whole epoch unless that takes too long."""
    import keras

    model, steps_per_epoch = prepared.model, prepared.steps_per_epoch
    execution = model.steps_per_execution
    num_steps = min(steps_per_epoch, max(execution, int(seconds / step_seconds) // execution * execution))
    clock = _EpochClock()
    callback = keras.callbacks.LambdaCallback(
        on_epoch_begin=lambda *_: clock.begin(), on_epoch_end=lambda *_: clock.end()
    )
    model.fit(
        build_pipeline(prepared), epochs=1, steps_per_epoch=num_steps, shuffle=False, verbose=0, callbacks=[callback]
    )
    num_steps = math.ceil(num_steps / execution) * execution  # Keras always does whole executions
    return EpochCheck(num_steps=num_steps, seconds=clock.seconds, steps_per_epoch=steps_per_epoch)


class _EpochClock:
    """Times an epoch from its begin to its end, when Keras has waited for the device."""

    seconds = 0.0

    def begin(self) -> None:
        self._start = time.perf_counter()

    def end(self) -> None:
        self.seconds = time.perf_counter() - self._start


def _draw(iterator: Any) -> Call:
    """Returns what waits for the input pipeline's next batch."""

    def call() -> None:
        next(iterator)

    return call


def _copy(batches: ProfiledBatches, device: str) -> Call:
    """Returns what copies a batch from the host to the device, and waits for it."""
    import tensorflow as tf

    cycle = itertools.cycle(batches.on_host)

    def call() -> None:
        with tf.device(device):
            for tensor in next(cycle):
                tf.identity(tensor)
        distribution.synchronize()

    return call


def _seconds(request: RunRequest) -> float:
    return request.profile.seconds if request.profile else 0.0


def _stage(journal: Journal, name: str) -> None:
    journal.append("stage", name=name)
