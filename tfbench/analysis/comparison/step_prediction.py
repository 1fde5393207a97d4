"""Where two arms are equally fast by their cost models, as far as these bound it."""

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tfbench.analysis.comparison.intervals import CONFIDENCE
from tfbench.analysis.comparison.step_model import StepModel, StepWork, fit_step_model

_NUM_PLACES = 200  # at which a prediction is looked at
_NUM_DRAWS = 200
_SEED = 0

Measured = Sequence[tuple[StepWork, float]]  # one a run: what its steps are made of, and what one took, in seconds


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class PredictedCrossing:
    """A value at which two arms are equally fast by their cost models, with its 95 % interval."""

    value: float
    low: float
    high: float


def bound_crossings(
    measured: tuple[Measured, Measured], steps: tuple[Mapping[int, StepWork], Mapping[int, StepWork]]
) -> tuple[PredictedCrossing, ...] | None:
    """Returns where two arms take the same time for a step by their cost models; None where that is not bounded.

    The models are fitted again to step times drawn around them, as far off at each value as the runs were, which holds
    both chance and what the model does not know; drawn errors are as uncertain as their estimate is (Student's t). A
    crossing counts as bounded where at least 95 % of the draws have one in the range and to the same side, and that
    there is none where as many have none; several crossings are never bounded.

    Args:
        measured: Of each arm.
        steps: For each arm, what a step is made of at each value that was measured, at least two; in between it is
            interpolated.
    """
    models = (fit_step_model(measured[0]), fit_step_model(measured[1]))
    if models[0] is None or models[1] is None:
        return None
    found = predict_crossings((models[0], models[1]), steps)
    spreads = [_find_spread(models[0], measured[0]), _find_spread(models[1], measured[1])]
    if len(found) > 1 or min(degrees for _, degrees in spreads) < 1:
        return None  # or nothing says how far off the models are
    generator = np.random.default_rng(_SEED)
    draws = [_draw_crossings((models[0], models[1]), spreads, steps, generator) for _ in range(_NUM_DRAWS)]
    if not found:
        return () if sum(not drawn for drawn in draws) >= CONFIDENCE * _NUM_DRAWS else None
    value, rises = found[0]
    like = [drawn[0][0] for drawn in draws if len(drawn) == 1 and drawn[0][1] == rises]
    if len(like) < CONFIDENCE * _NUM_DRAWS:
        return None
    tail = 50 * (1 - CONFIDENCE)
    low, high = np.percentile(like, [tail, 100 - tail])
    return (PredictedCrossing(value=value, low=float(min(low, value)), high=float(max(high, value))),)


def predict_crossings(
    models: tuple[StepModel, StepModel], steps: tuple[Mapping[int, StepWork], Mapping[int, StepWork]]
) -> list[tuple[float, bool]]:
    """Returns the values at which two arms are predicted to take the same time for a step, in ascending order.

    With each it is said whether the second arm is the faster one above it.
    """
    known = sorted(steps[0].keys() & steps[1].keys())
    places = np.geomspace(known[0], known[-1], _NUM_PLACES)
    ratio = np.log(_predict_all(models[0], steps[0], known, places) / _predict_all(models[1], steps[1], known, places))
    found = []
    for index, (before, after) in enumerate(itertools.pairwise(ratio)):
        if before * after < 0 or (before == 0 != after):
            share = before / (before - after)
            value = float(places[index] * (places[index + 1] / places[index]) ** share)
            found.append((value, bool(after > before)))
    return found


def _draw_crossings(
    models: tuple[StepModel, StepModel],
    spreads: Sequence[tuple[float, int]],
    steps: tuple[Mapping[int, StepWork], Mapping[int, StepWork]],
    generator: np.random.Generator,
) -> list[tuple[float, bool]]:
    """Returns the crossings of models fitted to drawn step times."""
    drawn = []
    for model, (spread, degrees), works in zip(models, spreads, (of_arm.values() for of_arm in steps), strict=True):
        spread *= float(np.sqrt(degrees / generator.chisquare(degrees)))
        fitted = fit_step_model(
            [(work, model.predict(work) * float(np.exp(generator.normal(0, spread)))) for work in works]
        )
        if fitted is None:
            return []
        drawn.append(fitted)
    return predict_crossings((drawn[0], drawn[1]), steps)


def _find_spread(model: StepModel, measured: Measured) -> tuple[float, int]:
    """Returns how far the geometric mean of the runs at a value is off the model, and its degrees of freedom."""
    logs: dict[StepWork, list[float]] = {}
    for step, seconds in measured:
        logs.setdefault(step, []).append(float(np.log(seconds / model.predict(step))))
    degrees = len(logs) - model.num_costs
    squares = sum(float(np.mean(errors)) ** 2 for errors in logs.values())
    return float(np.sqrt(squares / max(1, degrees))), degrees


def _predict_all(model: StepModel, steps: Mapping[int, StepWork], known: Sequence[int], places: Any) -> Any:
    work = _interpolate(places, known, [steps[value].work for value in known])
    exchanged = np.array([steps[value].exchanged_bytes for value in known])
    byte_costs = 0.0 if not exchanged.all() else _interpolate(places, known, exchanged) * (model.per_byte or 0.0)
    return model.fixed + work * model.per_work + byte_costs


def _interpolate(places: Any, known: Sequence[int], values: Any) -> Any:
    """Interpolates on logarithmic scales, on which what grows as a power of the value is a straight line."""
    return np.exp(np.interp(np.log(places), np.log(known), np.log(values)))
