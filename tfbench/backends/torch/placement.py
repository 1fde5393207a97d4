"""PyTorch's devices: what was asked for, what there is, what was really used."""

import functools
from typing import Any

from tfbench.backends.one_device import OneDevice, hide_others, refuse_replicas, require_on
from tfbench.backends.one_device import resolve as resolve_one
from tfbench.recipe.sections import DistributionConfig, TrainingConfig

check_replicas = refuse_replicas
require_as_one = refuse_replicas
require_possible = hide_others


def resolve(config: DistributionConfig, training: TrainingConfig) -> OneDevice:
    """Resolves the device, which Keras computes on unless told otherwise; see the protocol.

    Raises:
        DeviceError: The device is absent.
    """
    return resolve_one(config, training, framework="PyTorch", gpu_names=list_gpus(), feed=lambda kind: "direct")


def list_gpus() -> tuple[str, ...]:
    """Returns what hardware the GPUs are that PyTorch sees."""
    import torch

    return tuple(torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count()))


def count_replicas() -> int:
    """Returns 1."""
    return 1


class StepWatch:
    """Sees on which devices PyTorch computes, from `with` until `verify`."""

    def __enter__(self) -> "StepWatch":
        self.kinds: set[str] = set()
        self._mode = _build_mode(self.kinds)
        self._mode.__enter__()
        self._is_watching = True
        return self

    def __exit__(self, *exception: object) -> None:
        if self._is_watching:
            self._is_watching = False
            self._mode.__exit__(None, None, None)

    def verify(self, placed: Any, model: Any) -> None:
        """Stops watching, and makes sure that weights and what was computed are on the device asked for.

        Raises:
            MeasurementError: Some are elsewhere.
        """
        self.__exit__()
        variables = [*model.variables, *model.optimizer.variables]
        held = [one.value for one in variables if "float" in one.dtype and one.shape]
        require_on(placed, (_kind(tensor) for tensor in held), "variables are")
        if self.kinds:  # a compiled step does not come by here
            require_on(placed, self.kinds, "operations of the step are")


@functools.cache
def _mode_class() -> type:
    from torch.utils._python_dispatch import TorchDispatchMode

    class Mode(TorchDispatchMode):  # type: ignore[misc]  # PyTorch is not always there for its types
        """Notes where the results of floating-point operations on several numbers are."""

        def __init__(self, kinds: set[str]) -> None:
            super().__init__()
            self._kinds = kinds

        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            import torch

            result = function(*args, **(kwargs or {}))
            is_computed = isinstance(result, torch.Tensor) and result.device.type != "meta"  # Keras's, for shapes alone
            if is_computed and result.is_floating_point() and result.dim() > 1:
                self._kinds.add(_kind(result))
            return result

    return Mode


def _build_mode(kinds: set[str]) -> Any:
    return _mode_class()(kinds)


def watch() -> StepWatch:
    """Returns what sees where the first step runs."""
    return StepWatch()


def synchronize() -> None:
    """Waits until the GPU has done what it was given; on a processor PyTorch returns when it is done."""
    import torch

    if torch.cuda.is_initialized():
        torch.cuda.synchronize()


def _kind(tensor: Any) -> str:
    return "gpu" if tensor.device.type == "cuda" else str(tensor.device.type)
