"""What PyTorch says of itself, beside hardware and versions."""

from tfbench.machine.environment import describe_environment
from tfbench.records.machine import Environment


def collect_environment() -> Environment:
    """Describes the machine and the versions in use; PyTorch must have been imported already."""
    import torch

    return describe_environment(torch=str(torch.__version__), torch_cuda=torch.version.cuda)
