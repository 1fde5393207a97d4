"""What `tfbench show --parallel` prints: ways to spread a network over devices, by counts, and what these predict."""

import json
import platform
from typing import TYPE_CHECKING, NamedTuple

import click

from tfbench.cli._output import echo_lines, text_width

if TYPE_CHECKING:
    from tfbench.analysis.comparison.brief import RunBrief
    from tfbench.analysis.parallel.cost_model import Prediction
    from tfbench.recipe.sections import Recipe
    from tfbench.records.link import LinkMeasurement
    from tfbench.records.model_table import ModelTable
    from tfbench.store.store import Store

_NUM_DEVICES = 4


class Predicted(NamedTuple):
    """Predictions, and the measured step and link that they rest on; or why there are none."""

    predictions: "list[Prediction]"
    source: str
    why_not: str = ""


def show_modes(
    recipe: "Recipe", table: "ModelTable", num_devices: int | None, store: "Store", output_format: str
) -> None:
    """Prints what each mode computes, holds and exchanges, and what to expect of more devices, if that can be said.

    Args:
        recipe: As resolved.
        table: Its network.
        num_devices: Of every mode; None: those of the recipe's mesh, or four.
        store: Where a measured link and step may be.
        output_format: "text" or "json".
    """
    import dataclasses

    from tfbench.analysis.parallel.modes import list_modes
    from tfbench.recipe.mesh import Mesh
    from tfbench.report.formats import wrap
    from tfbench.report.parallel.links import prediction_lines
    from tfbench.report.parallel.modes import describe_modes, modes_json

    asked = Mesh(**recipe.distribution.mesh) if recipe.distribution.mesh else Mesh(_NUM_DEVICES)
    batch = recipe.training.global_batch_size
    modes = list_modes(table.layers, recipe.distribution, num_devices or asked.num_devices, batch)
    predicted = _predict(recipe, table, store)
    if output_format == "json":
        document = modes_json(recipe, table, modes) | {
            "predictions": [dataclasses.asdict(one) for one in predicted.predictions],
            "predicted_from": predicted.source or None,
            "why_not_predicted": predicted.why_not or None,
        }
        click.echo(json.dumps(document, indent=2))
        return
    width = text_width()
    echo_lines(describe_modes(recipe, table, modes, width))
    if predicted.why_not:
        echo_lines(wrap(predicted.why_not, width, first="- "))
    else:
        echo_lines(["", *prediction_lines(predicted.predictions, predicted.source, width)])


def _predict(recipe: "Recipe", table: "ModelTable", store: "Store") -> Predicted:
    from tfbench.analysis.parallel.cost_model import predict_modes
    from tfbench.analysis.parallel.link import fit_link
    from tfbench.report.formats import format_speed
    from tfbench.report.parallel.links import describe_link
    from tfbench.store.links import list_links

    links = [link for link in list_links(store) if link.hostname == platform.node() and not link.is_of_logical_devices]
    if not links:
        return Predicted([], "", f"No times: {_no_link(store)}")
    batch = recipe.training.global_batch_size
    run = _find_step(recipe, table, store)
    if run is None or run.speed is None:
        why = f"No times: no run of {recipe.name} on one GPU with {batch:,} samples a step is stored."
        return Predicted([], "", why)
    link: LinkMeasurement = links[0]
    fitted = fit_link(link)
    predictions = predict_modes(table.layers, fitted, step_seconds=batch / run.speed, batch_size=batch)
    source = (
        f"{format_speed(run.speed)} samples/s of run {run.run_id} ({run.backend}) on one {', '.join(run.hardware)}, "
        f"with {batch:,} samples a step, and the link of {len(link.devices)} {link.hardware}: {describe_link(fitted)}"
    )
    if not predictions:
        return Predicted([], "", "No times: operations or exchanges are not known.")
    return Predicted(predictions, source)


def _no_link(store: "Store") -> str:
    command = store.command("calibrate", "--links")
    return f"no link between GPUs of this machine is stored; `{command}` measures one where there are several."


def _find_step(recipe: "Recipe", table: "ModelTable", store: "Store") -> "RunBrief | None":
    """Returns the newest run of this network on one GPU, with the batch of the recipe."""
    from tfbench.store.briefs import read_briefs

    ids = [head.run_id for head in store.heads() if not head.profile]
    alike = [
        brief
        for brief in read_briefs(store, ids).found
        if brief.speed
        and brief.recipe == recipe.name
        and brief.num_devices == 1
        and brief.devices[0].startswith("gpu")
        and brief.metrics.get("global_batch_size") == recipe.training.global_batch_size
        and brief.metrics.get("num_parameters") == table.num_parameters
    ]
    return max(alike, key=lambda brief: brief.created, default=None)
