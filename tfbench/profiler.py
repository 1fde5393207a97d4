"""The measured job of a profile: where a step's time goes, TensorFlow's own trace of it, or how variants of it compare.

Functions take turns: each round calls every one of them some times in a row, so that what the machine does in between
slows all alike. Each round begins with the same weights. Training on the same few batches for long would end in
gradients so small that a processor handles them many times as slowly as those of real training.
"""

import itertools
import math
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tfbench import distribution, input_pipeline, op_trace
from tfbench.benchmark import Prepared, build_compiled_model, configure_keras, note_shared_machine, prepare
from tfbench.errors import MeasurementError, RecipeError, TfbenchError
from tfbench.journal import Journal, files_folder, plain_fields
from tfbench.measure.ledger import Ledger
from tfbench.peak import measure_bandwidth, measure_peak
from tfbench.profile_records import (
    CALLS,
    COPY_CALL,
    TRACE_FOLDER,
    EpochCheck,
    ProfiledLayer,
    ProfileRound,
    TracedCall,
    VariantRound,
    VariantSetup,
)
from tfbench.profile_variants import BASE, CONTROL, apply_variant
from tfbench.recipe import Recipe
from tfbench.results import RunRequest
from tfbench.schema import to_plain
from tfbench.usage import UsageMeter

_TURN_SECONDS = 0.04  # for which a function is called in a row
_MAX_CALLS = 200
_MIN_ROUNDS, _FEWEST_ROUNDS = 5, 3  # the latter where rounds take so long that five would be out of all proportion
_SLOW_SECONDS = 0.3  # of a call from which one is enough to tell how long it takes
_MAX_LAYERS = 250  # above, a whole step is not compiled a second time: 500 layers take 50 s on two cores
_POOL_BATCHES, _POOL_BYTES = 32, 64 * 2**20  # at hand, so that a step learns from more than one batch
_PEAK_SECONDS = 0.6
_EPOCH_SHARE = 0.4  # of the time for rounds; an epoch that takes longer is measured in part
# Calls after which batches come no faster than they are made: those that waited are used up.
_DRAINING_CALLS = 1 + input_pipeline.PREFETCHED_BATCHES + input_pipeline.PARALLEL_BATCHES
_FAST_PIPELINE = 0.3  # share of a step that making a batch may take for the step never to wait for it
_TRACED_STEPS, _TRACED_SECONDS = 20, 3.0
_LOSS_STEPS, _LOSS_SECONDS = 60, 8.0

Call = Callable[[], None]


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
    with input_pipeline.broken_samples_named(prepared.splits.source):
        job(request, prepared, journal, ledger)
    journal.append("trained", **plain_fields(usage=meter.finish()))
    note_shared_machine(prepared, journal)
    journal.append("ledger", **plain_fields(ledger=ledger.record()))
    journal.append("finished")


