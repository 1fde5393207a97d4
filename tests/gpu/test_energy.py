"""What a real GPU's driver says of energy, and what a run on it makes of that."""

from pathlib import Path

import pytest

from gpu_machine import DEVICE, ON_BACKEND, of_a_gpu_alone, run_json, show
from tfbench.machine import gpus

pytestmark = pytest.mark.gpu


@of_a_gpu_alone
def test_the_energy_of_a_run_is_that_of_its_gpu_and_lies_below_its_power_limit(
    tmp_path: Path,
) -> None:
    """Trains for 30 s on the first GPU.

    Its mean watts must be some, and no more than its limit allows.
    """
    words = f"run mnist_cnn --data synthetic --devices {DEVICE} --seconds 30"
    document = run_json(*words.split(), *ON_BACKEND, cwd=tmp_path)
    energy = document["energy"]
    summary = document["summary"]
    addresses = {source["name"] for source in energy["sources"] if source["part"] == "gpu"}
    if not addresses:
        pytest.skip(f"the driver counts no energy of this GPU: {energy['problems']}")
    (address,) = addresses
    (gpu,) = (one for one in gpus.read_gpus() if one.bus_id == address)
    show("energy of a training of 30 s", gpu, summary, energy, *document["warnings"])
    assert energy["seconds"] == pytest.approx(summary["steady_seconds"], rel=0.05)
    assert 5 < summary["mean_watts"] <= 1.1 * (gpu.power_limit_watts or 1000)
    assert document["settings"]["gpu_addresses"][0] == address
