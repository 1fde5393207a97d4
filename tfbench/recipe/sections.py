"""A recipe: one workload and how to measure it, as frozen sections that check their own values.

The defaults below are the documented defaults; a run's record holds them written out. Names are Keras's and
tf.distribute's own. No part of a run but the entry points sees more than the section it needs.
"""

import dataclasses
from typing import Annotated, Any, Literal

import pydantic

from tfbench.recipe.abilities import COMPILERS, ONE_STEP_A_CALL, BackendName, Compiler
from tfbench.recipe.keys import AccuracyBand, DirectionKey, EpochKey, LossBand, VariedKey
from tfbench.recipe.mesh import LayoutRule, MeshAxis
from tfbench.recipe.named_tables import read_options
from tfbench.recipe.optimizers import AdamConfig, AnyOptimizer
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
StrategyName = Literal["default", "one_device", "mirrored", "multi_worker", "model", "hybrid"]
CUTTING_STRATEGIES = ("model", "hybrid")  # under which weights lie in parts
MAX_SEED = 2**31 - 1
Seed = Annotated[NaturalNumber, pydantic.Field(le=MAX_SEED)]


@schema
class RecipeInfo:
    """What the workload is and where it comes from."""

    title: Text
    """Name of the workload, as tables and plots show it."""
    source: Text
    """Where the workload comes from."""
    notes: str = ""
    """What else a reader should know: what the original left open, and what was chosen."""
    not_meant_for: tuple[Literal["cpu", "gpu"], ...] = ()
    """Kinds of devices on which a run is possible, but warned of."""


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
    """The real samples, or made ones of the same shapes, types, classes and number."""
    options: dict[str, Any] = dataclasses.field(default_factory=dict)


@schema
class TrainingConfig:
    """How the model is trained; everything that could differ between two arms is explicit here, never "auto"."""

    backend: BackendName = "tensorflow"
    """The framework that Keras trains with. `pip install jax` or `pip install torch` installs another one."""
    global_batch_size: BatchSize
    """Samples of a step, over all replicas."""
    epochs: Annotated[Count, pydantic.Field(le=1_000_000)]
    """How often the training goes through the training samples."""
    optimizer: AnyOptimizer = dataclasses.field(default_factory=AdamConfig)
    """The optimizer, by its `name`, and its values."""
    loss: Literal["sparse_categorical_crossentropy", "mean_squared_error", "summed_squared_error"] = (
        "sparse_categorical_crossentropy"
    )
    """Classes need the cross-entropy. `mean_squared_error` averages over a sequence's steps, `summed_squared_error`
    adds the steps' mean squared errors up."""
    head: Head = "logits"
    """What the cross-entropy is given in training: the model's output, or its softmax, to which the cross-entropy
    applies a second one. The loss of n classes then lies between log(n - 1 + e) - 1 and log(n - 1 + e), for ten classes
    1.461 and 2.461, and is not comparable with the usual one."""
    validation_head: Head = "logits"
    """The same for validation."""
    validation_batch_size: BatchSize | None = None
    """Samples of a step of validation, over all replicas; not set: as `global_batch_size`."""
    evaluates_training: Flag = False
    """Loss and accuracy of the training samples in inference mode after each epoch."""
    stop_at_val_accuracy: Fraction | None = None
    """Ends the training once the validation accuracy reaches this."""
    stop_below_error_change: PositiveNumber | None = None
    """Ends the training once the training error (the loss; in inference mode if that is evaluated) changes by less than
    this from one epoch to the next."""
    steps_per_execution: Annotated[Count, pydantic.Field(le=100_000)] = 1
    """Steps of one call of the compiled training function, as in Keras."""
    data_on_device: Flag = False
    """Whether the training samples lie on the device, where each step gathers its batch by their numbers, and one
    compiled loop does the steps of an execution (on `torch`, which has one, there is no loop); for samples in memory
    that are not cropped, and not for `mirrored`."""
    compiler: Compiler | None = None
    """What makes a step of the network: "graph" (TensorFlow's own graph), "xla" (on `tensorflow` for one replica only),
    "inductor" (`torch.compile`) or "eager" (operation after operation from Python). Not set: "graph" on `tensorflow`,
    "xla" on `jax`, "eager" on `torch`."""
    precision: Literal["float32", "mixed_float16", "mixed_bfloat16"] = "float32"
    """Keras's policy for the types of weights and computations."""
    tensor_float_32: Flag = False
    """Whether GPUs may compute "float32" with ten bits of mantissa, which no CPU does; TensorFlow's own default is
    true."""
    deterministic: Flag = False
    """Whether operations give the same bits each time; on `tensorflow` not together with `compiler = "xla"`."""
    seed: Seed = 0
    """Draws the initial weights, the order of the data and synthetic data."""
    intra_op_threads: Threads = 0
    """Threads for the work within an operation; 0: as many as TensorFlow likes."""
    inter_op_threads: Threads = 0
    """Threads that start operations; 0: as many as TensorFlow likes."""

    def __post_init__(self) -> None:
        if self.compiler_used not in COMPILERS[self.backend]:
            possible = " or ".join(COMPILERS[self.backend])
            raise ValueError(f"compiler: must be {possible} on backend {self.backend}. Received: {self.compiler}.")
        if self.backend == "tensorflow" and self.compiler == "xla" and self.deterministic:
            raise ValueError(
                'compiler cannot be "xla" with deterministic = true: Keras switches XLA off under op determinism, so '
                'that the run would not be the one asked for. Set compiler = "graph", or deterministic = false.'
            )
        if self.backend in ONE_STEP_A_CALL and self.steps_per_execution > 1:
            raise ValueError(
                f"steps_per_execution: Keras does one step a call on backend {self.backend}. "
                f"Received: {self.steps_per_execution}. Use 1, or another back end."
            )
        if self.backend == "jax" and (self.intra_op_threads or self.inter_op_threads):
            raise ValueError(
                "intra_op_threads, inter_op_threads: JAX has no setting for them. Use 0, or another back end."
            )
        if "double_softmax" in (self.head, self.validation_head) and self.loss != "sparse_categorical_crossentropy":
            raise ValueError(f"head: double_softmax needs sparse_categorical_crossentropy. Received: {self.loss}.")

    @property
    def compiler_used(self) -> Compiler:
        """What makes a step, where the back end's own choice is written out."""
        return self.compiler or COMPILERS[self.backend][0]


