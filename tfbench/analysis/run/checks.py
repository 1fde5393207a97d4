"""What a reader must know before trusting a run's figures: one small function a check."""

from collections.abc import Iterable, Iterator

from tfbench.analysis.run.exchange import check_waiting
from tfbench.analysis.run.gpu_checks import check_gpus
from tfbench.analysis.run.learning import check_learning
from tfbench.analysis.run.machine_checks import check_machine
from tfbench.analysis.run.spans import samples_per_second, steady_spans
from tfbench.analysis.run.steadiness import check_steady_spans
from tfbench.analysis.run.work import check_work
from tfbench.records.run import RunResult
from tfbench.wording import count

_NOT_MEANT_FOR = {
    "cpu": "all of its training may take days there. Use a GPU (--devices gpu), or measure a part of it (--steps 20).",
    "gpu": "it is too small to make use of one. Use the CPU (--devices cpu).",
}
_ONLY_TO_THE_END = ("snapshot_every_epochs", "num_predictions", "per_class_accuracy")  # of a run without limits


def find_cautions(result: RunResult, *, warmup_steps: int | None = None) -> tuple[str, ...]:
    """Returns one text for each thing that limits what a run's figures say: what was seen, and what to do.

    What speaks against the speed comes first; what the user asked for himself last, since no figure is wrong by it.

    Args:
        result: A run, finished or not.
        warmup_steps: Number of leading steps left out of the summary; None: what the recipe says.
    """
    if result.request.profile:  # nothing is trained, so that what is said of a training holds for none of it
        notes = result.placement.notes if result.placement else ()
        return tuple(
            dict.fromkeys(
                (
                    *find_early_cautions(result),
                    *_check_journal(result),
                    *check_machine(result),
                    *check_gpus(result),
                    *notes,
                    *result.notes,
                )
            )
        )
    if warmup_steps is None:
        warmup_steps = result.request.recipe.measurement.warmup_steps
    steady = steady_spans(result.spans, warmup_steps=warmup_steps)
    speed = samples_per_second(steady, result.placement.global_batch_size) if result.placement else None
    found = (
        *find_speed_cautions(result, warmup_steps=warmup_steps),
        *check_work(speed, result),
        *check_waiting(result),
        *_check_shared_cores(result),
        *_check_replicas(result),
        *(result.placement.notes if result.placement else ()),
        *find_early_cautions(result),
        *_check_executions(result),
        *_check_loss(result),
        *check_learning(result),
        *find_requested_cautions(result),
    )
    return tuple(dict.fromkeys(found))


def find_speed_cautions(result: RunResult, *, warmup_steps: int | None = None) -> tuple[str, ...]:
    """Returns the cautions that speak against a run's speed: what disturbed it, and what was measured too shortly.

    That replicas share cores is no disturbance, and what limits a training is none: those are not among them.

    Args:
        result: A run, finished or not.
        warmup_steps: As of `find_cautions`.
    """
    if result.request.profile:
        return tuple(dict.fromkeys((*check_machine(result), *check_gpus(result), *result.notes)))
    if warmup_steps is None:
        warmup_steps = result.request.recipe.measurement.warmup_steps
    steady = steady_spans(result.spans, warmup_steps=warmup_steps)
    found = (
        *_check_journal(result),
        *check_machine(result),
        *check_gpus(result),
        *check_steady_spans(steady, result, warmup_steps),
        *_check_clock(result),
        *_check_threads(result),
        *result.notes,
    )
    return tuple(dict.fromkeys(found))


def find_early_cautions(result: RunResult) -> tuple[str, ...]:
    """Returns the cautions that a user should see before waiting for a run whose devices are known."""
    unused = (result.placement.unused_gpu,) if result.placement and result.placement.unused_gpu else ()
    return unused if result.request.profile else (*unused, *_check_purpose(result))


def find_requested_cautions(result: RunResult) -> tuple[str, ...]:
    """Returns the cautions about what the user asked for himself: synthetic data, a limited run."""
    return (*_check_data(result), *_check_length(result))


def _check_journal(result: RunResult) -> Iterator[str]:
    if number := result.num_unreadable_lines:
        yield (
            f"{count(number, 'line')} of the run's journal could not be read, and what it held, an epoch or times of "
            "steps, is missing here. A process that is killed while it writes leaves one behind; look at the disk if "
            "none was."
        )


