"""Warnings and notes: what a reader must know before trusting a run."""

import re
from collections.abc import Iterator, Sequence

from tfbench.recipe.registry import is_code
from tfbench.recipe.sections import REGRESSION_LOSSES
from tfbench.runs.early_stop import reaches
from tfbench.runs.record import OPEN_LENGTH, RunRequest, RunResult
from tfbench.runs.spans import RunView, Values, WarningTable
from tfbench.runs.speed_warnings import MACHINE, SPEED
from tfbench.wording import count, join_words

# Rate of the input pipeline alone over that of the training. Where both share the cores, the time
# of a sample is the sum of both, so that below 1.5 more than two thirds of it go into the input;
# where a GPU trains, less than a third of the pipeline's time is left to make up for a hold-up.
MIN_HEADROOM = 1.5
# Below it, the pipeline alone was slower than the training that it fed, which cannot be; above, but
# below 1, both are equal for what they are known to: single rates of half a second were seen to
# differ by a few per cent.
POSSIBLE_HEADROOM = 0.95
# of an epoch's time, that making its batches would have taken, had they not been made before
MAX_READY_SHARE = 0.02
_MUCH_WAITING = 0.05  # of a step: waiting for a slower worker that is worth a warning
_NUM_NAMED = 5  # layers or files that are named; more make nobody wiser
# of a run without limits
_ONLY_TO_THE_END = ("checkpoint_every_epochs", "num_predictions", "per_class_accuracy")
# Sections whose values make a workload, and keys among them that do not: which data is told by the
# run itself, how long is trained does not change the time of an epoch, and how the work is carried
# out is part of the software.
OF_WORKLOAD = ("model.", "dataset.", "training.")
BESIDE_WORKLOAD = (
    "dataset.data",
    "training.epochs",
    "training.stop_at_val_accuracy",
    "training.stop_below_error_change",
    "training.seed",
    "training.steps_per_execution",
    "training.data_on_device",
    "training.prefetched_batches",
    "training.parallel_batches",
    "training.backend",
    "training.compiler",
    "training.deterministic",
    "training.intra_op_threads",
    "training.inter_op_threads",
)
_LEARNED_LESS = "Find out why the network learned less before you quote this run."
_TOO_GOOD = "That is too good: look for validation samples in the training set, or an easier task."
_NOT_MEANT_FOR = {
    "cpu": (
        "training may take days there. Use a GPU (--devices gpu), or measure a part (--steps 20)."
    ),
    "gpu": "it is too small for one. Use --devices cpu.",
}
_NUMBER = re.compile(r"\d[\d.,]*(?:e[+-]?\d+)?")

LEARNING = WarningTable()
LIMITS = WarningTable()
EARLY = WarningTable()  # known before the training begins
NOTES = WarningTable()  # what the user asked for, by which no figure is wrong
CODE = WarningTable()  # notes on a network that is code, of a profile, too


@LIMITS.row(
    "The input pipeline alone made {rate:,.0f} samples/s, fewer than the training's {speed:,.0f}:"
    " this check is unreliable.",
    "Rerun on an idle machine, without validation (--seconds 10).",
)
def _input_contradicts(run: RunView) -> Iterator[Values]:
    if run.headroom is not None and run.headroom < POSSIBLE_HEADROOM:
        yield {"rate": run.input_rate, "speed": run.speed}


@LIMITS.row(
    "Input-bound, or nearly: the input pipeline alone makes {rate:,.0f} samples/s, {headroom:.2f}x"
    " the training's {speed:,.0f}. This run measures the input pipeline more than the devices.",
    "Use faster storage, more CPU cores, smaller images or a larger network.",
)
def _input_bound(run: RunView) -> Iterator[Values]:
    if run.headroom is not None and POSSIBLE_HEADROOM <= run.headroom < MIN_HEADROOM:
        yield {"rate": run.input_rate, "headroom": run.headroom, "speed": run.speed}


