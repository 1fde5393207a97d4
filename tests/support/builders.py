"""Small, complete records for tests.

Each builder takes what a test cares about and fills in the rest.
"""

from typing import Any

from tfbench.machine.facts import Environment, PeakCheck, Usage
from tfbench.recipe import registry
from tfbench.recipe import tables as recipe_tables
from tfbench.recipe.dataset_spec import DatasetSpec
from tfbench.recipe.sections import Recipe
from tfbench.runs.observer import TrainingProgress
from tfbench.runs.placement_record import Placement
from tfbench.runs.record import (
    DatasetSummary,
    EffectiveSettings,
    EpochRecord,
    ModelSummary,
    RunExit,
    RunRequest,
    RunResult,
    StepSpan,
)


def build_recipe(**sections: Any) -> Recipe:
    """Builds a recipe from tables laid over a minimal one: `build_recipe(training={"epochs".

    3})`.
    """
    tables: dict[str, Any] = {
        "recipe": {"title": "Test", "source": "this test"},
        "model": {"name": "mlp", "hidden_units": [4]},
        "dataset": {"name": "mnist", "data": "synthetic"},
        "training": {"global_batch_size": 32, "epochs": 2},
        "measurement": {"warmup_steps": 1},
    }
    if sections.get("model", {}).get("name", "mlp") != "mlp":
        del tables["model"]  # its options are not those of another model
    for name, values in sections.items():
        tables[name] = tables.get(name, {}) | values if isinstance(values, dict) else values
    return recipe_tables.from_tables(tables, name="test", source="test")


def build_spec(shape: tuple[int, ...], num_classes: int | None = 10, **fields: Any) -> DatasetSpec:
    """Describes byte images with labels, or float32 values with their targets.

    The targets have the shape of the values.
    """
    kind = {
        "input_dtype": "uint8" if num_classes else "float32",
        "target_shape": () if num_classes else shape,
    }
    sizes = {"train_samples": 50, "validation_samples": 10}
    return DatasetSpec(**{"input_shape": shape, "num_classes": num_classes} | kind | sizes | fields)


def describe_data(name: str, **options: Any) -> DatasetSpec:
    """Returns what is known of a shipped data set."""
    module = registry.load("datasets", name)
    return module.describe(module.Config(**options))


def build_request(**fields: Any) -> RunRequest:
    """Builds the request of one run."""
    return RunRequest(
        **{"run_id": "a" * 32, "name": "test", "created": 1_700_000_000.0, "recipe": build_recipe()}
        | fields
    )


def build_span(**fields: Any) -> StepSpan:
    """Builds a span of ten steps that took one second."""
    return StepSpan(**{"epoch": 1, "first_step": 1, "last_step": 10, "seconds": 1.0} | fields)


def build_epoch(**fields: Any) -> EpochRecord:
    """Builds the record of a first epoch."""
    return EpochRecord(
        **{
            "epoch": 1,
            "num_steps": 10,
            "epoch_seconds": 1.0,
            "validation_seconds": 0.5,
            "elapsed_seconds": 1.5,
            "samples_per_second": 320.0,
            "loss": 0.5,
            "accuracy": 0.8,
            "val_loss": 0.6,
            "val_accuracy": 0.75,
            "finished_at": 1_700_000_010.0,
        }
        | fields
    )


def build_progress(**fields: Any) -> TrainingProgress:
    """Builds half an epoch of three, at 150 steps a second."""
    return TrainingProgress(
        **{
            "step": 300,
            "total_steps": 1800,
            "epoch": 1,
            "step_in_epoch": 300,
            "steps_per_epoch": 600,
            "steps_per_second": 150.0,
            "seconds_left": 8.0,
            **fields,
        }
    )


def build_placement(**fields: Any) -> Placement:
    """Builds the placement of a run on one CPU device."""
    return Placement(
        **{
            "strategy": "one_device",
            "devices": ("cpu:0",),
            "hardware": ("Example CPU 3000",),
            "num_replicas": 1,
            "global_batch_size": 32,
            "per_replica_batch_size": 32,
            "cross_device_ops": None,
        }
        | fields
    )