class _Batches:
    """Some batches of the recipe's data, at hand on the device of the run, over and over."""

    def __init__(self, prepared: Prepared) -> None:
        import tensorflow as tf

        self.dataset = _pipeline(prepared)
        first = next(iter(self.dataset))
        size = sum(tensor.shape.num_elements() * tensor.dtype.size for tensor in first)
        self._num = max(2, min(_POOL_BATCHES, _POOL_BYTES // size))
        self.on_host = list(self.dataset.take(self._num))
        with tf.device(prepared.device):
            self.on_device = [tuple(map(tf.identity, batch)) for batch in self.on_host]

    def cycle(self) -> Iterator[Any]:
        """Yields batches on the device, without end."""
        return itertools.cycle(self.on_device)

    def iterator(self, strategy: Any) -> Any:
        """Returns an iterator as Keras's training function takes it: of batches on the host, without any work."""
        import tensorflow as tf

        dataset = tf.data.Dataset.from_tensors(self.on_host[0])
        for batch in self.on_host[1:]:
            dataset = dataset.concatenate(tf.data.Dataset.from_tensors(batch))
        options = tf.data.Options()
        options.autotune.enabled = False
        return _iterate(dataset.repeat().with_options(options), strategy)


class _Step:
    """A compiled model's step and what it is made of, as functions without arguments; each waits until it is done."""

    def __init__(self, model: Any, batches: _Batches, strategy: Any) -> None:
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
    batches = _Batches(prepared)
    step = _Step(model, batches, strategy)
    problem = _why_not_apart(model)
    layers = [] if problem else step.describe_layers(training.global_batch_size)
    journal.append("profile_layers", layers=[to_plain(layer) for layer in layers], problem=problem)
    _stage(journal, "compiling the step, phase by phase")
    functions = _Functions()
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
    pipeline, limit = _iterate(batches.dataset, strategy), _FAST_PIPELINE * functions.estimate("keras")
    num_before = _DRAINING_CALLS if functions.estimate("pipeline") > limit else 1
    functions.add("full", *step.keras_call(pipeline), num_before=num_before)
    functions.add("take", step.take_call(pipeline))
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
    batches = _Batches(prepared)
    call, num_steps = _Step(prepared.model, batches, prepared.resolved.strategy).keras_call(
        _iterate(batches.dataset, prepared.resolved.strategy)
    )
    call()
    distribution.synchronize()
    ledger.switch("warmup")
    seconds = _time(call, 3)
    num_calls = max(1, min(_TRACED_STEPS // num_steps, int(_TRACED_SECONDS / seconds)))
    ledger.switch("steady")
    _stage(journal, "tracing steady steps")
    took: list[float] = []
    folder = files_folder(journal.path) / TRACE_FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    operations = op_trace.trace(lambda: took.append(_time(call, num_calls)), folder)
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
    batches = _Batches(prepared)
    recipes: dict[str, Recipe | TfbenchError] = {BASE: request.recipe, CONTROL: request.recipe}
    for variant in request.profile.variants:
        try:
            recipes[variant.name] = apply_variant(request.recipe, variant)
        except RecipeError as error:
            recipes[variant.name] = error
    _stage(journal, "building and compiling the variants")
    functions = _Functions()
    steps: dict[str, _Step] = {}
    weights: list[Any] = []
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
            losses = _train_losses(step, batches, prepared.resolved.strategy)
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
            setup = VariantSetup(name=name, refusal=str(error).strip().splitlines()[0] or type(error).__name__)
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


class _Functions:
    """Functions that take turns, with the number of calls that makes a turn long enough to be timed."""

    def __init__(self) -> None:
        self._calls: dict[str, tuple[Call, int]] = {}
        self._num: dict[str, int] = {}
        self._num_before: dict[str, int] = {}
        self._estimates: dict[str, float] = {}
        self._traced: list[str] = []

    def add(self, name: str, call: Call, num_steps: int = 1, *, is_traced: bool = False, num_before: int = 1) -> None:
        """Adds a function, after calls that compile it and tell how long it takes.

        Args:
            name: Of the function.
            call: Calls it once.
            num_steps: That one call does.
            is_traced: Whether it is to be traced, too.
            num_before: Calls before each turn, unless a single one takes long enough to need none.
        """
        for _ in range(num_before):
            call()
        distribution.synchronize()
        seconds = _time(call, 1)
        if seconds < _SLOW_SECONDS:
            seconds = min(_time(call, 1), _time(call, 2))
        self._calls[name], self._num_before[name] = (call, num_steps), num_before
        self._num[name] = max(1, min(_MAX_CALLS, round(_TURN_SECONDS / seconds)))
        self._estimates[name] = seconds / num_steps
        if is_traced:
            self._traced.append(name)

    def discard(self, name: str) -> None:
        """Takes a function out again, and what belongs to it."""
        for known in (name, f"{name}/step"):
            self._calls.pop(known, None)
            if known in self._traced:
                self._traced.remove(known)

    def estimate(self, name: str) -> float:
        """Returns about how many seconds a step takes, as first seen."""
        return self._estimates[name]

    def rounds(self, seconds: float, restore: Call) -> Iterator[ProfileRound]:
        """Yields rounds until the time is over, some at least; every second one goes through the functions backwards.

        Args:
            seconds: After which no more rounds are begun.
            restore: Called before each function's turn in which it may have trained for long.
        """
        start = time.perf_counter()
        for number in itertools.count(1):
            restore()
            yield self._round(list(self._calls) if number % 2 else list(reversed(self._calls)))
            elapsed = time.perf_counter() - start
            if elapsed >= seconds and (number >= _MIN_ROUNDS or (number >= _FEWEST_ROUNDS and elapsed >= 2 * seconds)):
                return

    def _round(self, order: Sequence[str]) -> ProfileRound:
        seconds, traced = {}, {}
        for name in order:
            call, num_steps = self._calls[name]
            if self._num_before[name] > 1 or self._estimates[name] < _SLOW_SECONDS:
                for _ in range(self._num_before[name]):  # brings what it works on into the caches
                    call()
            seconds[name] = _time(call, self._num[name]) / num_steps
            if name in self._traced:
                traced[name] = _trace_call(call, self._num[name])
        return ProfileRound(seconds=seconds, traced=traced)


def _trace_call(call: Call, num: int) -> TracedCall:
    from tfbench.profiled_step import part_of

    took: list[float] = []
    operations = op_trace.trace(lambda: took.append(_time(call, num)))
    parts = op_trace.apportion(operations, part_of)
    return TracedCall(seconds=took[0], parts={name: seconds / num for name, seconds in parts.items()})


def _time(call: Call, num: int) -> float:
    """Returns the mean seconds of some calls in a row, until the device has done them all."""
    start = time.perf_counter()
    for _ in range(num):
        call()
    distribution.synchronize()
    return (time.perf_counter() - start) / num


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


def _train_losses(step: _Step, batches: _Batches, strategy: Any) -> list[float | None]:
    """Trains from the weights of the beginning, and back to them; returns the mean loss of each execution's steps."""
    step.restore()
    step.model.reset_metrics()
    iterator, num_steps = batches.iterator(strategy), step.model.steps_per_execution
    losses, total, start = list[float | None](), 0.0, time.perf_counter()
    for done in range(num_steps, max(_LOSS_STEPS, num_steps) + 1, num_steps):
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
    model.fit(_pipeline(prepared), epochs=1, steps_per_epoch=num_steps, shuffle=False, verbose=0, callbacks=[callback])
    return EpochCheck(num_steps=num_steps, seconds=clock.seconds, steps_per_epoch=steps_per_epoch)


class _EpochClock:
    """Times an epoch from its begin to its end, when Keras has waited for the device."""

    seconds = 0.0

    def begin(self) -> None:
        self._start = time.perf_counter()

    def end(self) -> None:
        self.seconds = time.perf_counter() - self._start


def _pipeline(prepared: Prepared) -> Any:
    training = prepared.training
    return input_pipeline.build_training_dataset(
        prepared.splits, global_batch_size=training.global_batch_size, seed=training.seed
    )


def _iterate(dataset: Any, strategy: Any) -> Any:
    """Returns an iterator as Keras makes it of a data set under a strategy."""
    import tensorflow as tf

    is_default = strategy is tf.distribute.get_strategy() and not tf.distribute.has_strategy()
    return iter(dataset if is_default else strategy.experimental_distribute_dataset(dataset))


def _draw(iterator: Any) -> Call:
    """Returns what waits for the input pipeline's next batch."""

    def call() -> None:
        next(iterator)

    return call


def _copy(batches: _Batches, device: str) -> Call:
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
