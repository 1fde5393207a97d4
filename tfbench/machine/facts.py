"""What is recorded of the machine that measures: what it is, its use, and its speed."""

from typing import Literal

from tfbench.schema import schema


@schema
class Gpu:
    """A graphics processor as its driver describes it.

    Clocks are the highest that the driver allows.
    """

    name: str
    memory_bytes: int | None = None
    driver: str | None = None
    clock_mhz: int | None = None
    memory_clock_mhz: int | None = None
    power_limit_watts: float | None = None
    bus_id: str | None = None  # address on the PCI bus: "0000:3b:00.0"
    uuid: str | None = None


@schema
class Environment:
    """Hardware and software of the measuring process."""

    hostname: str
    cpu_model: str
    num_physical_cores: int | None
    num_logical_cores: int
    usable_cores: int
    memory_bytes: int
    gpus: tuple[Gpu, ...]
    os: str
    python: str
    tfbench: str
    keras: str
    numpy: str
    opencv: str | None = None  # which reads images; None: not installed, or not recorded
    git_commit: str | None  # of the working tree that tfbench was started in
    git_dirty: bool | None
    load_average: float | None  # one minute, before training
    # None: the run was not one of TensorFlow's; of the others likewise
    tensorflow: str | None = None
    tensorflow_cuda: str | None = None
    jax: str | None = None
    jax_cuda: str | None = None
    torch: str | None = None
    torch_cuda: str | None = None
    cpu_quota_cores: float | None = None  # that the control group allows; None: no limit
    # "performance"; several where cores differ: "performance, powersave"
    cpu_governor: str | None = None
    tensorflow_cudnn: str | None = None
    tensorflow_onednn: bool | None = None  # whether oneDNN's kernels are in use
    mlflow: str | None = None
    thread_variables: str = ""  # OMP_NUM_THREADS and the like, "" when not set
    # Of the measuring process, as it began to train.
    niceness: int | None = None
    start: Literal["own", "forked"] = "own"  # "forked": from one that had imported the framework
    memory_limit_bytes: int | None = None  # that the control groups allow; None: no limit


@schema
class Usage:
    """Use of the machine from before the first epoch to after the last one.

    Of this process, and of other workers of its run on the same machine. CPU times are of all
    threads, in seconds. `busy_cpu_seconds` is of all processes on the machine, with what its
    hypervisor gave to others (`stolen_cpu_seconds`) left out.
    """

    seconds: float
    own_cpu_seconds: float
    busy_cpu_seconds: float
    stolen_cpu_seconds: float
    num_logical_cores: int
    # in which the control group's quota held threads back; None: not known
    throttled_seconds: float | None
    swapped_pages: int  # of the whole machine, in and out
    major_page_faults: int  # of this process: it waited for the disk to bring memory back
    load_average: float | None  # one minute, at the end
    peak_memory_bytes: int  # largest resident sizes within that time, added up
    # Resident size of this process with libraries, devices and data, before its model was built;
    # None: not recorded.
    memory_before_model_bytes: int | None = None
    peak_gpu_memory_bytes: tuple[int, ...] = ()  # of the framework's allocator, on each GPU in use


@schema
class InputCheck:
    """Batches drawn from the input pipeline alone, after the training.

    `num_batches` of them took `seconds`.
    """

    num_batches: int
    seconds: float


@schema
class PeakCheck:
    """Products of two matrices on the devices of the run, all at once.

    `num_rounds` rounds of these sizes were timed, `flops` operations in each. The fastest took
    `seconds` and gives the peak.
    """

    size: int  # rows; older records hold products of square matrices alone
    precision: str  # of the factors
    num_rounds: int
    flops: int
    seconds: float
    other_share: float = 0.0  # of the machine's processor time, that other processes took meanwhile
    sizes: tuple[int, ...] = ()  # rows, what both factors have in common, columns

    @property
    def flops_per_second(self) -> float:
        """The peak."""
        return self.flops / self.seconds


@schema
class BreakdownRecord:
    """Where a measuring process's time went until now.

    `entries` maps entries of `metrics.BREAKDOWN_ENTRIES` to seconds. `elapsed_seconds` counts from
    before the process was started. What is in no entry is not accounted for.
    """

    entries: dict[str, float]
    elapsed_seconds: float
