"""What flows from the measuring process to the reports: requests, readings, records, results."""

import dataclasses
from typing import Any, Literal

from tfbench.machine.energy_readings import EnergyReading, EnergySources, MachineState
from tfbench.machine.facts import BreakdownRecord, Environment, InputCheck, PeakCheck, Usage
from tfbench.profiles.readings import Profile, ProfileRequest
from tfbench.recipe.backend_support import Compiler
from tfbench.recipe.sections import Recipe
from tfbench.runs.batch_sizes import BatchSizes
from tfbench.runs.placement_record import (
    WHOLE,
    BatchPart,
    ExchangeCheck,
    ModelLayout,
    Placement,
    ReplicaCheck,
    WorkerRank,
)
from tfbench.schema import Id, NaturalNumber, NonNegativeNumber, Timestamp, schema
from tfbench.tags import AS_ASKED_TAG, CHANGED_TAG
from tfbench.wording import allowing_words

Sizes = tuple[int, ...]
Status = Literal["RUNNING", "FINISHED", "FAILED", "KILLED"]


@schema
class Evaluation:
    """What a trained model reached on a split, in inference mode.

    A figure is None where it does not exist, or was not finite. `name` is "test" for the third
    split, and "multiview" where the probabilities of several crops were averaged.
    """

    name: Literal["test", "multiview"]
    num_samples: int
    seconds: float
    loss: float | None
    accuracy: float | None


@schema
class Predictions:
    """What a trained model predicts for the validation samples."""

    first_labels: Sizes = ()
    first_predictions: Sizes = ()
    class_samples: Sizes = ()  # of each class
    class_correct: Sizes = ()


@schema
class EffectiveSettings:
    """Settings as the backend and Keras report them after the model was compiled."""

    compiler: Compiler
    precision: str
    tensor_float_32: bool
    steps_per_execution: int
    intra_op_threads: int  # 0: TensorFlow's own choice, one a core
    inter_op_threads: int
    deterministic: bool
    seed: int
    soft_device_placement: bool
    image_data_format: str
    visible_gpus: tuple[str, ...]
    xla_flags: str  # XLA_FLAGS and TF_XLA_FLAGS, "" when not set
    onednn: str  # TF_ENABLE_ONEDNN_OPTS, "" when not set
    # On the PCI bus, of the visible GPUs, which are those of the placement in its order. Empty: not
    # known.
    gpu_addresses: tuple[str, ...] = ()
    backend: str = "tensorflow"  # as Keras names it
    # of memory, launches and cuDNN: "PYTORCH_ALLOC_CONF=..."; "" when not set
    framework_variables: str = ""


@schema
class DatasetSummary:
    """The data that a run was fed with."""

    name: str
    source: str  # for people: "tfds mnist 3.0.1, /data/tfds", "synthetic, seed 0", "generated"
    synthetic: bool
    train_samples: int
    validation_samples: int
    cache: str = ""  # of decoded arrays: "read", "written", "not written: why"; "": not used
    # of one file of own code, in runs that record no `files`
    digest: str = ""
    # of the user's that it is from, with their digests, by their places in their packages
    files: dict[str, str] = dataclasses.field(default_factory=dict)
    # Digest of the samples that own code returned, "of all" or "of sample"; "": not recorded.
    content: str = ""
    batches: BatchSizes | None = None  # None: tfbench makes them, and all are full
    has_own_batches: bool = False  # made by code of the user's
    tokens_per_sample: int = 0  # of a text; 0: of data with one label a sample


@schema
class ModelSummary:
    """Sizes of a built model."""

    num_parameters: int
    num_trainable_parameters: int
    is_built: bool = True  # False: its first step makes weights that are not counted here
    num_outputs: int | None = None
    # forward pass of one sample, two for each multiply-accumulate
    flops_per_sample: int | None = None
    training_flops_per_sample: int | None = None  # and of its gradients; None: not known
    # Of the product that most of the work is in, for one sample: rows, what both factors have in
    # common, columns.
    main_product: Sizes = ()
    # whose operations are not known, which makes flops_per_sample None
    uncounted_layers: tuple[str, ...] = ()  # with OPEN_LENGTH where a length alone is missing
    # Of the user's network, as it was built and compiled; in runs that record no `files`, of one
    # file. "": of a network of tfbench's.
    digest: str = ""
    # of the user's that it is from, with their digests, by their places in their packages
    files: dict[str, str] = dataclasses.field(default_factory=dict)
    # class of the one that the network came compiled with; the recipe's optimizer is not used
    own_optimizer: str = ""


