"""A network layer by layer, as lines of plain text."""

from tfbench.recipe.dataset_spec import DatasetSpec
from tfbench.recipe.sections import Recipe, TrainingConfig
from tfbench.records.model_table import LayerRow, ModelTable, SizesOrNone
from tfbench.report.formats import format_pairs
from tfbench.report.run.trained import describe_heads
from tfbench.report.text_table import fitting_lines
from tfbench.wording import count

_COLUMNS = (
    "layer",
    "output",
    "outputs",
    "weights",
    "parameters",
    "filters",
    "kernel",
    "stride",
    "input",
    "FLOPs",
    "training",
)
_TO_THE_LEFT = ("layer", "output")
_LESS_IMPORTANT = ("training", "input", "stride", "weights", "outputs", "filters", "kernel", "FLOPs")


def describe_model(recipe: Recipe, spec: DatasetSpec, table: ModelTable, width: int) -> list[str]:
    """Returns what a recipe's network is made of.

    Args:
        recipe: The recipe as resolved.
        spec: Its data.
        table: Its network's layers.
        width: Characters of a line; columns for which there is no room are left out.
    """
    head = [
        ("source", recipe.recipe.source),
        ("model", recipe.model.name),
        ("data", _describe_data(recipe.dataset.name, spec)),
        ("batch", f"{recipe.training.global_batch_size:,} samples"),
    ]
    return [
        f"{recipe.recipe.title} ({recipe.name})",
        *format_pairs(head, width),
        "",
        *_format_table(table, width),
        "",
        *format_pairs(_describe_sums(recipe.training, table), width),
    ]


def format_flops(flops: int) -> str:
    """Returns floating-point operations in four significant digits and the unit that suits: "1.341 GFLOP"."""
    size, units = float(flops), ["FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP"]
    while size >= 999.95 and len(units) > 1:  # what four digits would show as 1000
        size, units = size / 1000, units[1:]
    return f"{size:.4g} {units[0]}"


def _describe_data(name: str, spec: DatasetSpec) -> str:
    shape = _format_shape(spec.input_shape)
    if spec.stored_shape and spec.stored_shape != spec.input_shape:
        shape += f" out of {_format_shape(spec.stored_shape)}"
    kind = "no classes" if spec.num_classes is None else f"{spec.num_classes:,} classes"
    sizes = f"{spec.train_samples:,} to train, {spec.validation_samples:,} to validate"
    return f"{name}: samples of {shape}{_describe_values(spec)}, {kind}; {sizes}"


def _describe_values(spec: DatasetSpec) -> str:
    if spec.input_dtype != "uint8":
        return ""
    high = f"{255 * spec.input_scale:g}"
    return f", values 0 to {high}" if spec.mean == "none" else f", values 0 to {high} minus their mean"


def _describe_sums(training: TrainingConfig, table: ModelTable) -> list[tuple[str, str]]:
    parameters = f"{table.num_parameters:,}, of them {table.num_kernel_weights:,} weights"
    if table.num_trainable_parameters != table.num_parameters:
        parameters += f"; {table.num_trainable_parameters:,} are trained"
    pairs = [("parameters", parameters)]
    forward, trained = table.flops_per_sample, table.training_flops_per_sample
    if forward is not None and trained is not None:
        times = f": {trained / forward:.3g} x forward, with its gradients" if forward else ""
        step = format_flops(trained * training.global_batch_size)
        pairs += [
            ("forward", f"{format_flops(forward)} a sample"),
            ("training", f"{format_flops(trained)} a sample{times}"),
            ("step", f"{step} (training x {count(training.global_batch_size, 'sample')})"),
        ]
    num_outputs = table.layers[-1].num_outputs
    heads = describe_heads(training, num_outputs) if num_outputs else []
    return [*pairs, *(("note", text) for text in (*table.notes, *heads))]


def _format_table(table: ModelTable, width: int) -> list[str]:
    total = LayerRow(
        name="sum",
        kind="",
        output_shape=(),
        num_outputs=table.num_outputs,
        num_kernel_weights=table.num_kernel_weights,
        num_parameters=table.num_parameters,
        flops_per_sample=table.flops_per_sample,
        training_flops_per_sample=table.training_flops_per_sample,
    )
    rows = [*map(_cells, table.layers), _cells(total)]
    rows[-1] = (rows[-1][0], "", *rows[-1][2:])  # outputs have a sum, their shapes have none
    return fitting_lines(_COLUMNS, rows, width, left=_TO_THE_LEFT, drop=_LESS_IMPORTANT)


def _cells(row: LayerRow) -> tuple[str, ...]:
    return (
        f"{row.name} (again)" if row.is_used_again else row.name,
        _format_shape(row.output_shape),
        _format_count(row.num_outputs),
        _format_count(row.num_kernel_weights),
        _format_count(row.num_parameters),
        "" if row.filters is None else str(row.filters),
        _format_shape(row.kernel_size) if row.kernel_size else "",
        _format_window(row.strides),
        "" if row.input_shape is None else _format_input(row.input_shape),
        _format_count(row.flops_per_sample),
        _format_count(row.training_flops_per_sample),
    )


def _format_count(number: int | None) -> str:
    """Leaves out what is 0, so that the rest stands out; "?" is a number that is not known."""
    return "?" if number is None else f"{number:,}" if number else ""


def _format_shape(shape: SizesOrNone) -> str:
    return "x".join("?" if size is None else str(size) for size in shape) or "1"


def _format_window(sizes: SizesOrNone) -> str:
    """Returns "2" for (2, 2), "2x1" for (2, 1)."""
    return _format_shape(sizes[:1] if len(set(sizes)) == 1 else sizes) if sizes else ""


def _format_input(shape: SizesOrNone) -> str:
    """Returns channels x width, "64 x 24" for (24, 24, 64); both sizes where they differ, "64 x 24x12"."""
    *sizes, channels = shape or (1,)
    text = _format_shape((channels,))
    return f"{text} x {_format_window(tuple(sizes))}" if sizes else text
