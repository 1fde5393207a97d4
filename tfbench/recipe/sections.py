"""A recipe: one workload and how to measure it, as frozen sections that check their own values.

The defaults below are the documented defaults; a run's record holds them written out. Names are
Keras's and tf.distribute's own. No part of a run but the entry points sees more than the section it
needs.
"""

import dataclasses
from typing import Annotated, Any, Literal

import pydantic

from tfbench.recipe import registry
from tfbench.recipe.backend_support import (
    COMPILERS,
    ONE_STEP_A_CALL,
    PREFETCHED_BATCHES,
    BackendName,
    Compiler,
)
from tfbench.recipe.mesh import MeshAxis
from tfbench.recipe.optimizers import AdamConfig, AnyOptimizer
from tfbench.recipe.value_types import AccuracyBand, EpochKey, LossBand, VariedKey, read_options
from tfbench.schema import (
    Count,
    Currency,
    Flag,
    Fraction,
    NaturalNumber,
    NonNegativeNumber,
    Number,
    PositiveNumber,
    Text,
    schema,
)

BatchSize = Annotated[Count, pydantic.Field(le=16_777_216)]
Threads = Annotated[NaturalNumber, pydantic.Field(le=4096)]
REGRESSION_LOSSES = ("mean_squared_error", "summed_squared_error")
Head = Literal["logits", "double_softmax"]
Precision = Literal["float32", "mixed_float16", "mixed_bfloat16"]
StrategyName = Literal["default", "one_device", "mirrored", "multi_worker", "model", "hybrid"]
CUTTING_STRATEGIES = ("model", "hybrid")  # under which weights lie in parts
MAX_SEED = 2**31 - 1
Seed = Annotated[NaturalNumber, pydantic.Field(le=MAX_SEED)]


@schema
class RecipeInfo:
    """What the workload is and where it comes from."""

    title: Text
    """Name of the workload in tables and plots."""
    source: Text
    """Where the workload comes from."""
    notes: str = ""
    """What the original left open, and what was chosen."""
    not_meant_for: tuple[Literal["cpu", "gpu"], ...] = ()
    """Kinds of devices on which a run gets a warning."""


@schema
class ModelConfig:
    """Which model; `options` are the values of that model's own `Config`, defaults included."""

    name: Text
    options: dict[str, Any] = dataclasses.field(default_factory=dict)


@schema
class DatasetConfig:
    """The data set, with real samples or a synthetic stand-in of the same shape and size."""

    name: Text
    data: Literal["real", "synthetic"] = "real"
    """Real samples, or synthetic ones of the same shapes, types, classes and number."""
    options: dict[str, Any] = dataclasses.field(default_factory=dict)