# In the name of a layer whose operations are not known since a length of its data is None.
OPEN_LENGTH = ", open length"


@schema
class StepSpan:
    """Consecutive training steps and the time they took together, device work included.

    Steps count from 1 over the whole run. `epoch` counts from 1.
    """

    epoch: int
    first_step: int
    last_step: int
    seconds: float

    @property
    def num_steps(self) -> int:
        """Steps in the span."""
        return self.last_step - self.first_step + 1


@schema
class EpochRecord:
    """What one epoch took and what it learned; times in seconds.

    A figure is None where it does not exist, or was not finite.

    `inference_*` are of all training samples after the epoch, in inference mode. `val_*_batch_mean`
    weigh every batch alike, the short last one too, as Chainer's Evaluator does. `ready_batches` of
    the steps had a batch, at most, that was made before the epoch's clock began: where validation,
    or the evaluation of the training samples, leaves the input pipeline the time between epochs.
    Elsewhere it is 0, although a few are ready when the first epoch begins.
    """

    epoch: NaturalNumber
    num_steps: NaturalNumber
    epoch_seconds: NonNegativeNumber
    validation_seconds: NonNegativeNumber | None
    elapsed_seconds: NonNegativeNumber
    samples_per_second: float | None
    loss: float | None
    accuracy: float | None
    val_loss: float | None
    val_accuracy: float | None
    finished_at: Timestamp  # seconds since 1970, UTC
    inference_loss: float | None = None
    inference_accuracy: float | None = None
    inference_seconds: float | None = None
    val_loss_batch_mean: float | None = None
    val_accuracy_batch_mean: float | None = None
    ready_batches: int | None = None
    has_loss: bool = True  # False: a step of its own gives none
    # further ones, of a network's own
    metrics: dict[str, float | None] = dataclasses.field(default_factory=dict)

    def is_part(self, steps_per_epoch: int | None) -> bool:
        """Says whether the run ended within this epoch; never of a data set without a known end."""
        return steps_per_epoch is not None and self.num_steps < steps_per_epoch


@schema
class ResumePoint:
    """The checkpoint that a run goes on from, and what its predecessor had reached there."""

    run_id: Id
    checkpoint: str  # file
    epochs: tuple[EpochRecord, ...]

    @property
    def num_steps(self) -> int:
        """Steps that it is after.

        More than whole epochs have, where executions of several steps do not divide them.
        """
        return sum(epoch.num_steps for epoch in self.epochs)


@schema
class RunRequest:
    """One run to be measured in a process of its own."""

    run_id: Id
    name: str
    created: Timestamp
    recipe: Recipe
    data_dir: str | None = None
    tags: dict[str, str] = dataclasses.field(default_factory=dict)
    overrides: tuple[str, ...] = ()  # keys of the recipe that the command line set
    # words of the command that asked for it, without passwords; none: Python code did
    argv: tuple[str, ...] = ()
    resume: ResumePoint | None = None
    allows_code: bool = False  # the user allowed functions from outside of tfbench to be called
    profile: ProfileRequest | None = None  # what is to be found out instead of training
    # which of several workers measures it; None: there is one
    worker_rank: WorkerRank | None = None

    @property
    def part(self) -> BatchPart:
        """Of each batch, that this worker is fed with."""
        if self.worker_rank is None:
            return WHOLE
        return BatchPart(self.worker_rank.index, self.worker_rank.num_workers)

    @property
    def common_name(self) -> str:
        """What all its workers are known by: where they meet, or its id where there is but one."""
        return self.worker_rank.addresses[0] if self.worker_rank else self.run_id

    @property
    def resume_words(self) -> tuple[str, ...]:
        """The command of tfbench that goes on with it."""
        return ("run", "--resume", self.run_id, *allowing_words(self.allows_code))


@schema
class RunExit:
    """How a run ended."""

    status: Status
    reason: str = ""
    worker_seconds: float | None = None  # from before the measuring process was started to its end


