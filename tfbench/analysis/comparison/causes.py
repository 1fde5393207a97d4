"""What makes an arm slower, as far as its runs tell, and which command would measure what they do not."""

import shlex
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from tfbench.analysis.comparison.brief import RunBrief
from tfbench.analysis.comparison.comparison import Entry, shares_cores
from tfbench.analysis.comparison.intervals import geometric_mean
from tfbench.analysis.run.work import MIN_HEADROOM
from tfbench.recipe import files
from tfbench.recipe.sections import CUTTING_STRATEGIES
from tfbench.recipe.toml_text import describe_values
from tfbench.records.sweep import BACKEND_KEY, BATCH_KEY
from tfbench.wording import describe_span

# What changes nothing of a step, or is given by an option of its own.
_NOT_OF_A_STEP = (
    BATCH_KEY,
    BACKEND_KEY,
    "dataset.data",
    "training.epochs",
    "training.seed",
    "training.steps_per_execution",
    "training.data_on_device",
)
_BYTES_PER_PARAMETER = 4  # replicas exchange gradients of 32 bits
_OF_A_STEP = ("model.", "dataset.", "training.")


def describe_cause(entries: Sequence[Entry], base: Entry) -> str:
    """Says what the steps of a slower arm are made of, and what would measure what they take longer for.

    Args:
        entries: Of one arm, at the settings at which it is slower, the slowest last; with runs.
        base: What the last of them is slower than. Other devices, or back ends, are as good a reason as the replicas.

    Returns:
        Sentences after a blank; "" where nothing is known.
    """
    has_replicas = entries[-1].runs[0].num_devices > 1
    parts = [_describe_steps(entries)] if has_replicas else []
    if has_replicas and _place(entries[-1]) == _place(base):
        parts.append(_describe_measuring(entries[-1]))
    shares = [share for entry in entries if (share := input_share(entry)) is not None and is_input_large(share)]
    if shares:
        span = describe_span([100 * share for share in shares], " %")
        parts.append(f"Their input alone takes {span} of a step, and may be what limits.")
    return "".join(f" {part}" for part in parts)


def rest_sentence(entry: Entry) -> str:
    """Says what of a step over several devices is not told apart, and what would measure the devices' own part.

    Args:
        entry: With a run, over several devices.
    """
    run = entry.runs[0]
    num, batch = run.num_devices, _per_replica(entry)
    is_traced = traced_share(entry, "transfer_share") is not None
    exchange = "its collectives" if is_traced else "the exchange, the replicas' waiting for each other"
    rest = f"{exchange}, the input of the whole batch and the strategy"
    if run.strategy in CUTTING_STRATEGIES:
        rest = rest.replace("replicas'", "devices'")
        return f"a device's own work, {rest} are what a step takes, together."
    command = profile_command(run, batch)
    text = f"`{command}` measures the step of one replica with its part of the batch, {batch:,} samples"
    if shares_cores(run):
        return f"{text}; what a step of {entry.arm} takes differs from {num} such steps by {rest}, together."
    return f"{text}; {rest} are what a step of {entry.arm} takes beyond that, together."


def input_share(entry: Entry) -> float | None:
    """Returns the share of a step's time that its input would take alone; None: not measured."""
    headrooms = [headroom for run in entry.runs if (headroom := run.metrics.get("input_headroom"))]
    return 1 / geometric_mean(headrooms) if headrooms else None


def traced_share(entry: Entry, name: str) -> float | None:
    """Returns a share of a step, of those that its runs traced after the training: their mean; None: none did."""
    shares = [share for run in entry.runs if (share := run.metrics.get(name)) is not None]
    return sum(shares) / len(shares) if shares else None


def is_input_large(share: float) -> bool:
    """Says whether the input may be what limits; one that takes longer than the step it is part of tells nothing."""
    return 1 / MIN_HEADROOM < share <= 1


def exchanged_bytes(entry: Entry) -> float | None:
    """Returns the bytes of a step's collectives, or of the gradients where they were not read back; None: not known."""
    run = entry.runs[0]
    if (found := run.metrics.get("collective_bytes_per_step")) is not None:
        return found
    trained = run.metrics.get("num_trainable_parameters")
    if run.num_devices == 1:
        return 0.0
    return None if trained is None or run.strategy in CUTTING_STRATEGIES else _BYTES_PER_PARAMETER * trained


def profile_command(brief: RunBrief, global_batch_size: int) -> str:
    """Returns the command that profiles the step of one replica of a run.

    Args:
        brief: The run; a recipe that is not shipped is taken from a file NAME.toml.
        global_batch_size: Of the one replica.
    """
    alone = "one_device" if brief.backend == "tensorflow" else "default"
    words = [*_command("profile", brief), "--strategy", alone, "--devices", brief.devices[0]]
    words += ["--global-batch-size", str(global_batch_size)]
    keys = [key for key in brief.overrides if key.startswith(_OF_A_STEP) and key not in _NOT_OF_A_STEP]
    return shlex.join([*words, *describe_values(dict(_list_values(brief, keys)))])


def _command(name: str, brief: RunBrief) -> list[str]:
    """Returns a command for the recipe of a run, with its back end, and whether its data are synthetic."""
    is_shipped = (files.shipped_folder() / f"{brief.recipe}.toml").is_file()
    words = ["tfbench", name, brief.recipe if is_shipped else f"{brief.recipe}.toml"]
    if brief.settings.get("dataset.data") == "synthetic" and "dataset.data" in brief.overrides:
        words += ["--data", "synthetic"]
    if brief.backend != "tensorflow":
        words += ["--backend", brief.backend]
    return words


def _list_values(brief: RunBrief, keys: Iterable[str]) -> Iterator[tuple[str, Any]]:
    """Yields what the run was given beside its recipe, with the values of tables each by itself."""
    for key in keys:
        for name, value in brief.settings.items():
            if (name == key or name.startswith(f"{key}.")) and value is not None:
                yield name, value


def _describe_steps(entries: Sequence[Entry]) -> str:
    steps = [1e3 * seconds for entry in entries if (seconds := entry.step_seconds) is not None]
    volumes = [volume / 2**20 for entry in entries if (volume := exchanged_bytes(entry)) is not None]
    samples = describe_span([_per_replica(entry) for entry in entries], " samples")
    has_parts = entries[-1].runs[0].strategy in CUTTING_STRATEGIES
    text = f"A step takes {describe_span(steps, ' ms')} there, for {samples} a {'device' if has_parts else 'replica'}"
    if volumes:
        how = "(compiled collectives)" if has_parts else "of gradients (computed: 4 bytes a trained weight)"
        text += f" and an exchange of {describe_span(volumes, ' MiB')} {how}"
    return f"{text}."


def _describe_measuring(entry: Entry) -> str:
    start = "No core is added. " if shares_cores(entry.runs[0]) else ""
    whose = "devices'" if entry.runs[0].strategy in CUTTING_STRATEGIES else "replicas'"
    return f"{start}The {whose} net cost was not broken down: {rest_sentence(entry)}"


def _place(entry: Entry) -> set[str]:
    kinds = {device.partition(":")[0] for run in entry.runs for device in run.devices}
    return kinds | {name for run in entry.runs for name in (*run.hardware, run.backend)}


def _per_replica(entry: Entry) -> int:
    return (entry.global_batch_size or 0) // entry.runs[0].num_replicas