def place_request(request: RunRequest) -> Placement:
    """Builds the placement of a run on the devices that it asks for, as if each were one CPU."""
    distribution = request.recipe.distribution
    batch = request.recipe.training.global_batch_size
    devices = distribution.devices or ("cpu:0",)
    return build_placement(
        strategy=distribution.strategy,
        devices=devices,
        hardware=("Example CPU 3000",) * len(devices),
        num_replicas=len(devices),
        global_batch_size=batch,
        per_replica_batch_size=batch // len(devices),
    )


def build_dataset(**fields: Any) -> DatasetSummary:
    """Builds what is recorded of synthetic data as large as MNIST."""
    sizes = {"train_samples": 60_000, "validation_samples": 10_000}
    return DatasetSummary(
        **{"name": "mnist", "source": "synthetic, seed 0", "synthetic": True} | sizes | fields
    )


def build_sizes(**fields: Any) -> ModelSummary:
    """Builds what is recorded of a network of 1,000 parameters."""
    return ModelSummary(**{"num_parameters": 1000, "num_trainable_parameters": 1000} | fields)


def build_peak(**fields: Any) -> PeakCheck:
    """Builds a check that found a peak of a million operations a second."""
    products = {"size": 100, "precision": "float32", "num_rounds": 3, "flops": 1_000_000}
    return PeakCheck(**products | {"seconds": 1.0} | fields)


def build_settings(**fields: Any) -> EffectiveSettings:
    """Builds the effective settings of a run with every default."""
    return EffectiveSettings(
        **{
            "compiler": "graph",
            "precision": "float32",
            "tensor_float_32": False,
            "steps_per_execution": 1,
            "intra_op_threads": 0,
            "inter_op_threads": 0,
            "deterministic": False,
            "seed": 0,
            "soft_device_placement": False,
            "image_data_format": "channels_last",
            "visible_gpus": (),
            "xla_flags": "",
            "onednn": "",
        }
        | fields
    )


def build_environment(**fields: Any) -> Environment:
    """Builds the environment of a machine with four cores and no GPU."""
    return Environment(
        **{
            "hostname": "bench",
            "cpu_model": "Example CPU 3000",
            "num_physical_cores": 4,
            "num_logical_cores": 8,
            "usable_cores": 8,
            "memory_bytes": 16 * 2**30,
            "gpus": (),
            "os": "Linux 6.1",
            "python": "3.11.7",
            "tfbench": "0.1.0",
            "tensorflow": "2.20.0",
            "keras": "3.12.0",
            "numpy": "2.1.0",
            "git_commit": None,
            "git_dirty": None,
            "load_average": 0.1,
        }
        | fields
    )


def build_usage(**fields: Any) -> Usage:
    """Builds the use of a quiet machine: four seconds, eight of CPU time, nothing else going on."""
    return Usage(
        **{
            "seconds": 4.0,
            "own_cpu_seconds": 8.0,
            "busy_cpu_seconds": 8.0,
            "stolen_cpu_seconds": 0.0,
            "num_logical_cores": 8,
            "throttled_seconds": None,
            "swapped_pages": 0,
            "major_page_faults": 0,
            "load_average": 2.0,
            "peak_memory_bytes": 2**30,
        }
        | fields
    )


def build_result(**fields: Any) -> RunResult:
    """Builds the result of a run that finished.

    One epoch of 20 steps, real data, one CPU device.
    """
    spans = (
        build_span(first_step=1, last_step=1, seconds=2.0),
        build_span(first_step=2, last_step=10),
        # Ten spans: fewer are a warning.
        *(build_span(first_step=step, last_step=step, seconds=0.1) for step in range(11, 21)),
    )
    return RunResult(
        **{
            "request": build_request(
                recipe=build_recipe(dataset={"data": "real"}, training={"epochs": 1})
            ),
            "stage": "finished",
            "placement": build_placement(),
            "settings": build_settings(),
            "environment": build_environment(),
            "dataset": build_dataset(
                source="test", synthetic=False, train_samples=640, validation_samples=100
            ),
            "model": build_sizes(),
            "steps_per_epoch": 20,
            "spans": spans,
            "epochs": (build_epoch(num_steps=20),),
            "usage": build_usage(),
            "exit": RunExit(status="FINISHED"),
            "started_at": 1_700_000_005.0,
            "ended_at": 1_700_000_010.0,
        }
        | fields
    )