@schema
class WorkerError:
    """What stopped the measuring process."""

    type: str
    message: str
    traceback: str


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class RunResult:
    """Everything known of a run, finished or not: raw readings, never statistics."""

    request: RunRequest
    stage: str = "starting"
    placement: Placement | None = None
    settings: EffectiveSettings | None = None
    environment: Environment | None = None
    dataset: DatasetSummary | None = None
    model: ModelSummary | None = None
    steps_per_epoch: int | None = None
    step_guess: float | None = None  # seconds of a step, before the first; None: it is soon over
    spans: tuple[StepSpan, ...] = ()
    epochs: tuple[EpochRecord, ...] = ()  # those of the run that it goes on from come first
    evaluations: tuple[Evaluation, ...] = ()
    predictions: Predictions | None = None
    checkpoint_epoch: int | None = None  # newest epoch that a run could go on from
    stop_reason: str | None = None  # why training ended before the recipe's epochs were done
    notes: tuple[str, ...] = ()  # what the measuring process noticed
    num_unreadable_lines: int = 0  # of its journal: what they held is missing here
    replica_check: ReplicaCheck | None = None  # of a run over several replicas
    spread: ModelLayout | None = None  # of a run over several devices, where it was read back
    exchange_check: ExchangeCheck | None = None  # the same, where its steps were traced
    usage: Usage | None = None
    energy: EnergySources | None = None  # None: of a run that was not trained
    energy_readings: tuple[EnergyReading, ...] = ()
    machine_states: tuple[MachineState, ...] = ()
    input_check: InputCheck | None = None
    peak_checks: tuple[PeakCheck, ...] = ()  # a second one where the run was faster than the first
    breakdown: BreakdownRecord | None = None  # the latest
    profile: Profile | None = None  # of a run that was asked for one
    error: dict[str, Any] | None = None  # type, message and traceback of what stopped the worker
    exit: RunExit | None = None
    started_at: float | None = None  # training, seconds since 1970, UTC
    ended_at: float | None = None

    @property
    def status(self) -> Status:
        """RUNNING until the end was recorded."""
        if self.exit is None:
            return "RUNNING"
        return self.exit.status

    @property
    def reason(self) -> str:
        """Why it ended so; "" where there is nothing to say."""
        if self.exit is None:
            return ""
        return self.exit.reason

    @property
    def last_epoch(self) -> EpochRecord | None:
        """The newest of its epochs; None: there is none yet."""
        if not self.epochs:
            return None
        return self.epochs[-1]

    @property
    def batch_sizes(self) -> BatchSizes:
        """Samples of its steps."""
        if self.dataset and self.dataset.batches:
            return self.dataset.batches
        return BatchSizes(size=self.request.recipe.training.global_batch_size)

    @property
    def own_epochs(self) -> tuple[EpochRecord, ...]:
        """The epochs that this run trained itself, without those of a run that it goes on from."""
        if self.request.resume is None:
            return self.epochs
        return self.epochs[len(self.request.resume.epochs) :]

    @property
    def whole_epochs(self) -> tuple[EpochRecord, ...]:
        """Those of its own epochs that were trained to their end."""
        return tuple(epoch for epoch in self.own_epochs if not epoch.is_part(self.steps_per_epoch))

    @property
    def is_synthetic(self) -> bool:
        """Whether the data is synthetic, so that accuracies mean nothing."""
        if self.dataset:
            return self.dataset.synthetic
        return self.request.recipe.dataset.data == "synthetic"


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Summary:
    """The numbers of one run that are reported."""

    metrics: dict[str, float | None]  # by name; None: it does not exist
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()  # what the user asked for, and how devices were chosen


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class TrackedRun:
    """Where a run stands in MLflow."""

    tracking_uri: str
    experiment_id: str
    run_id: str


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Fast:
    """What a run's settings were chosen by."""

    as_asked: float  # samples/s of the recipe as it was asked for, in a short run
    settings: dict[str, Any]  # of [training], set otherwise; none: nothing was faster


def read_fast(request: RunRequest) -> Fast | None:
    """Returns what the settings of a run were chosen by; None: it was made without trial."""
    if AS_ASKED_TAG not in request.tags:
        return None
    keys = request.tags.get(CHANGED_TAG, "").split()
    training = request.recipe.training
    training = dataclasses.replace(training, compiler=training.compiler_used)
    return Fast(
        as_asked=float(request.tags[AS_ASKED_TAG]),
        settings={key: getattr(training, key) for key in keys},
    )