@schema
class TrainingConfig:
    """How the model is trained."""

    backend: BackendName = "tensorflow"
    """The framework that Keras trains with.

    `pip install jax` or `pip install torch` installs another one.
    """
    global_batch_size: BatchSize
    """Samples per step, over all replicas."""
    epochs: Annotated[Count, pydantic.Field(le=1_000_000)]
    """Number of passes through the training samples."""
    optimizer: AnyOptimizer = dataclasses.field(default_factory=AdamConfig)
    """The optimizer: its `name` and its values."""
    loss: Literal[
        "sparse_categorical_crossentropy", "mean_squared_error", "summed_squared_error"
    ] = "sparse_categorical_crossentropy"
    """Classes need the cross-entropy.

    `mean_squared_error` averages a sequence's steps, `summed_squared_error` adds.
    """
    head: Head = "logits"
    """Input of the cross-entropy in training.

    The model's output, or its softmax, which the loss then applies twice. A double softmax gives
    losses that compare with no others: for ten classes, 1.461 to 2.461.
    """
    validation_head: Head = "logits"
    """Input of the cross-entropy in validation."""
    validation_batch_size: BatchSize | None = None
    """Samples per validation step, over all replicas; not set: as `global_batch_size`."""
    evaluates_training: Flag = False
    """Evaluate the training samples in inference mode after each epoch."""
    stop_at_val_accuracy: Fraction | None = None
    """Stop once the validation accuracy reaches this."""
    stop_below_error_change: PositiveNumber | None = None
    """Stop once the training loss changes by less than this per epoch.

    It is the loss in inference mode if that is evaluated.
    """
    steps_per_execution: Annotated[Count, pydantic.Field(le=100_000)] = 1
    """Steps per call of the compiled training function, as in Keras."""
    feed: Literal["pipeline", "fit"] = "pipeline"
    """Who makes batches of arrays: tfbench's "pipeline", or Keras, as `fit(x, y)` does.

    Batches that `load_data()` returns are trained on as they are. "fit" if a network is named in
    place of a recipe.
    """
    prefetched_batches: Annotated[Count, pydantic.Field(le=1000)] = PREFETCHED_BATCHES
    """Training batches that tfbench's pipeline keeps ready."""
    parallel_batches: Annotated[int, pydantic.Field(ge=0, le=1000)] | None = None
    """Training batches in the making at a time, on `tensorflow`; 0: tf.data decides (autotune).

    As many files are decoded at a time, if samples are files. Not set: 2 batches, or 1 where a
    batch takes little work, and as many files as there are cores.
    """
    data_on_device: Flag = False
    """Keep the training set in device memory and select batches there.

    On `tensorflow` only, and not with `mirrored` or random crops.
    """
    compiler: Compiler | None = None
    """The compiler: "graph", "xla", "inductor" or "eager".

    "graph" is TensorFlow's own, "xla" works on `tensorflow` for one replica only, and "inductor" is
    `torch.compile`. Not set: "graph" on `tensorflow`, "xla" on `jax`, "eager" on `torch`.
    """
    precision: Precision = "float32"
    """Keras's dtype policy."""
    tensor_float_32: Flag = False
    """Let GPUs compute "float32" with ten bits of mantissa, as no CPU does.

    TensorFlow's own default is true.
    """
    deterministic: Flag = False
    """Use only operations that give the same bits each time.

    On `tensorflow` not with `compiler = "xla"`.
    """
    seed: Seed = 0
    """Seed of the initial weights, the order of the data and synthetic data."""
    intra_op_threads: Threads = 0
    """Threads within an operation; 0: the framework decides."""
    inter_op_threads: Threads = 0
    """Operations that run at once; 0: the framework decides."""

    def __post_init__(self) -> None:
        if self.compiler_used not in COMPILERS[self.backend]:
            possible = " or ".join(COMPILERS[self.backend])
            raise ValueError(
                f"compiler: must be {possible} on backend {self.backend}. Received:"
                f" {self.compiler}."
            )
        if self.backend == "tensorflow" and self.compiler == "xla" and self.deterministic:
            raise ValueError(
                'compiler cannot be "xla" with deterministic = true: Keras switches XLA off under'
                " op determinism, so that the run would not be the one asked for. Use --set"
                " training.compiler=graph, or --set training.deterministic=false."
            )
        if self.backend in ONE_STEP_A_CALL and self.steps_per_execution > 1:
            raise ValueError(
                f"steps_per_execution: Keras does one step per call on backend {self.backend}. "
                f"Received: {self.steps_per_execution}. Use 1, or another backend."
            )
        if self.backend == "jax" and (self.intra_op_threads or self.inter_op_threads):
            raise ValueError(
                "intra_op_threads, inter_op_threads: JAX has no setting for them. Set both to 0, or"
                " use another backend."
            )
        if (
            "double_softmax" in (self.head, self.validation_head)
            and self.loss != "sparse_categorical_crossentropy"
        ):
            raise ValueError(
                "head: double_softmax needs sparse_categorical_crossentropy. Received:"
                f" {self.loss}."
            )

    @property
    def changes_pipeline(self) -> bool:
        """Whether it says how many batches tfbench's pipeline makes ahead."""
        return self.parallel_batches is not None or self.prefetched_batches != PREFETCHED_BATCHES

    @property
    def compiler_used(self) -> Compiler:
        """What makes a step, where the backend's own choice is written out."""
        return self.compiler or COMPILERS[self.backend][0]


@schema
class DistributionConfig:
    """How a network is spread: strategy, devices and workers."""

    strategy: StrategyName = "default"
    """How the network is spread over devices and workers.

    "default" (plain Keras on one device), "one_device" (`tf.distribute.OneDeviceStrategy`),
    "mirrored" (one replica per device), "multi_worker" (the same over several processes), "model"
    (model parallel, on `jax`) or "hybrid" (data and model parallel, on `jax`).
    """
    devices: tuple[Text, ...] = ()
    """Devices of each worker: `cpu`, `cpu:N`, `gpu` or `gpu:N`.

    None named: every GPU for strategies over several devices, else the first; without GPUs the CPU.
    """
    num_workers: Annotated[Count, pydantic.Field(le=4096)] | None = None
    """Processes under "multi_worker".

    Not set: as many as the launcher (Slurm, MPI, torchrun) started.
    """
    mesh: dict[MeshAxis, Annotated[Count, pydantic.Field(le=4096)]] = dataclasses.field(
        default_factory=dict
    )
    """Of "model" and "hybrid": number of devices along each axis, `{ data = 2, model = 2 }`.

    Batches are split along "data". Not set: all along "model" for "model", and along "data" for
    "hybrid", which splits weights there, too. Dense layers are split, by their outputs.
    """
    cross_device_ops: Literal["auto", "nccl", "reduction_to_one_device"] = "auto"
    """How `mirrored` adds gradients up on `tensorflow`.

    "auto" is "nccl" on GPUs and "reduction_to_one_device" on CPUs.
    """

    def __post_init__(self) -> None:
        if self.num_workers is not None and self.strategy != "multi_worker":
            raise ValueError(
                f"num_workers: needs strategy multi_worker. Received: strategy {self.strategy}."
            )
        if self.mesh and self.strategy not in CUTTING_STRATEGIES:
            raise ValueError(
                f"mesh: needs strategy model or hybrid. Received: strategy {self.strategy}."
            )
        if self.strategy == "model" and self.mesh.get("data", 1) > 1:
            raise ValueError(
                "mesh: strategy model does not split batches. Use --strategy hybrid for a mesh with"
                " an axis data."
            )


