"""JAX as a back end: which module is which part."""

from tfbench.backends import keras_variables
from tfbench.backends.backend import Backend
from tfbench.backends.jax import environment, feeding, kernels, memory, placement, profiling, resident, settings

BACKEND = Backend(
    name="jax",
    placement=placement,
    feeding=feeding,
    resident=resident,
    variables=keras_variables,
    settings=settings,
    environment=environment,
    memory=memory,
    kernels=kernels,
    profiling=profiling,
)
