"""What JAX says of itself, beside hardware and versions."""

from tfbench.machine.environment import describe_environment, find_version
from tfbench.records.machine import Environment


def collect_environment() -> Environment:
    """Describes the machine and the versions in use; JAX must have been imported already."""
    import jax

    return describe_environment(jax=jax.__version__, jax_cuda=find_cuda())


def find_cuda() -> str | None:
    """Returns the major version of CUDA that JAX has the libraries of; None: it computes on processors alone."""
    return next((major for major in ("13", "12") if find_version(f"jax-cuda{major}-plugin")), None)