@LIMITS.row(
    "Epochs are short: up to {ready:.0f} % of the batches were prepared before timing began, so"
    " speed may be up to {gain:.0f} % too high.",
    "Measure without validation (--seconds 10).",
)
def _short_epochs(run: RunView) -> Iterator[Values]:
    if run.headroom is None or run.headroom < POSSIBLE_HEADROOM:
        return
    if run.ready_share / run.headroom > MAX_READY_SHARE:
        yield {"ready": 100 * run.ready_share, "gain": 100 * run.ready_share / run.headroom}


@LIMITS.row("Share of the peak FLOP/s not known: {why}.", "Rerun on an idle machine.")
def _no_peak(run: RunView) -> Iterator[Values]:
    checks = run.result.peak_checks
    reached = run.flops_per_second
    if not reached or len(checks) < 2:
        return
    peak = run.peak
    if peak is None:
        share = min(check.other_share for check in checks)
        why = f"other processes used {100 * share:.0f} % of the CPU while the peak was measured"
        yield {"why": why}
    elif reached > peak:
        why = (
            f"training reached {reached / 1e9:,.4g} GFLOP/s, more than the measured peak of"
            f" {peak / 1e9:,.4g} (convolutions may take fewer operations than are counted)"
        )
        yield {"why": why}


@LIMITS.row(
    "FLOPs not counted, because tfbench does not know the operations of {layers}.", "{action}"
)
def _unknown_layers(run: RunView) -> Iterator[Values]:
    layers = _list_uncounted(run, are_open=False)
    if not layers:
        return
    action = "Add a method forward_flops(input_shape, output_shape) to layers of your own."
    if layers[0].endswith((".train_step)", ".call)")):  # the whole network
        action = ""
    yield {"layers": _name_some(layers), "action": action}


@LIMITS.row(
    "FLOPs not counted, because the length of the data is open (None) for {layers}.",
    "Give the length in keras.Input.",
)
def _open_layers(run: RunView) -> Iterator[Values]:
    if layers := _list_uncounted(run, are_open=True):
        yield {"layers": _name_some(layers).replace(OPEN_LENGTH, "")}


def _list_uncounted(run: RunView, *, are_open: bool) -> list[str]:
    model = run.result.model
    if model is None:
        return []
    return [
        layer for layer in model.uncounted_layers if layer.endswith(f"{OPEN_LENGTH})") == are_open
    ]


def _name_some(layers: Sequence[str]) -> str:
    names = ", ".join(layers[:_NUM_NAMED])
    if len(layers) > _NUM_NAMED:
        names += f" and {len(layers) - _NUM_NAMED} more"
    return names


@LIMITS.row(
    "Workers wait {waiting:.3g} of {step:.3g} ms per step ({share:.0f} %) for worker {slowest} of"
    " {num}.",
    "Check its input, its device, and what else runs on its machine.",
)
def _slow_worker(run: RunView) -> Iterator[Values]:
    check = run.result.exchange_check
    if check is None:
        return
    step = check.step_seconds
    if check.waiting_seconds > _MUCH_WAITING * step:
        yield {
            "waiting": 1e3 * check.waiting_seconds,
            "step": 1e3 * step,
            "share": 100 * check.waiting_seconds / step,
            "slowest": check.slowest,
            "num": len(check.workers),
        }


@LIMITS.row(
    "Not verified: whether several replicas learn what one learns ({reason}).",
    "Compare the losses with a run on one device.",
)
def _not_checked(run: RunView) -> Iterator[Values]:
    check = run.result.replica_check
    if check and check.reason:
        yield {"reason": check.reason}


@EARLY.row("{reason}")
def _unused_gpu(run: RunView) -> Iterator[Values]:
    placement = run.result.placement
    if placement and placement.unused_gpu:
        yield {"reason": placement.unused_gpu}


@EARLY.row("This recipe is not meant for {kind}: {why}")
def _other_purpose(run: RunView) -> Iterator[Values]:
    request = run.result.request
    placement = run.result.placement
    if placement is None or request.profile:
        return
    kinds = {device.partition(":")[0] for device in placement.devices}
    for kind in kinds.intersection(request.recipe.recipe.not_meant_for):
        yield {"kind": kind, "why": _NOT_MEANT_FOR[kind]}