@schema
class MeasurementConfig:
    """How the clock is read, and when to stop before the recipe's epochs are done."""

    clock: Literal["span", "step"] = "span"
    """Time groups of steps ("span") or every step ("step").

    "step" gives exact percentiles. It is slower, and its speeds do not compare with those of
    "span".
    """
    min_span_seconds: Annotated[PositiveNumber, pydantic.Field(le=60)] = 0.05
    """Shortest group of steps that the clock "span" times.

    Groups may take up to five times as long.
    """
    warmup_steps: Count = 10
    """First steps, which no speed includes.

    The first one compiles, the next ones use batches made meanwhile.
    """
    warmup_seconds: PositiveNumber = 10.0
    """The warm-up ends sooner if its steps after the first have taken this long."""
    steps: Count | None = None
    """Stop after this many steps beyond the warm-up."""
    seconds: PositiveNumber | None = None
    """Stop after this many seconds beyond the warm-up."""
    least_steps: Count = 1
    """With `seconds`: go on until this many steps beyond the warm-up are done."""
    checks: Flag = True
    """After training, measure the input pipeline alone and the devices' peak.

    This takes some seconds.
    """

    @property
    def is_limited(self) -> bool:
        """Whether a limit of steps or seconds replaces the recipe's epochs."""
        return self.steps is not None or self.seconds is not None


@schema
class OutputConfig:
    """What a run leaves besides its figures."""

    checkpoint_every_epochs: Count | None = None
    """Epochs between checkpoints to resume from; not set: none."""
    checkpoints_kept: Count = 2
    """Number of checkpoints to keep, the newest."""
    saves_model: Flag = False
    """Save the trained model as `model.keras`."""
    draws_model: Flag = False
    """Draw the model's graph as `model.png`; needs `pip install pydot` and Graphviz."""
    num_predictions: Annotated[NaturalNumber, pydantic.Field(le=10_000)] = 0
    """Number of validation samples to record with label and prediction."""
    per_class_accuracy: Flag = False
    """Record the validation accuracy of each class."""


@schema
class CostConfig:
    """What the machine costs."""

    price_per_hour: NonNegativeNumber | None = None
    """Price of this machine per hour; not set: no costs."""
    instance: str = ""
    """Name of this machine on the bill."""
    currency: Currency = "USD"
    """Currency of the price."""


@schema
class ExpectConfig:
    """What a run on real data should learn; one that does not is marked."""

    val_accuracy_at_epoch: dict[EpochKey, AccuracyBand] = dataclasses.field(default_factory=dict)
    """Lowest and highest validation accuracy by epoch: `12 = [0.97, 0.99]`."""
    val_loss_at_epoch: dict[EpochKey, LossBand] = dataclasses.field(default_factory=dict)
    """Lowest and highest validation loss by epoch."""
    target_accuracy: Annotated[Number, pydantic.Field(gt=0, le=1)] | None = None
    """Validation accuracy whose time to reach, and cost, is reported."""


@schema
class Reference:
    """Published figures to compare with."""

    hardware: Text
    """Hardware that they were measured on."""
    devices: Text
    """Devices of it that trained."""
    source: Text
    """Where they are printed."""
    figures: dict[str, Number]
    """From the name of a figure to its published value."""
    curve: dict[str, tuple[Number, ...]] = dataclasses.field(default_factory=dict)
    """Published values by epoch, from the name of each figure."""
    verified: Flag = True
    """False where a figure could not be checked at its source."""
    notes: str = ""
    """Remarks on the figures."""
    not_comparable: str = ""
    """Why its times do not compare with ours."""


@schema
class RecipeFile:
    """One workload, and how to measure it."""

    recipe: RecipeInfo
    model: Annotated[ModelConfig, pydantic.BeforeValidator(read_options("models", "model"))]
    """Which network, and its keys."""
    dataset: Annotated[DatasetConfig, pydantic.BeforeValidator(read_options("datasets", "dataset"))]
    """Which data set, whether it is the real one, and its keys."""
    training: TrainingConfig
    distribution: DistributionConfig = DistributionConfig()
    measurement: MeasurementConfig = MeasurementConfig()
    output: OutputConfig = OutputConfig()
    cost: CostConfig = CostConfig()
    expect: ExpectConfig = dataclasses.field(default_factory=ExpectConfig)
    sweep: dict[VariedKey, Annotated[tuple[Any, ...], pydantic.Field(min_length=1)]] = (
        dataclasses.field(default_factory=dict)
    )
    """What `tfbench sweep` varies by default: from a key, in quotes, to a list of values."""
    reference: tuple[Reference, ...] = ()
    """Published figures, shown next to yours."""


@schema
class Recipe(RecipeFile):
    """A whole recipe, as resolved: defaults written out, overrides applied."""

    name: Text

    @property
    def is_users(self) -> bool:
        """Whether its network or data is the user's own, so that it may use any package."""
        names = (self.model.name, self.dataset.name)
        return "keras_file" in names or any(map(registry.is_code, names))
