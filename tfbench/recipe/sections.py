"""A recipe: one workload and how to measure it, as frozen sections that check their own values.

The defaults below are the documented defaults; a run's record holds them written out. Names are Keras's and
tf.distribute's own. No part of a run but the entry points sees more than the section it needs.
"""

import dataclasses
import re
from typing import Annotated, Any, Literal

import pydantic

from tfbench.recipe.optimizers import AdadeltaConfig, AdamConfig, RmspropConfig, SgdConfig
from tfbench.schema import (
    Count,
    Flag,
    Fraction,
    NaturalNumber,
    NonNegativeNumber,
    Number,
    PositiveNumber,
    Text,
    one_of,
    schema,
)
from tfbench.wording import shorten

BatchSize = Annotated[Count, pydantic.Field(le=16_777_216)]
Threads = Annotated[NaturalNumber, pydantic.Field(le=4096)]
REGRESSION_LOSSES = ("mean_squared_error", "summed_squared_error")
Head = Literal["logits", "double_softmax"]
MAX_SEED = 2**31 - 1
Seed = Annotated[NaturalNumber, pydantic.Field(le=MAX_SEED)]
Accuracy = Annotated[Number, pydantic.Field(ge=0, le=1)]


def _require_epoch(text: str) -> str:
    if not re.fullmatch(r"[1-9][0-9]{0,6}", text):
        raise ValueError(f"must be the number of an epoch, from 1 on. Received: '{shorten(text)}'.")
    return text


def _require_band(value: Any) -> Any:
    is_pair = isinstance(value, list | tuple) and len(value) == 2
    if not is_pair or (all(isinstance(number, int | float) for number in value) and value[0] > value[1]):
        raise ValueError(f"must be [lowest, highest]. Received: {shorten(repr(value))}.")
    return value


def _require_direction(text: str) -> str:
    if not re.fullmatch(r"(forward|backward)/.+", text):
        raise ValueError(f"must be forward/LAYER or backward/LAYER. Received: '{shorten(text)}'.")
    return text


EpochKey = Annotated[str, pydantic.AfterValidator(_require_epoch)]  # the keys of TOML and JSON are strings
AccuracyBand = Annotated[tuple[Accuracy, Accuracy], pydantic.BeforeValidator(_require_band)]
DirectionKey = Annotated[str, pydantic.AfterValidator(_require_direction)]
LossBand = Annotated[tuple[NonNegativeNumber, NonNegativeNumber], pydantic.BeforeValidator(_require_band)]


@schema
class RecipeInfo:
    """What the workload is and where it comes from."""

    title: Text
    source: Text
    notes: str = ""
    not_meant_for: tuple[Literal["cpu", "gpu"], ...] = ()  # kinds of devices on which a run is possible, but warned of


@schema
class ModelConfig:
    """Which model; `options` are the values of that model's own `Config`, defaults included."""

    name: Text
    options: dict[str, Any] = dataclasses.field(default_factory=dict)


@schema
class DatasetConfig:
    """Which data set, and whether its real samples are used or a synthetic stand-in of the same shape and size."""

    name: Text
    data: Literal["real", "synthetic"] = "real"
    options: dict[str, Any] = dataclasses.field(default_factory=dict)


@schema
class TrainingConfig:
    """How the model is trained; everything that could differ between two arms is explicit here, never "auto".

    `head` and `validation_head` say what the cross-entropy is fed with. "logits": the model's output. "double_softmax":
    its softmax, to which the cross-entropy applies a second one; the loss of n classes then lies between
    log(n - 1 + e) - 1 and log(n - 1 + e), for ten classes 1.461 and 2.461, and is not comparable with the usual one.

    `loss = "summed_squared_error"` sums the mean squared errors of a sequence's steps, where "mean_squared_error"
    averages them. `evaluates_training` adds loss and accuracy of the training samples in inference mode after each
    epoch. Training ends early once the validation accuracy reaches `stop_at_val_accuracy`, or once the training error
    (the loss; in inference mode if that is evaluated) changes by less than `stop_below_error_change` from one epoch to
    the next.
    """

    global_batch_size: BatchSize
    epochs: Annotated[Count, pydantic.Field(le=1_000_000)]
    # mypy cannot follow a type that is made when the program runs.
    optimizer: one_of(AdamConfig, SgdConfig, AdadeltaConfig, RmspropConfig) = dataclasses.field(  # type: ignore[valid-type]
        default_factory=AdamConfig
    )
    loss: Literal["sparse_categorical_crossentropy", "mean_squared_error", "summed_squared_error"] = (
        "sparse_categorical_crossentropy"
    )
    head: Head = "logits"
    validation_head: Head = "logits"
    validation_batch_size: BatchSize | None = None
    evaluates_training: Flag = False
    stop_at_val_accuracy: Fraction | None = None
    stop_below_error_change: PositiveNumber | None = None
    steps_per_execution: Annotated[Count, pydantic.Field(le=100_000)] = 1
    jit_compile: Flag = False
    precision: Literal["float32", "mixed_float16", "mixed_bfloat16"] = "float32"
    tensor_float_32: Flag = (
        False  # TensorFlow's own default, true, makes "float32" mean less on some GPUs than on a CPU
    )
    deterministic: Flag = False
    seed: Seed = 0
    intra_op_threads: Threads = 0
    inter_op_threads: Threads = 0

    def __post_init__(self) -> None:
        if self.jit_compile and self.deterministic:
            raise ValueError(
                "jit_compile cannot be true with deterministic = true: Keras switches XLA off under op determinism, "
                "so that the run would not be the one asked for. Set one of them to false."
            )
        if "double_softmax" in (self.head, self.validation_head) and self.loss != "sparse_categorical_crossentropy":
            raise ValueError(f"head: double_softmax needs sparse_categorical_crossentropy. Received: {self.loss}.")