@LIMITS.row(
    "An epoch takes {executed} steps instead of {steps}, a multiple of training.steps_per_execution"
    " ({size}).",
    "Choose a divisor before you compare epochs.",
)
def _whole_executions(run: RunView) -> Iterator[Values]:
    recipe = run.result.request.recipe
    steps = run.result.steps_per_epoch
    size = recipe.training.steps_per_execution
    data = run.result.dataset
    is_cut = recipe.training.data_on_device or (data and data.batches)
    ends_with_epoch = is_cut or recipe.measurement.is_limited
    if steps and steps % size and not ends_with_epoch:
        yield {"executed": steps + -steps % size, "steps": steps, "size": size}


@LEARNING.row(
    "Loss was not finite in {epochs}: the model did not learn.",
    "Lower training.optimizer.learning_rate.",
)
def _loss_not_finite(run: RunView) -> Iterator[Values]:
    broken = []
    for record in run.result.epochs:
        if record.has_loss and record.loss is None:
            broken.append(record.epoch)
    if broken:
        yield {"epochs": f"{count(len(broken), 'epoch')} (first: {broken[0]})"}


@LEARNING.row(
    "{name} after epoch {epoch} is {value}; the recipe{as_it_is} reaches {low:g} to {high:g}.",
    "{action}",
)
def _outside_of_band(run: RunView) -> Iterator[Values]:
    """Holds for each epoch whose validation is outside of what the recipe expects.

    Not of synthetic or limited runs.
    """
    recipe = run.result.request.recipe
    if run.result.is_synthetic or recipe.measurement.is_limited:
        return
    records = {str(record.epoch): record for record in run.result.epochs}
    changed = join_words(_changes_of_workload(run.result.request))
    expected = {"val_loss": recipe.expect.val_loss_at_epoch}
    if recipe.training.loss not in REGRESSION_LOSSES:
        expected = {"val_accuracy": recipe.expect.val_accuracy_at_epoch} | expected
    for name, bands in expected.items():
        for epoch in sorted(bands.keys() & records.keys(), key=int):
            value: float | None = getattr(records[epoch], name)
            low, high = bands[epoch]
            if value is not None and reaches(value, low) and reaches(high, value):
                continue
            if value is not None and (value > high) == (name == "val_accuracy"):
                action = _TOO_GOOD
            elif changed:
                action = f"Your change of {changed} may explain it."
            else:
                action = _LEARNED_LESS
            yield {
                "name": f"Validation {name.removeprefix('val_')}",
                "epoch": epoch,
                "value": "not finite" if value is None else f"{value:.4g}",
                "as_it_is": " unchanged" if changed else "",
                "low": low,
                "high": high,
                "action": action,
            }


def _changes_of_workload(request: RunRequest) -> list[str]:
    """Returns the changed keys, without their sections, that may change what a network learns."""
    changes = []
    for key in request.overrides:
        if key.startswith(OF_WORKLOAD) and key not in BESIDE_WORKLOAD:
            changes.append(key.partition(".")[2])
    # A schedule of the learning rate is stretched over all epochs.
    optimizer = request.recipe.training.optimizer
    if optimizer.learning_rate_schedule and "training.epochs" in request.overrides:
        changes.append("epochs")
    return changes


@NOTES.row(
    "Logical CPU devices share all cores: this shows overhead, not scaling.",
    "Use GPUs to measure scaling.",
)
def _shared_cores(run: RunView) -> Iterator[Values]:
    placement = run.result.placement
    if placement and sum(device.startswith("cpu") for device in placement.devices) > 1:
        yield {}


@CODE.row("The network is code of {name}{files}.")
def _own_code(run: RunView) -> Iterator[Values]:
    model = run.result.model
    name = run.result.request.recipe.model.name
    if model and is_code(name):
        digests = [f"{file} {digest}" for file, digest in model.files.items()]
        if len(digests) > _NUM_NAMED:
            digests[_NUM_NAMED:] = [f"{len(digests) - _NUM_NAMED} more"]
        files = ""
        if digests:
            files = f" (SHA-256: {join_words(digests)})"
        yield {"name": name, "files": files}


