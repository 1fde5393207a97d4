"""A network layer by layer, as sections."""

import dataclasses

from tfbench.recipe.dataset_spec import DatasetSpec
from tfbench.recipe.sections import Recipe, TrainingConfig
from tfbench.runs.header import describe_heads
from tfbench.runs.layer_record import LayerRow, ModelTable, SizesOrNone
from tfbench.show.formats import format_si
from tfbench.show.table import Column, Facts, Section, Table, facts_section, text_column
from tfbench.wording import count


def model_sections(recipe: Recipe, spec: DatasetSpec, table: ModelTable) -> list[Section]:
    """Returns what a recipe's network is made of, given its data and its network's layers."""
    head = [
        ("source", recipe.recipe.source),
        ("model", recipe.model.name),
        ("data", _describe_data(recipe.dataset.name, spec)),
        ("batch", f"{recipe.training.global_batch_size:,} samples"),
    ]
    rows = [_values(row) for row in table.layers]
    summed = (*_COUNTS, "num_kernel_weights", "num_parameters")
    sums = {name: _or_unknown(getattr(table, name)) for name in summed}
    rows.append({"name": "sum", **sums})
    return [
        facts_section(f"{recipe.recipe.title} ({recipe.name})", head),
        Section("", tables=(Table("layers", _COLUMNS, rows),)),
        facts_section("", _describe_sums(recipe.training, table)),
    ]


def _describe_data(name: str, spec: DatasetSpec) -> str:
    sizes = f"{spec.train_samples:,} to train, {spec.validation_samples:,} to validate"
    if spec.is_structured:
        return f"{name}: random samples in the shapes of the network's inputs; {sizes}"
    shape = _format_shape(spec.input_shape)
    if spec.stored_shape and spec.stored_shape != spec.input_shape:
        shape += f" cropped from {_format_shape(spec.stored_shape)}"
    if spec.input_dtype == "uint8":
        shape += f", values 0 to {255 * spec.input_scale:g}"
        if spec.mean != "none":
            shape += " minus their mean"
    kind = "no classes"
    if spec.num_classes is not None:
        kind = f"{spec.num_classes:,} classes"
    return f"{name}: samples of {shape}, {kind}; {sizes}"


def _describe_sums(training: TrainingConfig, table: ModelTable) -> Facts:
    parameters = f"{table.num_parameters:,} ({table.num_kernel_weights:,} in kernels)"
    if table.num_trainable_parameters != table.num_parameters:
        parameters += f"; {table.num_trainable_parameters:,} are trained"
    yield "parameters", parameters
    forward = table.flops_per_sample
    trained = table.training_flops_per_sample
    if forward is not None and trained is not None:
        times = ""
        if forward:
            times = f" ({trained / forward:.3g}x forward, with gradients)"
        step = format_si(trained * training.global_batch_size, "FLOP", 4)
        yield "forward", f"{format_si(forward, 'FLOP', 4)} per sample"
        yield "training", f"{format_si(trained, 'FLOP', 4)} per sample{times}"
        yield "step", f"{step} (training x {count(training.global_batch_size, 'sample')})"
    for text in (*table.notes, *describe_heads(training)):
        yield "note", text


def _values(row: LayerRow) -> dict[str, object]:
    values = dataclasses.asdict(row)
    for name in _COUNTS:
        values[name] = _or_unknown(values[name])
    if row.is_used_again:
        values["name"] = f"{row.name} (again)"
    return values


def _or_unknown(number: int | None) -> int | str:
    return "?" if number is None else number


def _format_count(number: int | str) -> str:
    """Leaves out what is 0, so that the rest stands out."""
    if isinstance(number, int) and number:
        return f"{number:,}"
    return str(number or "")


def _format_shape(shape: SizesOrNone) -> str:
    return "x".join("?" if size is None else str(size) for size in shape) or "1"


def _format_sizes(sizes: SizesOrNone) -> str:
    return _format_shape(sizes) if sizes else ""


_COUNTS = ("num_outputs", "flops_per_sample", "training_flops_per_sample")
_COLUMNS = (
    text_column("name", "layer"),
    Column("output_shape", "output", _format_shape, "left"),
    Column("num_outputs", "outputs", _format_count, rank=4),
    Column("num_kernel_weights", "weights", _format_count, rank=5),
    Column("num_parameters", "parameters", _format_count),
    Column("filters", "filters", rank=3),
    Column("kernel_size", "kernel", _format_sizes, rank=2),
    Column("strides", "stride", _format_sizes, rank=6),
    Column("input_shape", "input", _format_shape, rank=7),
    Column("flops_per_sample", "FLOPs", _format_count, rank=1),
    Column("training_flops_per_sample", "training", _format_count, rank=8),
)
