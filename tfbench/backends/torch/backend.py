"""PyTorch as a back end: which module is which part."""

from tfbench.backends import array_feeding, keras_variables
from tfbench.backends.backend import Backend
from tfbench.backends.torch import environment, kernels, memory, op_trace, placement, profiling, resident, settings

BACKEND = Backend(
    name="torch",
    placement=placement,
    feeding=array_feeding,
    resident=resident,
    variables=keras_variables,
    settings=settings,
    environment=environment,
    memory=memory,
    kernels=kernels,
    profiling=profiling,
    tracing=op_trace,
)