@CODE.row("The network trains as it was compiled, with its own loss and optimizer ({optimizer}).")
def _own_training(run: RunView) -> Iterator[Values]:
    model = run.result.model
    if model and model.own_optimizer:
        yield {"optimizer": model.own_optimizer}


@NOTES.row("Synthetic data: compare speed, ignore accuracy.", "{action}")
def _synthetic_data(run: RunView) -> Iterator[Values]:
    if not run.result.is_synthetic:
        return
    if run.result.request.recipe.dataset.name == "network":
        yield {"action": "Add load_data() beside the network for real data."}
    else:
        yield {"action": "Real data: --data real."}


@NOTES.row(
    "Limited to {limits} after the warm-up instead of {epochs}: validation was skipped{cut}.",
    "To {purpose}, use `tfbench run` without --steps and --seconds.",
)
def _limited(run: RunView) -> Iterator[Values]:
    recipe = run.result.request.recipe
    limits = []
    if recipe.measurement.steps is not None:
        limits.append(f"{recipe.measurement.steps} steps")
    if recipe.measurement.seconds is not None:
        limits.append(f"{recipe.measurement.seconds:g} s")
    values = {"limits": " or ".join(limits), "epochs": count(recipe.training.epochs, "epoch")}
    if limits and len(run.result.whole_epochs) >= recipe.training.epochs:
        yield {**values, "cut": "", "purpose": "validate"}
    elif limits:
        yield {**values, "cut": ", and training is incomplete", "purpose": "train to the end"}


@NOTES.row("Left out of a limited run: {names}.")
def _left_out(run: RunView) -> Iterator[Values]:
    recipe = run.result.request.recipe
    names = [f"output.{name}" for name in _ONLY_TO_THE_END if getattr(recipe.output, name)]
    if names and recipe.measurement.is_limited:
        yield {"names": ", ".join(names)}


def find_warnings(run: RunView) -> tuple[str, ...]:
    """Returns a text for each thing that makes a run's figures doubtful, what it learned first.

    A profile trains nothing, so that it has warnings of the machine alone.
    """
    result = run.result
    if result.request.profile:
        texts = [*MACHINE.texts(run), *result.notes]
    else:
        texts = [*LEARNING.texts(run), *MACHINE.texts(run), *SPEED.texts(run)]
        texts += [*result.notes, *LIMITS.texts(run)]
    texts += EARLY.texts(run)
    return tuple(dict.fromkeys(texts))


def find_early_warnings(result: RunResult) -> tuple[str, ...]:
    """Returns the warnings to show before a user waits for a run, once its devices are known."""
    return tuple(EARLY.texts(RunView(result)))


def find_notes(result: RunResult) -> tuple[str, ...]:
    """Returns notes, by which no figure is wrong: of devices, code and what the user asked for."""
    run = RunView(result)
    texts: list[str] = []
    if result.placement:
        texts += result.placement.notes
    texts += CODE.texts(run)
    if not result.request.profile:
        texts += NOTES.texts(run)
    return tuple(dict.fromkeys(texts))


def merge_warnings(warnings: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """Returns the warnings of several runs, each kind once, the usual first.

    A kind is shown in the words of the first run that has it.

    Args:
        warnings: Of each run; those that differ in their numbers alone are of one kind.
    """
    texts_by_kind: dict[str, list[str]] = {}
    for of_run in warnings:
        last_by_kind = {_NUMBER.sub("#", text): text for text in of_run}
        for kind, text in last_by_kind.items():
            texts_by_kind.setdefault(kind, []).append(text)
    merged = []
    for texts in sorted(texts_by_kind.values(), key=len, reverse=True):
        example = ", for example" if len(set(texts)) > 1 else ""
        merged.append(f"{len(texts)} of {len(warnings)} runs{example}: {texts[0]}")
    return tuple(merged)
