"""What makes a setup slower, as far as its runs tell, and which command would measure what they do not."""

import shlex

from tfbench.analysis.comparison.comparison import Entry
from tfbench.analysis.comparison.intervals import geometric_mean
from tfbench.analysis.run.training_warnings import MIN_HEADROOM
from tfbench.recipe import files
from tfbench.recipe.sections import CUTTING_STRATEGIES
from tfbench.recipe.toml_text import describe_values
from tfbench.records.sweep import BACKEND_KEY, BATCH_KEY

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


def describe_cause(entry: Entry) -> str:
    """Returns what was measured that makes a setup slower: a sentence after a blank; "" where nothing is known."""
    share, collectives = input_share(entry), traced_share(entry, "transfer_share")
    if share is not None and 1 / MIN_HEADROOM < share <= 1:  # more than the step it is part of tells nothing
        return f" The input pipeline alone takes {100 * share:.0f} % of a step."
    return f" Collectives take {100 * collectives:.0f} % of a step." if collectives else ""


def input_share(entry: Entry) -> float | None:
    """Returns the share of a step's time that its input would take alone; None: not measured."""
    headrooms = [headroom for run in entry.runs if (headroom := run.metrics.get("input_headroom"))]
    return 1 / geometric_mean(headrooms) if headrooms else None


def traced_share(entry: Entry, name: str) -> float | None:
    """Returns a share of a step, of those that its runs traced after the training: their mean; None: none did."""
    shares = [share for run in entry.runs if (share := run.metrics.get(name)) is not None]
    return sum(shares) / len(shares) if shares else None


def exchanged_bytes(entry: Entry) -> float | None:
    """Returns the bytes of a step's collectives, or of the gradients where they were not read back; None: not known."""
    run = entry.runs[0]
    if (found := run.metrics.get("collective_bytes_per_step")) is not None:
        return found
    trained = run.metrics.get("num_trainable_parameters")
    if run.num_devices == 1:
        return 0.0
    return None if trained is None or run.strategy in CUTTING_STRATEGIES else _BYTES_PER_PARAMETER * trained


def profile_command(entry: Entry, base: Entry) -> str:
    """Returns the command that profiles the step of one replica of a slower setup.

    A recipe that is not shipped is taken from a file NAME.toml. "" of a setup without replicas, and where other devices
    or backends are as good a reason as the replicas.
    """
    run = entry.runs[0]
    if run.num_devices == 1 or run.strategy in CUTTING_STRATEGIES or _place(entry) != _place(base):
        return ""
    alone, batch = "one_device" if run.backend == "tensorflow" else "default", entry.global_batch_size or 0
    is_shipped = (files.shipped_folder() / f"{run.recipe}.toml").is_file()
    words = ["tfbench", "profile", run.recipe if is_shipped else f"{run.recipe}.toml"]
    if run.settings.get("dataset.data") == "synthetic" and "dataset.data" in run.overrides:
        words += ["--data", "synthetic"]
    if run.backend != "tensorflow":
        words += ["--backend", run.backend]
    words += ["--strategy", alone, "--devices", run.devices[0], "--global-batch-size", str(batch // run.num_replicas)]
    values = {
        name: value
        for key in run.overrides
        if key.startswith(_OF_A_STEP) and key not in _NOT_OF_A_STEP
        for name, value in run.settings.items()
        if value is not None and (name == key or name.startswith(f"{key}."))  # those of tables each by itself
    }
    return shlex.join([*words, *describe_values(values)])


def _place(entry: Entry) -> set[str]:
    kinds = {device.partition(":")[0] for run in entry.runs for device in run.devices}
    return kinds | {name for run in entry.runs for name in (*run.hardware, run.backend)}
