"""PyTorch's devices: what was asked for, what there is, what was really used."""

from typing import Any

from tfbench.backends import one_device
from tfbench.backends.one_device import OneDevice, hide_others, refuse_replicas, require_on
from tfbench.backends.one_device import resolve as resolve_one
from tfbench.errors import MeasurementError
from tfbench.recipe.sections import DistributionConfig, TrainingConfig
from tfbench.records.placement import Member

check_replicas = refuse_replicas
require_as_one = refuse_replicas
require_possible = hide_others
lay_out, read_spread, leave = one_device.lay_out, one_device.read_spread, one_device.leave
gather_figures, tells_exchange, trace_exchange = (
    one_device.gather_figures,
    one_device.tells_exchange,
    one_device.trace_exchange,
)
lost_workers_named = one_device.lost_workers_named


def resolve(config: DistributionConfig, training: TrainingConfig, member: Member | None = None) -> OneDevice:
    """Resolves the device, which Keras computes on unless told otherwise; see the protocol.

    Raises:
        DeviceError: The device is absent.
    """
    return resolve_one(config, training, framework="PyTorch", gpu_names=list_gpus(), feed=lambda kind: "direct")


def list_gpus() -> tuple[str, ...]:
    """Returns what hardware the GPUs are that PyTorch can use.

    As Keras asks it: `device_count` knows those, too, that this build, or the driver, cannot start.
    """
    import torch

    if not torch.cuda.is_available():
        return ()
    return tuple(torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count()))


def count_replicas() -> int:
    """Returns 1."""
    return 1


class StepWatch:
    """Sees what became of the first step.

    It does not look at the operations: PyTorch computes where its tensors are, refuses tensors of two devices, and does
    not compile a step that something looks into.
    """

    def __enter__(self) -> "StepWatch":
        return self

    def __exit__(self, *exception: object) -> None:
        pass

    def verify(self, placed: Any, model: Any) -> None:
        """Makes sure that what was trained is on the device asked for, and that a step to be compiled was.

        Raises:
            MeasurementError: Some is elsewhere, or nothing was compiled.
        """
        trained = [*model.trainable_variables, *(one for one in model.optimizer.variables if one.shape)]
        kinds = {str(one.value.device.type) for one in trained}
        require_on(placed, ("gpu" if kind == "cuda" else kind for kind in kinds), "variables are")
        if model.jit_compile and not _count_graphs():
            raise MeasurementError(
                "training.compiler: torch.compile compiled nothing of the first step, as if it were switched off "
                "(TORCH_COMPILE_DISABLE, TORCHDYNAMO_DISABLE)."
            )


def watch() -> StepWatch:
    """Returns what sees what became of the first step."""
    return StepWatch()


def synchronize() -> None:
    """Waits until the GPU has done what it was given; on a processor PyTorch returns when it is done."""
    import torch

    if torch.cuda.is_initialized():
        torch.cuda.synchronize()


def _count_graphs() -> int:
    from torch._dynamo.utils import counters  # PyTorch publishes no other way to ask

    return int(counters["stats"]["unique_graphs"])
