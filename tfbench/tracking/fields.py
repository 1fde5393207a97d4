"""What of a run goes into MLflow, as plain names and values."""

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from tfbench.comparisons.equality import flatten
from tfbench.metrics import EPOCH_SERIES, LEARNING_METRICS, TRACKED_METRICS
from tfbench.profiles.estimate import summarize_profile
from tfbench.profiles.profile_text import describe_bottleneck
from tfbench.recipe import tables as recipe_tables
from tfbench.runs.record import EpochRecord, RunRequest, RunResult, Summary
from tfbench.runs.run_text import status_line
from tfbench.show.figures import SETUP_COLORS
from tfbench.show.formats import format_speed
from tfbench.sweeps.plan import label_setup
from tfbench.tags import (
    CPU_TAG,
    CUDA_TAG,
    CURRENCY_TAG,
    DATA_TAG,
    DRIVER_TAG,
    HARDWARE_TAG,
    HOST_TAG,
    INSTANCE_TAG,
    PROFILE_TAG,
    REASON_TAG,
    RECIPE_TAG,
    RESULT_TAG,
    ROUND_TAG,
    RUN_TAG,
    SETUP_TAG,
    SWEEP_TAG,
    SYNTHETIC_TAG,
    VERSION_TAG,
    WARNINGS_TAG,
)
from tfbench.tracking.mlflow_view import AXES
from tfbench.wording import cut, markdown_text

MAX_PARAM_CHARACTERS = 6000  # MLflow cuts longer values without a word
MAX_TAG_CHARACTERS = 8000
MAX_METRIC_CHARACTERS = 250  # of its name
COLOR_TAG = "mlflow.runColor"

# Of a recipe, beside its network and what the user set; result.json has all of it. The batch size
# is the placement's.
_PARAMS = (
    "dataset.name",
    "dataset.file",
    "dataset.data",
    "training.backend",
    "training.epochs",
    "training.optimizer.name",
    "training.optimizer.learning_rate",
    "training.precision",
    "training.compiler",
)
_NO_PARAMS = (
    "training.global_batch_size",
    "distribution.strategy",
    "distribution.devices",
    "reference",
    "sweep.",
)
_STRATEGIES = ("default", "one_device", "mirrored")
_OTHER_COLORS = {"jax": 7, "torch": 8}


def params(result: RunResult) -> dict[str, str]:
    """Returns what runs are compared by.

    That is the setup, the network, the data, what is often varied, and all that the user set.
    """
    request = result.request
    values: dict[str, Any] = {}
    if placement := result.placement:
        backend = request.recipe.training.backend
        values = {
            "setup": (
                request.tags.get(SETUP_TAG)
                or label_setup(placement.strategy, placement.devices, backend)
            ),
            "global_batch_size": placement.global_batch_size,
            "strategy": placement.strategy,
            "num_workers": placement.num_workers if placement.num_workers > 1 else None,
        }
    left_out: tuple[str, ...] = _NO_PARAMS
    own_optimizer = result.model.own_optimizer if result.model else None
    if own_optimizer:  # the recipe's is not used
        left_out = (*left_out, "training.optimizer.")
    wanted = tuple(f"{name}." for name in (*_PARAMS, "model", *request.overrides))
    for key, value in flatten(recipe_tables.to_tables(request.recipe)).items():
        if f"{key}.".startswith(wanted) and not key.startswith(left_out):
            values[key] = value
    if own_optimizer:
        values["training.optimizer.name"] = own_optimizer
    texts = {}
    for name, value in values.items():
        if value not in (None, ""):
            texts[name] = cut(_text(value), MAX_PARAM_CHARACTERS)
    return texts


def epoch_metrics(epoch: EpochRecord) -> dict[str, float]:
    """Returns the metrics of one epoch that exist.

    Names of a compiled network's own metrics keep only the characters that MLflow takes.
    """
    values = {}
    for name, value in epoch.metrics.items():
        values[re.sub(r"[^\w -]", "_", name)[:MAX_METRIC_CHARACTERS]] = value
    for name in EPOCH_SERIES:
        values[f"by_epoch/{name}"] = getattr(epoch, name)
    for name in LEARNING_METRICS:
        values[name] = getattr(epoch, name)
    return _existing(values)


def summary_metrics(summary: Summary) -> dict[str, float]:
    """Returns a run's figures that exist and that MLflow shows, the most important first."""
    metrics = summary.metrics
    groups = [name for name in metrics if name.startswith(("cost/", "profile/"))]
    values = {name: metrics.get(name) for name in (*TRACKED_METRICS, *groups)}
    for axis, (name, logarithm) in AXES.items():
        if value := metrics.get(name):
            values[axis] = logarithm(value)
    return _existing(values)


