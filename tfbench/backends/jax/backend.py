"""JAX as a back end: which module is which part."""

from tfbench.backends import array_feeding, keras_variables
from tfbench.backends.backend import Backend
from tfbench.backends.jax import environment, kernels, memory, placement, profiling, resident, settings

BACKEND = Backend(
    name="jax",
    placement=placement,
    feeding=array_feeding,
    resident=resident,
    variables=keras_variables,
    settings=settings,
    environment=environment,
    memory=memory,
    kernels=kernels,
    profiling=profiling,
)