def _check_purpose(result: RunResult) -> Iterator[str]:
    devices = result.placement.devices if result.placement else ()
    kinds = {device.partition(":")[0] for device in devices}
    for kind in kinds.intersection(result.request.recipe.recipe.not_meant_for):
        yield f"this recipe is not meant for {kind}: {_NOT_MEANT_FOR[kind]}"


def _check_data(result: RunResult) -> Iterator[str]:
    if result.is_synthetic:
        is_made = result.request.recipe.dataset.name == "network"
        remedy = "Add load_data() beside the network" if is_made else "Use real data (--data real)"
        yield f"synthetic data: accuracy says nothing of the real task. {remedy} to learn about it."


def _check_shared_cores(result: RunResult) -> Iterator[str]:
    devices = result.placement.devices if result.placement else ()
    num_cpus = sum(device.startswith("cpu") for device in devices)
    if num_cpus > 1:
        yield (
            f"{num_cpus} logical CPU devices share the same physical cores: this run shows that the strategy works, "
            "and says nothing of the speed of more hardware. Use GPUs to measure how training scales."
        )


def _check_replicas(result: RunResult) -> Iterator[str]:
    if (check := result.replica_check) and check.reason:
        yield (
            f"the first step of several devices was not compared with that of one: {check.reason}. Compare the losses "
            "with those of a run on one device."
        )


def _check_threads(result: RunResult) -> Iterator[str]:
    threads = result.placement.threads if result.placement else None
    if threads and threads.num_devices > 1 and not threads.is_shared:
        expected = threads.expected_intra_op_threads
        pools = "a pool each" if threads.intra_op_threads == threads.num_devices * expected else "something else"
        yield (
            f"{threads.num_devices} logical CPU devices should share one pool of {count(expected, 'thread')} for their "
            f"operations; TensorFlow was seen to start {threads.intra_op_threads}, {pools}: this run had other threads "
            "than one on a single device. Do not compare them."
        )


def _check_clock(result: RunResult) -> Iterator[str]:
    if result.request.recipe.measurement.clock == "step":
        yield (
            'clock = "step": the device was waited for after every step, which slows small networks down. '
            'Do not compare this run with runs of clock = "span".'
        )


def _check_length(result: RunResult) -> Iterator[str]:
    recipe = result.request.recipe
    limits = []
    if recipe.measurement.steps is not None:
        limits.append(f"{recipe.measurement.steps} steps")
    if recipe.measurement.seconds is not None:
        limits.append(f"{recipe.measurement.seconds:g} s")
    if limits:
        yield (
            f"limited to {' or '.join(limits)} after the warm-up, not trained to the recipe's "
            f"{count(recipe.training.epochs, 'epoch')}: loss and accuracy are not those of a trained model, and "
            "nothing was validated. Leave out --steps and --seconds to train to the end."
        )
    left_out = [name for name in _ONLY_TO_THE_END if getattr(recipe.output, name)] if limits else []
    if left_out:
        yield (
            f"not done, since the run was limited: {', '.join(f'output.{name}' for name in left_out)}. "
            "Leave out --steps and --seconds to have it done."
        )


def _check_executions(result: RunResult) -> Iterator[str]:
    recipe, per_epoch = result.request.recipe, result.steps_per_epoch
    per_execution = recipe.training.steps_per_execution
    if recipe.training.data_on_device:
        return  # its executions end with the epoch
    if per_epoch and per_epoch % per_execution and not recipe.measurement.is_limited:
        executed = per_epoch + -per_epoch % per_execution
        yield (
            f"an epoch takes {executed} steps instead of {per_epoch}: training.steps_per_execution ({per_execution}) "
            "does not divide it, and an execution is not cut short. Choose one that does to compare epochs."
        )


def _check_loss(result: RunResult) -> Iterator[str]:
    broken = [record.epoch for record in result.epochs if record.loss is None]
    if broken:
        later = [record.epoch for record in result.epochs if record.epoch >= broken[0]]
        where = f"from epoch {broken[0]} on" if broken == later else f"in {_list_epochs(broken)}"
        yield f"loss was not finite {where}: the model did not learn. Lower training.optimizer.learning_rate."


def _list_epochs(epochs: Iterable[int]) -> str:
    numbers = [str(epoch) for epoch in epochs]
    return f"{'epoch' if len(numbers) == 1 else 'epochs'} {', '.join(numbers)}"
