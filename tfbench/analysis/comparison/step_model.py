"""A small cost model of a training step: what it takes in any case, for its work, and for what replicas exchange."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

Unit = Literal["sample", "operation", "parameter"]

BYTES_PER_PARAMETER = 4  # of a gradient, as replicas exchange it
MIN_VALUES = 3  # as many as there are costs fit anything
_LARGEST_CONDITION = 100.0  # of what costs are fitted to, each scaled to 1; beyond it, they grow alike


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class StepWork:
    """What a step is made of.

    `work` is in samples; where the network is what varies, in their floating-point operations, or where these are not
    known, in samples times parameters.
    """

    work: float
    unit: Unit
    exchanged_bytes: float  # by replicas; 0 for one


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class StepModel:
    """Step time = fixed + work * per_work + exchanged bytes * per_byte; times in seconds, none negative.

    `per_byte` is of all that grows as the bytes do, the update of the weights among it. It is None where there is
    nothing to tell it by: one replica; one size of network, where its cost is in `fixed`; or bytes that grow as the
    work does, where it is in `per_work`.
    """

    fixed: float
    per_work: float
    per_byte: float | None
    unit: Unit  # of the work
    exchanges_untold: bool  # whether replicas exchange something whose cost is in those of the rest
    num_values: int
    largest_error: float  # of the fitted step times at the values, as a share

    @property
    def num_costs(self) -> int:
        """How many costs were fitted, those that came out as nothing among them."""
        return 2 if self.per_byte is None else 3

    def predict(self, step: StepWork) -> float:
        """Returns the step time that it comes to, in seconds."""
        return self.fixed + step.work * self.per_work + step.exchanged_bytes * (self.per_byte or 0.0)


def describe_work(metrics: Mapping[str, float | None], *, varies_batch: bool) -> StepWork | None:
    """Returns what a step of a run is made of; None where that is not known.

    Args:
        metrics: Of a run.
        varies_batch: Whether the batch size is what varies, and not the network.
    """
    batch, parameters = metrics.get("global_batch_size"), metrics.get("num_parameters")
    if not batch:
        return None
    costs: dict[Unit, float | None] = {"operation": metrics.get("flops_per_sample"), "parameter": parameters}
    if varies_batch:
        costs = {"sample": 1.0}
    known = [(unit, cost) for unit, cost in costs.items() if cost]
    if not known:
        return None
    unit, cost = known[0]
    exchanged = metrics.get("collective_bytes_per_step")
    if exchanged is None:
        has_replicas = (metrics.get("num_replicas") or 1) > 1
        exchanged = BYTES_PER_PARAMETER * (parameters or 0.0) if has_replicas else 0.0
    return StepWork(work=batch * cost, unit=unit, exchanged_bytes=exchanged)


def fit_step_model(measured: Sequence[tuple[StepWork, float]]) -> StepModel | None:
    """Fits the costs to step times by least squares of relative errors, which for small ones are those of logarithms.

    A cost that comes out negative is left out, and the rest is fitted anew.

    Args:
        measured: One a run: what its steps are made of, and what one took, in seconds.

    Returns:
        None where the work is of fewer than three sizes.
    """
    values = sorted({step.work for step, _ in measured})
    if len(values) < MIN_VALUES:
        return None
    seconds = np.array([time for _, time in measured])
    columns = {
        "fixed": np.ones(len(measured)),
        "per_work": np.array([step.work for step, _ in measured]),
        "per_byte": np.array([step.exchanged_bytes for step, _ in measured]),
    }
    exchanges = bool(columns["per_byte"].any())
    if np.ptp(columns["per_byte"]) == 0 or not _can_be_told_apart(np.column_stack(list(columns.values()))):
        del columns["per_byte"]
    costs: dict[str, float] = {}
    names = list(columns)
    while names:
        rows = np.column_stack([columns[name] for name in names]) / seconds[:, None]
        found, *_ = np.linalg.lstsq(rows, np.ones(len(measured)), rcond=None)
        costs = dict(zip(names, map(float, found), strict=True))
        if min(costs.values()) >= 0:
            break
        names.remove(min(costs, key=lambda name: costs[name] * float(columns[name].mean())))
    model = StepModel(
        fixed=costs.get("fixed", 0.0),
        per_work=costs.get("per_work", 0.0),
        per_byte=costs.get("per_byte", 0.0) if "per_byte" in columns else None,
        unit=measured[0][0].unit,
        exchanges_untold=exchanges and "per_byte" not in columns,
        num_values=len(values),
        largest_error=0.0,
    )
    return dataclasses.replace(model, largest_error=_find_largest_error(model, measured))


def _can_be_told_apart(rows: Any) -> bool:
    return bool(np.linalg.cond(rows / np.linalg.norm(rows, axis=0)) <= _LARGEST_CONDITION)


def _find_largest_error(model: StepModel, measured: Sequence[tuple[StepWork, float]]) -> float:
    """Returns by how much the geometric mean of the runs at a value differs from the fit, where it does so most."""
    logs: dict[StepWork, list[float]] = {}
    for step, seconds in measured:
        logs.setdefault(step, []).append(float(np.log(model.predict(step) / seconds)))
    return max(abs(float(np.expm1(np.mean(errors)))) for errors in logs.values())