@schema
class DistributionConfig:
    """How a network is spread: strategy, devices and workers."""

    strategy: StrategyName = "default"
    """"default": plain Keras on one device. "one_device": `tf.distribute.OneDeviceStrategy`. "mirrored": a copy of the
    network on each device, and a part of each batch, by `tf.distribute.MirroredStrategy` or, on `jax`,
    `keras.distribution`. "multi_worker": the same over several processes, on one machine or several. "model" (on
    `jax`): weights are cut, and lie in parts on the devices, which compute the same samples. "hybrid" (on `jax`):
    each batch is cut, too."""
    devices: tuple[Text, ...] = ()
    """`cpu`, `cpu:N`, `gpu` or `gpu:N`, of each worker. None named: strategies over several devices take every GPU, the
    others the first; without GPUs the CPU."""
    num_workers: Annotated[Count, pydantic.Field(le=4096)] | None = None
    """Processes that train together under "multi_worker"; not set: as many as the launcher (Slurm, MPI, `TF_CONFIG`)
    started."""
    mesh: dict[MeshAxis, Annotated[Count, pydantic.Field(le=4096)]] = dataclasses.field(default_factory=dict)
    """Of "model" and "hybrid": number of devices along each axis, `{ data = 2, model = 2 }`. A batch is cut along
    "data" alone. Not set: "model" has all devices along "model", "hybrid" along "data", where weights are cut, too."""
    layout: tuple[LayoutRule, ...] = ()
    """Of "model" and "hybrid": which variables are cut, and how. Not set: kernels and biases of dense layers are, by
    their outputs."""
    cross_device_ops: Literal["auto", "nccl", "hierarchical_copy", "reduction_to_one_device"] = "auto"
    """How `mirrored` adds gradients up on `tensorflow`. "auto": "nccl" on GPUs, "reduction_to_one_device" on CPUs.
    TensorFlow has "hierarchical_copy" right for even numbers of replicas only; with others it is refused."""

    def __post_init__(self) -> None:
        if self.num_workers is not None and self.strategy != "multi_worker":
            raise ValueError(f"num_workers: is of strategy multi_worker. Received: strategy {self.strategy}.")
        if (self.mesh or self.layout) and self.strategy not in CUTTING_STRATEGIES:
            raise ValueError(f"mesh, layout: are of strategies model and hybrid. Received: strategy {self.strategy}.")
        if self.strategy == "model" and self.mesh.get("data", 1) > 1:
            raise ValueError("mesh: under strategy model no batch is cut. Use hybrid for a mesh with an axis data.")


