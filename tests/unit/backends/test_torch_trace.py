"""PyTorch's trace, read from events written by hand.

To which layer of a step, and to which direction, each belongs.
"""

import os

import pytest

from tfbench.backends.profiling import apportion
from tfbench.backends.torch.op_trace import Event, part_of, read_events, trace
from tfbench.errors import MeasurementError

NODE = "autograd::engine::evaluate_function: "
# A step of a convolution, a dense layer and a loss, whose nodes have the numbers 5, 6 to 8, and 9.
HOST = [
    Event(0, 2, "aten::to", number=1),
    Event(2, 10, "tfbench:0:5/conv"),
    Event(3, 9, "aten::conv2d", 5, number=2),
    Event(4, 8, "aten::mkldnn_convolution", number=3),
    Event(10, 14, "tfbench:1:6/dense"),
    Event(11, 13, "aten::linear", 6, number=4),
    Event(14, 16, "tfbench:loss:9/loss"),
    Event(14, 16, "aten::log_softmax", 9, number=5),
    Event(17, 18, "aten::ones_like", number=6),
    Event(20, 22, f"{NODE}LogSoftmaxBackward0", 9),
    Event(20, 22, "aten::_log_softmax_backward_data", number=7),
    Event(22, 24, f"{NODE}AddmmBackward0", 7),
    Event(22, 24, "aten::mm", number=8),
    Event(24, 25, f"{NODE}torch::autograd::AccumulateGrad"),
    Event(24, 25, "aten::detach", number=9),
    Event(25, 28, f"{NODE}ConvolutionBackward0", 5),
    Event(25, 28, "aten::convolution_backward", number=10),
    Event(30, 32, "tfbench:update:10/optimizer"),
    Event(30, 31, "aten::add_", number=11),
    Event(33, 34, "aten::sum", 11, number=12),  # of a metric
    Event(36, 37, "tfbench:0:12/conv"),
]


def test_operations_of_the_host_belong_to_the_layer_that_is_computed_or_whose_gradient_is() -> None:
    found = read_events(HOST)
    assert not found.on_device
    assert found.active_seconds is None
    seconds = apportion(found.operations, part_of)
    assert {part: round(1e9 * value) for part, value in seconds.items()} == {
        "forward/0": 8,
        "forward/1": 2,
        "forward/loss": 3,
        "backward/loss": 2,
        "backward/1": 3,
        "backward/0": 3,
        "update": 2,
    }
    assert found.operations[1].name == "forward:0/conv/aten::conv2d"


def test_kernels_of_a_gpu_belong_to_what_launched_them() -> None:
    of_gpu = [
        Event(100, 107, "conv_kernel", launched_by=3, on_host=False),
        Event(107, 112, "gemm_kernel", launched_by=8, on_host=False),
        Event(112, 113, "Memset", on_host=False),
        Event(113, 115, "Memcpy DtoH (Device -> Pageable)", launched_by=11, on_host=False),
    ]
    found = read_events([*HOST, *of_gpu])
    assert found.on_device
    first, second, _ = found.operations
    assert first.kind == "aten::mkldnn_convolution"
    assert first.name == f"forward:0/conv/{first.kind}"
    assert (second.name, second.kind) == ("backward:1/dense/aten::mm", "aten::mm")
    assert [event.name for event in found.others] == ["Memset"]


def test_without_brackets_operations_have_their_own_names() -> None:
    (operation,) = read_events([Event(0, 1, "aten::mm", 3)]).operations
    assert (operation.name, part_of(operation.name)) == ("aten::mm", (2, "other"))


@pytest.mark.skipif(os.environ.get("KERAS_BACKEND") != "torch", reason="of PyTorch's profiler")
@pytest.mark.filterwarnings("ignore:CUDA is not available")
def test_a_trace_that_tells_nothing_of_the_gpu_in_use_is_rejected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import torch

    assert not trace(lambda: torch.ones(2).sum()).on_device
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    with pytest.raises(
        MeasurementError, match=r"^PyTorch's profiler recorded nothing of the GPU\."
    ):
        trace(lambda: torch.ones(2).sum())
