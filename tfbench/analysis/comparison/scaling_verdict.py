"""How training scales, in plain sentences, and no more than the intervals support."""

from collections.abc import Iterator

from tfbench.analysis.comparison.causes import is_input_large, rest_sentence
from tfbench.analysis.comparison.scaling import Scaling, ScalingPoint

_BEGINNINGS = {
    "faster": "{num} replicas help: {speed}",
    "slower": "{num} replicas cost instead of helping: {speed}",
    "no measurable difference": "{num} replicas show no measurable difference to one: {speed}",
    "too noisy to tell": "{num} replicas: too noisy to tell whether they help (--repeats 10 tells more): {speed}",
    "not judged": "{num} replicas are not judged, since one run each says nothing of chance (--repeats 3): {speed}",
}


def scaling_sentences(scaling: Scaling) -> Iterator[str]:
    """Yields what is compared; for each number of replicas what it gives or costs; which is fastest; what is not known.

    What a step takes beyond the ideal is measured. What it goes to is not, so that it is said what would measure it.
    """
    if scaling.kind == "weak":
        yield (
            f"Weak scaling: {scaling.batch_size:,} samples a step for each replica. The arms differ in their global "
            "batch size on purpose: speeds are compared, and nothing is said of how well larger batches learn."
        )
    else:
        yield f"Strong scaling: {scaling.batch_size:,} samples a step in every arm, divided among the replicas."
    for point in scaling.points[1:]:
        speed = f"{_describe_speed(point, scaling)}.{_describe_step(point, scaling)}{_describe_input(point)}"
        yield _BEGINNINGS[point.finding or "not judged"].format(num=point.num_replicas, speed=speed)
    yield from _name_fastest(scaling)
    unexplained = [point for point in scaling.points[1:] if _is_lost(point, scaling)]
    if unexplained:
        beyond = "that of one replica" if scaling.shares_cores else "the ideal"
        yield f"What a step takes beyond {beyond} was not broken down: {rest_sentence(unexplained[-1].entry)}"


def _describe_speed(point: ScalingPoint, scaling: Scaling) -> str:
    value, low, high = point.speedup
    interval = "" if low is None or high is None else f" [{low:.3g}, {high:.3g}]"
    text = f"{value:.3g} times the speed of one{interval}"
    if point.efficiency is None:
        return text
    return f"{text}, of {point.num_replicas} at best, an efficiency of {100 * point.efficiency.value:.0f} %"


def _describe_step(point: ScalingPoint, scaling: Scaling) -> str:
    """Says what a step takes, beside the ideal, or on shared cores beside one replica's time for as many samples.

    Where the interval does not exclude that nothing is lost, there is nothing to be explained.
    """
    if not _is_lost(point, scaling):
        return ""
    step, same = _time(point.step_seconds), _time(point.same_work_seconds)
    if point.ideal_step_seconds is None or point.lost_seconds is None:
        return f" No core is added: a step takes {step}, and one replica {same} for as many samples."
    return f" A step takes {step}, {_time(point.lost_seconds)} beyond the ideal of {_time(point.ideal_step_seconds)}."


def _is_lost(point: ScalingPoint, scaling: Scaling) -> bool:
    speedup = point.entry.speedup
    if scaling.shares_cores or speedup is None or speedup.high is None:
        return point.judgement == "slower"
    return speedup.high < point.num_replicas


def _describe_input(point: ScalingPoint) -> str:
    if point.input_share is None or not is_input_large(point.input_share):
        return ""
    return f" Its input alone takes {100 * point.input_share:.0f} % of a step, and may be what limits."


def _name_fastest(scaling: Scaling) -> Iterator[str]:
    """Says which number is fastest; where the intervals of two overlap, that they cannot be told apart."""
    others = scaling.points[1:]
    faster = [point for point in others if point.judgement == "faster"]
    if all(point.judgement == "slower" for point in others):
        yield f"Of the numbers of replicas that were measured, one is fastest{_missing(scaling)}."
    if not faster:
        return
    best = max(faster, key=lambda point: point.speedup.value)
    floor = best.speedup.low
    if floor is None:
        return
    near = [point for point in others if point is not best and (point.speedup.high or point.speedup.value) >= floor]
    if near:
        names = [str(point.num_replicas) for point in sorted((*near, best), key=lambda point: point.num_replicas)]
        which = f"{', '.join(names[:-1])} or {names[-1]}"
        yield f"Whether {which} replicas are fastest, their intervals do not tell{_missing(scaling)}."
    else:
        yield (f"Of the numbers of replicas that were measured, {best.num_replicas} are fastest{_missing(scaling)}.")


def _missing(scaling: Scaling) -> str:
    names = ", ".join(map(str, sorted(scaling.missing)))
    return f"; of {names} there is no speed" if names else ""


def _time(seconds: float) -> str:
    return f"{1e3 * seconds:.3g} ms"
