"""A GPU's memory.

What a run records of it, and what becomes of a run that it does not suffice for.
"""

from pathlib import Path

import psutil
import pytest

from gpu_machine import (
    DEVICE,
    NAME,
    ON_BACKEND,
    REHEARSAL,
    SETUP,
    of_a_gpu_alone,
    run,
    run_json,
    show,
)
from runs import of_kind
from tfbench.machine import gpus
from tfbench.store.journal import read_records

pytestmark = pytest.mark.gpu

MEBIBYTE = 2**20
LARGEST = 60_000  # a batch of all training samples of MNIST
SMALL = 128
PLAIN = '--set training.optimizer={name="sgd",learning_rate=0.01} --set measurement.checks=false'


@of_a_gpu_alone
def test_a_run_records_at_least_what_its_weights_and_activations_take_and_more_of_a_larger_network(
    tmp_path: Path,
) -> None:
    """Expects weights and outputs of both hidden layers in memory at once.

    They must be there at the end of the forward pass.

    With TensorFlow gradients, too. Inputs of some batches, gradients of the outputs, and cuBLAS's
    32 MiB of workspace are all that there is besides: less than as much again and 256 MiB. XLA may
    give the memory of one layer's gradients to the next one, and tries kernels out in memory of
    their own, so that JAX and PyTorch are held to the least alone.
    """
    batch = 8192
    peaks = list[int]()
    for units in (2048, 4096):
        words = (
            f"run mnist_mlp --data synthetic --steps 5 --global-batch-size {batch} --devices"
            f" {DEVICE} --set model.hidden_units=[{units},{units}] {PLAIN}"
        )
        document = run_json(*words.split(), *ON_BACKEND, cwd=tmp_path)
        (peak,) = document["usage"]["peak_gpu_memory_bytes"]
        kept = 2 if NAME == "tensorflow" else 1
        least = 4 * (kept * document["num_parameters"] + 2 * batch * units)
        show(
            f"peak {peak / MEBIBYTE:,.0f} MiB, at least {least / MEBIBYTE:,.0f} MiB;"
            f" {document['settings']}"
        )
        assert least <= peak
        assert NAME != "tensorflow" or peak <= 2 * least + 256 * MEBIBYTE
        assert document["summary"]["peak_gpu_memory_bytes"] == peak
        peaks.append(peak)
    assert peaks[0] < peaks[1]


def test_a_batch_that_does_not_fit_is_out_of_memory_and_the_sweep_goes_on(tmp_path: Path) -> None:
    """Makes a layer whose outputs for all samples are 1.2 times the memory.

    Its weights take 1.6 % of the memory.

    TensorFlow's allocator waits 10 s for memory to be given back; on a processor it takes 20 s, and
    may crash then.
    """
    if REHEARSAL and Path("/proc/sys/vm/overcommit_memory").read_text().strip() == "1":
        pytest.skip("rehearsal: this machine promises memory that it does not have")
    total = psutil.virtual_memory().total if REHEARSAL else gpus.read_gpus()[0].memory_bytes
    assert total
    units = int(1.2 * total / 4 / LARGEST)
    words = (
        "sweep mnist_hidden100_mlp --data synthetic --repeats 1 --set measurement.steps=5"
        f" --vary training.global_batch_size={LARGEST},{SMALL} --set model.hidden_units=[{units}]"
        f" {PLAIN}"
    )
    done = run(*words.split(), "--setup", SETUP, *ON_BACKEND, cwd=tmp_path)
    show(f"sweep with a layer of {units:,} units", *done.stdout.splitlines())
    assert done.exit_code == 1, done.stderr[-4000:]
    assert REHEARSAL or "out of memory" in done.stdout
    journals = (tmp_path / "mlruns/journals").glob("*.jsonl")
    in_order = sorted(journals, key=lambda path: path.stat().st_mtime)
    (first,), (second,) = (of_kind(list(read_records(path)), "exit") for path in in_order)
    show("how the first ended", first["reason"][:600])
    assert (first["status"], second["status"]) == ("FAILED", "FINISHED")
    assert first["reason"].startswith("out of memory: ") or (
        REHEARSAL and "SIGSEGV" in first["reason"]
    )