@schema
class MeasurementConfig:
    """How the clock is read, and when to stop before the recipe's epochs are done."""

    clock: Literal["span", "step"] = "span"
    """"span": a reading as soon as `min_span_seconds` have passed, then one synchronisation with the device. "step": a
    synchronisation after every step; gives percentiles of single steps, slows small networks down and is not comparable
    with "span"."""
    min_span_seconds: Annotated[PositiveNumber, pydantic.Field(le=60)] = 0.05
    """Time between two readings of the clock "span", at least; at most about five times as long, where the host gives
    out steps faster than the device does them."""
    warmup_steps: Count = 10
    """Leading steps that are in no figure of speed. The first traces and compiles; the next two were seen to take up to
    1.5 times as long as later ones; and the first seven use batches that were made, or begun, while the first one
    compiled."""
    steps: Count | None = None
    """Stops after the warm-up and so many more steps."""
    seconds: PositiveNumber | None = None
    """Stops after the warm-up and so many more seconds."""
    checks: Flag = True
    """After the training, a second or two for the input pipeline alone and for the peak of the devices, which the speed
    is held against."""

    @property
    def is_limited(self) -> bool:
        """Whether the run stops after a number of steps or seconds instead of the recipe's epochs."""
        return self.steps is not None or self.seconds is not None


@schema
class OutputConfig:
    """What a run leaves besides its figures."""

    snapshot_every_epochs: Count | None = None
    """A snapshot to resume from after every so many epochs; not set: none."""
    snapshots_kept: Count = 2
    """How many snapshots are kept, the newest."""
    saves_model: Flag = False
    """The trained model as `model.keras`."""
    draws_model: Flag = False
    """The model's graph as `model.png`; needs `pip install pydot` and Graphviz."""
    num_predictions: Annotated[NaturalNumber, pydantic.Field(le=10_000)] = 0
    """So many labels of the validation set, and what the model takes them for."""
    per_class_accuracy: Flag = False
    """The accuracy of each class of the validation set."""


@schema
class CostConfig:
    """What the machine costs."""

    price_per_hour: NonNegativeNumber | None = None
    """What an hour of this machine costs; not set: no cost is shown."""
    instance: str = ""
    """Name of this machine, as the bill has it."""
    currency: Currency = "USD"
    """Currency of the price."""


@schema
class ExpectConfig:
    """What a run on real data should learn; one that does not is marked, since speed without learning is void."""

    val_accuracy_at_epoch: dict[EpochKey, AccuracyBand] = dataclasses.field(default_factory=dict)
    """From an epoch, `12`, to the lowest and the highest validation accuracy after it."""
    val_loss_at_epoch: dict[EpochKey, LossBand] = dataclasses.field(default_factory=dict)
    """The same of the validation loss."""
    target_accuracy: Annotated[Number, pydantic.Field(gt=0, le=1)] | None = None
    """The time, and the cost where there is a price, until `val_accuracy` reaches it is reported."""


@schema
class Reference:
    """Published figures to stand beside ours."""

    hardware: Text
    """What they were measured on."""
    devices: Text
    """Which devices of it trained."""
    source: Text
    """Where they are printed."""
    figures: dict[str, Number]
    """From the name of a figure to its published value."""
    curve: dict[str, tuple[Number, ...]] = dataclasses.field(default_factory=dict)
    """From the name of a figure to its published values, epoch by epoch."""
    layer_seconds: dict[DirectionKey, PositiveNumber] = dataclasses.field(default_factory=dict)
    """Seconds of a step by direction and layer, "backward/pool": beside those of `tfbench profile`."""
    verified: Flag = True
    """False where a figure could not be checked at its source."""
    notes: str = ""
    """What else is to be said of the figures."""
    not_comparable: str = ""
    """Why none of its times can be held against ours."""


@schema
class RecipeFile:
    """One workload, and how to measure it."""

    recipe: RecipeInfo
    model: Annotated[ModelConfig, pydantic.BeforeValidator(read_options("models", "model"))]
    """Which network, and what it takes."""
    dataset: Annotated[DatasetConfig, pydantic.BeforeValidator(read_options("datasets", "dataset"))]
    """Which data set, whether it is the real one, and what it takes."""
    training: TrainingConfig
    distribution: DistributionConfig = DistributionConfig()
    measurement: MeasurementConfig = MeasurementConfig()
    output: OutputConfig = OutputConfig()
    cost: CostConfig = CostConfig()
    expect: ExpectConfig = dataclasses.field(default_factory=ExpectConfig)
    sweep: dict[VariedKey, Annotated[tuple[Any, ...], pydantic.Field(min_length=1)]] = dataclasses.field(
        default_factory=dict
    )
    """What `tfbench sweep` varies, unless told otherwise: from a key, in quotes, to a list of values. `threads` stands
    for both thread settings of [training]."""
    reference: tuple[Reference, ...] = ()
    """Published figures, to stand beside yours."""


@schema
class Recipe(RecipeFile):
    """A whole recipe, as resolved: defaults written out, overrides applied."""

    name: Text