def tags(result: RunResult, summary: Summary | None) -> dict[str, str]:
    """Returns what describes a run: identity, hardware, versions, data, and its warnings."""
    request = result.request
    values: dict[str, str | None] = {
        **request.tags,
        "mlflow.runName": run_name(result),
        "mlflow.source.name": "tfbench",
        "mlflow.source.type": "LOCAL",
        RUN_TAG: request.run_id,
        RECIPE_TAG: request.recipe.name,
        SYNTHETIC_TAG: _text(result.is_synthetic),
        PROFILE_TAG: request.profile.kind if request.profile else None,
    }
    if request.recipe.cost.price_per_hour is not None:
        values |= {
            CURRENCY_TAG: request.recipe.cost.currency,
            INSTANCE_TAG: request.recipe.cost.instance,
        }
    if placement := result.placement:
        backend = request.recipe.training.backend
        values[COLOR_TAG] = color_of(placement.strategy, placement.devices, backend)
        values[HARDWARE_TAG] = ", ".join(dict.fromkeys(placement.hardware))
    if result.dataset:
        source = result.dataset.source
        if result.is_synthetic and "synthetic" not in source:
            source = f"synthetic, {source}"
        values[DATA_TAG] = source
    if environment := result.environment:
        values |= {
            VERSION_TAG: environment.tfbench,
            HOST_TAG: environment.hostname,
            CPU_TAG: environment.cpu_model,
            DRIVER_TAG: environment.gpus[0].driver if environment.gpus else None,
            CUDA_TAG: (
                environment.tensorflow_cuda or environment.jax_cuda or environment.torch_cuda
            ),
            **{
                name: getattr(environment, name)
                for name in ("tensorflow", "jax", "torch", "keras", "python")
            },
            "mlflow.source.git.commit": environment.git_commit,
        }
    if summary:
        speed = summary.metrics.get("samples_per_second")
        if speed is not None:
            values[RESULT_TAG] = f"{format_speed(speed)} samples/s"
        values[WARNINGS_TAG] = "\n".join(summary.warnings)
        values["mlflow.note.content"] = describe(result, summary)
    if result.exit:
        values[REASON_TAG] = result.reason
        if result.status != "FINISHED":
            values[RESULT_TAG] = f"{result.status}: {result.reason}"
    return {name: cut(value, MAX_TAG_CHARACTERS) for name, value in values.items() if value}


def run_name(result: RunResult) -> str:
    """Returns the run's name in MLflow, which is all that a chart shows of it.

    It names synthetic data, too. MLflow cuts names at the right: in a sweep, what its runs differ
    by comes before what they share.
    """
    name = result.request.name
    if SWEEP_TAG in result.request.tags:
        name = _name_in_sweep(result.request)
    if result.is_synthetic and "synthetic" not in name:
        return f"{name}-synthetic"
    return name


def _name_in_sweep(request: RunRequest) -> str:
    """Returns a name such as "b32-r1-default-cpu:0-1000x1000-mnist_mlp".

    The network comes first if it may not be the same in all runs.
    """
    recipe = request.recipe.name
    batch = f"b{request.recipe.training.global_batch_size}"
    turn = f"r{request.tags.get(ROUND_TAG, '')}"
    name = request.name.removesuffix(f"-{turn}").removeprefix(recipe)
    network, separator, setup = name.partition(f"-{batch}-")
    if not separator:
        return request.name
    network = network[1:]
    is_varied = any(key.startswith("model.") for key in request.overrides)
    parts = [network, batch, turn, setup] if is_varied else [batch, turn, setup, network]
    return "-".join(part for part in (*parts, recipe) if part)


def color_of(strategy: str, devices: Sequence[str], backend: str) -> str:
    """Returns the colour of a setup in MLflow's tables and charts.

    The usual setups of TensorFlow have one each; its others share one, as do those of another
    backend. A sweep gives its setups different ones.
    """
    place = _OTHER_COLORS.get(backend, 6)
    if backend == "tensorflow" and strategy in _STRATEGIES and len(devices) <= 2:
        place = 2 * _STRATEGIES.index(strategy)
        if any(device.startswith("gpu") for device in devices):
            place += 1
    return SETUP_COLORS[place]


def describe(result: RunResult, summary: Summary) -> str:
    """Returns a run in a few lines of Markdown; MLflow shows its figures beside them."""
    lines = [f"**{markdown_text(result.request.recipe.recipe.title)}**", ""]
    if profile := result.request.profile:  # first: MLflow folds the rest away
        step = summarize_profile(result)
        bottleneck = describe_bottleneck(step) if step else ""
        lines += [f"Profile ({profile.kind}), no training. {bottleneck}".rstrip(), ""]
    lines += [f"- {markdown_text(text)}" for text in (*summary.notes, status_line(result))]
    if summary.warnings:
        lines += ["", "Warnings:", ""]
        lines += [f"- {markdown_text(warning)}" for warning in summary.warnings]
    return "\n".join(lines)


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _existing(values: Mapping[str, float | None]) -> dict[str, float]:
    existing = {}
    for name, value in values.items():
        if value is not None and math.isfinite(value):
            existing[name] = float(value)
    return existing