@schema
class DistributionConfig:
    """Strategy and devices. None named: `mirrored` takes every GPU, the others the first; without GPUs the CPU."""

    strategy: Literal["default", "one_device", "mirrored"] = "default"
    devices: tuple[Text, ...] = ()
    cross_device_ops: Literal["auto", "nccl", "hierarchical_copy", "reduction_to_one_device"] = "auto"


@schema
class MeasurementConfig:
    """How the clock is read, and when to stop before the recipe's epochs are done.

    `clock = "span"`: a reading as soon as `min_span_seconds` have passed, then one synchronisation with the device.
    `clock = "step"`: a synchronisation after every step; gives percentiles of single steps, slows small networks down
    and is not comparable with "span".

    `warmup_steps`: leading steps that are in no figure of speed. The first traces and compiles; the next two were seen
    to take up to 1.5 times as long as later ones; and the first seven use batches that were made, or begun, while the
    first one compiled. `checks`: after the training, a second or two for the input pipeline alone and for the peak of
    the devices, which the speed is held against.
    """

    clock: Literal["span", "step"] = "span"
    min_span_seconds: Annotated[PositiveNumber, pydantic.Field(le=60)] = 0.05
    warmup_steps: Count = 10
    steps: Count | None = None
    seconds: PositiveNumber | None = None
    checks: Flag = True

    @property
    def is_limited(self) -> bool:
        """Whether the run stops after a number of steps or seconds instead of the recipe's epochs."""
        return self.steps is not None or self.seconds is not None


@schema
class OutputConfig:
    """What a run leaves besides its figures.

    `snapshot_every_epochs`: a snapshot to resume from, the newest `snapshots_kept` of them; None: none. `saves_model`:
    the trained model as `model.keras`. `draws_model`: its graph as `model.png`. `num_predictions`: so many labels of
    the validation set and what the model takes them for. `per_class_accuracy`: of the validation set.
    """

    snapshot_every_epochs: Count | None = None
    snapshots_kept: Count = 2
    saves_model: Flag = False
    draws_model: Flag = False
    num_predictions: Annotated[NaturalNumber, pydantic.Field(le=10_000)] = 0
    per_class_accuracy: Flag = False


@schema
class InstancePrice:
    """What an hour of another machine costs, and how fast that machine is beside this one."""

    instance: Text
    price_per_hour: NonNegativeNumber
    relative_speed: Annotated[PositiveNumber, pydantic.Field(le=1e6)] = 1.0


@schema
class CostConfig:
    """What the machine costs; prices in `currency`."""

    price_per_hour: NonNegativeNumber | None = None
    instance: str = ""
    currency: Annotated[Text, pydantic.Field(max_length=8)] = "USD"
    storage_gib: NonNegativeNumber = 0.0
    storage_price_per_gib_month: NonNegativeNumber = 0.0
    alternatives: tuple[InstancePrice, ...] = ()


@schema
class ExpectConfig:
    """What a run on real data should learn; one that does not is marked, since speed without learning is void.

    The tables go from an epoch, "12", to the lowest and the highest value after it. `target_accuracy`: the time, and
    the cost where there is a price, until val_accuracy reaches it is reported.
    """

    val_accuracy_at_epoch: dict[EpochKey, AccuracyBand] = dataclasses.field(default_factory=dict)
    val_loss_at_epoch: dict[EpochKey, LossBand] = dataclasses.field(default_factory=dict)
    target_accuracy: Annotated[Number, pydantic.Field(gt=0, le=1)] | None = None


@schema
class Reference:
    """Published figures to stand beside ours; `verified = false` where one could not be checked at its source.

    `layer_seconds`: of a step, by direction and layer, "backward/pool". `not_comparable`: why none of its times can be
    held against ours.
    """

    hardware: Text
    devices: Text
    source: Text
    figures: dict[str, Number]
    curve: dict[str, tuple[Number, ...]] = dataclasses.field(default_factory=dict)
    layer_seconds: dict[DirectionKey, PositiveNumber] = dataclasses.field(default_factory=dict)
    verified: Flag = True
    notes: str = ""
    not_comparable: str = ""


@schema
class Recipe:
    """A whole recipe, as resolved: defaults written out, overrides applied."""

    name: Text
    recipe: RecipeInfo
    model: ModelConfig
    dataset: DatasetConfig
    training: TrainingConfig
    distribution: DistributionConfig = dataclasses.field(default_factory=DistributionConfig)
    measurement: MeasurementConfig = dataclasses.field(default_factory=MeasurementConfig)
    output: OutputConfig = dataclasses.field(default_factory=OutputConfig)
    cost: CostConfig = dataclasses.field(default_factory=CostConfig)
    expect: ExpectConfig = dataclasses.field(default_factory=ExpectConfig)
    sweep: dict[str, tuple[Any, ...]] = dataclasses.field(default_factory=dict)  # what `tfbench sweep` varies
    reference: tuple[Reference, ...] = ()
