"""TensorFlow as a back end: which module is which part."""

from tfbench.backends.backend import Backend
from tfbench.backends.tensorflow import (
    environment,
    input_pipeline,
    kernels,
    memory,
    op_trace,
    placement,
    profiling,
    resident,
    settings,
    variables,
)

BACKEND = Backend(
    name="tensorflow",
    placement=placement,
    feeding=input_pipeline,
    resident=resident,
    variables=variables,
    settings=settings,
    environment=environment,
    memory=memory,
    kernels=kernels,
    tracing=op_trace,
    profiling=profiling,
)
