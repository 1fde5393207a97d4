"""Which GPUs there are, and whether a run takes place on the one that it names."""

from pathlib import Path

import pytest

from gpu_machine import (
    DEVICE,
    NAME,
    ON_BACKEND,
    REHEARSAL,
    STRATEGIES,
    TITLE,
    count_gpus,
    of_a_gpu_alone,
    of_tensorflow_alone,
    probe,
    run,
    run_json,
    show,
)
from tfbench.machine import gpus

pytestmark = pytest.mark.gpu

# As the framework names it.
FULL_NAME = (
    f"/job:localhost/replica:0/task:0/device:{DEVICE.upper()}" if NAME == "tensorflow" else DEVICE
)
GIBIBYTE = 2**30


@pytest.mark.skipif(
    NAME == "torch", reason="PyTorch looks for GPUs when Keras imports it: tfbench forks none of it"
)
def test_no_gpu_is_in_use_before_a_run_is_forked() -> None:
    found = probe("prepare_to_fork")
    assert (found["said"], found["is_started"], found["gpu_files"]) == ("ready", False, [])


@of_a_gpu_alone
def test_devices_names_every_gpu_with_its_driver_and_its_memory(tmp_path: Path) -> None:
    text = run("devices", cwd=tmp_path)
    facts = run_json("devices", cwd=tmp_path)
    show("tfbench devices", *text.stdout.splitlines(), f"problem: {facts['problem']}")
    assert facts["problem"] is None, "the driver names a GPU that a backend does not see"
    (backend,) = (one for one in facts["backends"] if one["name"] == NAME)
    assert backend["cuda"], f"this {TITLE} was built without CUDA"
    assert len(facts["gpus"]) == len(backend["gpus"]) == count_gpus(), backend["problem"]
    known = {gpu.bus_id: gpu for gpu in gpus.read_gpus()}
    for number, found in enumerate(facts["gpus"]):
        gpu = known[found["bus_id"]]
        assert (found["name"], found["driver"]) == (gpu.name, gpu.driver)
        assert found["driver"] and found["memory_bytes"] > GIBIBYTE
        assert f"gpu:{number}  {gpu.name}, " in text.stdout


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_weights_and_the_step_s_products_are_on_the_device_that_was_named(strategy: str) -> None:
    found = probe("place", device=DEVICE, strategy=strategy)
    show(f"placement of {strategy} {DEVICE}", *found.items())
    assert found["weights"] == [FULL_NAME]
    assert found["products"] and all(one.endswith(f" on {FULL_NAME}") for one in found["products"])
    assert found["devices"] == [DEVICE]
    # Every strategy of one replica has its batches by the same path; on a GPU the step does not
    # copy them itself, save that PyTorch's does.
    assert found["feed"] == ("direct" if REHEARSAL or NAME == "torch" else "prefetched")
    assert len(found["addresses"]) == (0 if REHEARSAL else 1)


@of_tensorflow_alone("data_on_device")
@pytest.mark.parametrize("compiler", ["graph", "xla"])
def test_steps_on_samples_that_lie_on_the_device_learn_what_others_do(
    tmp_path: Path, compiler: str
) -> None:
    """The run itself fails where a step, or what gathers its samples, is placed elsewhere."""
    small = f"run mnist_hidden100_mlp --data synthetic --epochs 1 --devices {DEVICE}"
    changes = (
        "--set training.data_on_device=true --set training.steps_per_execution=100 --set"
        f" training.compiler={compiler}"
    )
    usual = run_json(*small.split(), *ON_BACKEND, cwd=tmp_path)
    resident = run_json(*small.split(), *changes.split(), *ON_BACKEND, cwd=tmp_path)
    title = f"batches from the host, and samples on {DEVICE}, compiler {compiler}"
    show(title, usual["summary"], resident["summary"])
    assert resident["devices"] == [DEVICE]
    assert resident["epochs"][0]["loss"] == pytest.approx(usual["epochs"][0]["loss"], rel=1e-3)


@of_tensorflow_alone("mirrored")
@pytest.mark.gpu(2)
def test_mirrored_places_weights_on_every_gpu() -> None:
    found = probe("place", device="gpu", strategy="mirrored")
    show("placement of mirrored gpu", *found.items())
    assert len(found["weights"]) == len(found["devices"]) == len(found["addresses"]) == count_gpus()
    assert {one.rpartition(" on ")[2] for one in found["products"]} == set(found["weights"])


def test_an_absent_gpu_is_rejected_with_those_that_there_are(tmp_path: Path) -> None:
    words = "run mnist_hidden100_mlp --data synthetic --steps 1 --devices gpu:99"
    done = run(*words.split(), *ON_BACKEND, cwd=tmp_path)
    show("absent", done.stderr.strip().splitlines()[-1])
    assert done.exit_code == 2
    if REHEARSAL:
        told = "This machine has no GPU that a framework could use."
    else:
        there = ", ".join(["cpu:0", *(f"gpu:{number}" for number in range(count_gpus()))])
        told = f"{TITLE} sees: {there}" if NAME == "tensorflow" else f"This machine has: {there}"
    assert f"gpu:99: not found. {told}" in done.stderr.replace("\n", " ")
    assert not list(tmp_path.glob("mlruns/journals/*.jsonl"))
