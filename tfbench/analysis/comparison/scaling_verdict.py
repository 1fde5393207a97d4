"""How training scales, in plain sentences, and no more than the intervals support."""

from collections.abc import Iterator, Sequence

from tfbench.analysis.comparison.causes import is_input_large, rest_sentence
from tfbench.analysis.comparison.scaling import Scaling, ScalingPoint
from tfbench.recipe.sections import CUTTING_STRATEGIES

_BEGINNINGS = {
    "faster": "{what} help: {speed}",
    "slower": "{what} cost instead of helping: {speed}",
    "no measurable difference": "{what} show no measurable difference to one: {speed}",
    "too noisy to tell": "{what}: too noisy to tell whether they help (--repeats 10 tells more): {speed}",
    "not judged": "{what} are not judged, since one run each says nothing of chance (--repeats 3): {speed}",
}


def scaling_sentences(scaling: Scaling) -> Iterator[str]:
    """Yields what is compared; for each number of devices and mode what it gives or costs; which is fastest.

    What a step takes beyond the ideal is measured. What it goes to is not, so that it is said what would measure it.
    """
    yield _describe_batches(scaling)
    for point in scaling.points[1:]:
        speed = f"{_describe_speed(point, scaling)}.{_describe_step(point, scaling)}{_describe_input(point)}"
        yield _BEGINNINGS[point.finding or "not judged"].format(what=_name(point, scaling), speed=speed)
    yield from compare_modes(scaling)
    yield from _name_fastest(scaling)
    yield from _explain_losses(scaling)


def _explain_losses(scaling: Scaling) -> Iterator[str]:
    """Says what would measure what steps take beyond the ideal; the modes that cut weights have that in common."""
    beyond = f"that of one {'replica' if scaling.has_replicas else 'device'}" if scaling.shares_cores else "the ideal"
    lost = {mode: [point for point in scaling.line(mode)[1:] if _is_lost(point, scaling)] for mode in scaling.modes}
    for cuts_weights in (False, True):
        names = [mode for mode in scaling.modes if lost[mode] and (mode in CUTTING_STRATEGIES) == cuts_weights]
        if names:
            of_modes = "" if scaling.has_replicas else f" in mode {' or '.join(names)}"
            rest = rest_sentence(lost[names[0]][-1].entry)
            is_traced = lost[names[0]][-1].transfer_share is not None
            how = "was broken down no further than that" if is_traced else "was not broken down"
            yield f"What a step takes{of_modes} beyond {beyond} {how}: {rest}"


def compare_modes(scaling: Scaling) -> Iterator[str]:
    """Yields for each number of devices which mode is fastest, if the runs tell, and which exchanges least."""
    for number in dict.fromkeys(point.num_devices for point in scaling.points[1:]):
        points = [point for point in scaling.points if point.num_devices == number]
        if len(points) < 2 or any(point.speedup.low is None for point in points):
            continue
        near, ordered = scaling.lead(points), _order_by_exchange(points)
        if len(near) == 1:
            yield f"On {number} devices {near[0].mode} is the fastest mode{_beside_exchanges(near[0], ordered)}."
        else:
            which = _join([str(point.mode) for point in near])
            least = f"; {ordered[0].mode} exchanges the least: {_list_exchanges(ordered)}" if ordered else ""
            yield f"On {number} devices these runs do not tell whether {which} is the fastest mode{least}."


def _order_by_exchange(points: Sequence[ScalingPoint]) -> list[ScalingPoint]:
    """Returns points by what they exchange, the least first; none unless it is known of all."""
    known = [(point.exchanged_bytes, point) for point in points if point.exchanged_bytes is not None]
    return [point for _, point in sorted(known, key=lambda pair: pair[0])] if len(known) == len(points) else []


def _beside_exchanges(best: ScalingPoint, ordered: Sequence[ScalingPoint]) -> str:
    if not ordered:
        return ""
    start = "and exchanges the least" if best is ordered[0] else "though not the one that exchanges the least"
    return f", {start}: {_list_exchanges(ordered)}"


def _list_exchanges(ordered: Sequence[ScalingPoint]) -> str:
    texts = [f"{point.mode} {_mebibytes(point.exchanged_bytes)}" for point in ordered]
    return f"{', '.join(texts)} a step (compiled collectives)"


def _mebibytes(num_bytes: float | None) -> str:
    return f"{(num_bytes or 0.0) / 2**20:.3g} MiB"


def _describe_batches(scaling: Scaling) -> str:
    what, samples = ("replica" if scaling.has_replicas else "device"), f"{scaling.batch_size:,} samples a step"
    if scaling.kind == "weak":
        return (
            f"Weak scaling: {samples} for each {what}. The arms differ in their global batch size on purpose: speeds "
            "are compared, and nothing is said of how well larger batches learn."
        )
    shared = ", divided among the replicas" if scaling.has_replicas else ""
    return f"Strong scaling: {samples} in every arm{shared}."


def _name(point: ScalingPoint, scaling: Scaling) -> str:
    if scaling.has_replicas:
        return f"{point.num_devices} replicas"
    if point.mode is None:
        return "one device"
    return f"{point.num_devices} devices in mode {point.mode}"


def _describe_speed(point: ScalingPoint, scaling: Scaling) -> str:
    value, low, high = point.speedup
    interval = "" if low is None or high is None else f" [{low:.3g}, {high:.3g}]"
    text = f"{value:.3g} times the speed of one{interval}"
    if point.efficiency is None:
        return text
    return f"{text}, of {point.num_devices} at best, an efficiency of {100 * point.efficiency.value:.0f} %"


def _describe_step(point: ScalingPoint, scaling: Scaling) -> str:
    """Says what a step takes, beside the ideal, or on shared cores beside one device's time for as many samples.

    Where the interval does not exclude that nothing is lost, there is nothing to be explained.
    """
    if not _is_lost(point, scaling):
        return ""
    step, same = _time(point.step_seconds), _time(point.same_work_seconds)
    if point.ideal_step_seconds is None or point.lost_seconds is None:
        one = "replica" if scaling.has_replicas else "device"
        return (
            f" No core is added: a step takes {step}, and one {one} {same} for as many samples.{_describe_trace(point)}"
        )
    beyond = f"{_time(point.lost_seconds)} beyond the ideal of {_time(point.ideal_step_seconds)}"
    return f" A step takes {step}, {beyond}.{_describe_trace(point)}"


def _describe_trace(point: ScalingPoint) -> str:
    if point.transfer_share is None:
        return ""
    waiting = f", waiting for the slowest worker {100 * point.waiting_share:.0f} %" if point.waiting_share else ""
    return f" As traced, collectives take {100 * point.transfer_share:.0f} % of a step that is waited for{waiting}."


def _is_lost(point: ScalingPoint, scaling: Scaling) -> bool:
    speedup = point.entry.speedup
    if scaling.shares_cores or speedup is None or speedup.high is None:
        return point.judgement == "slower"
    return speedup.high < point.num_devices


def _describe_input(point: ScalingPoint) -> str:
    if point.input_share is None or not is_input_large(point.input_share):
        return ""
    return f" Its input alone takes {100 * point.input_share:.0f} % of a step, and may be what limits."


def _name_fastest(scaling: Scaling) -> Iterator[str]:
    """Says what is fastest; where several cannot be told apart, that they cannot."""
    points = scaling.points
    measured = "Of the numbers of replicas that were measured," if scaling.has_replicas else "Of what was measured,"
    near = scaling.lead(points)
    names = [str(point.num_devices) if scaling.has_replicas else _name(point, scaling) for point in near]
    if len(near) > 1:
        if any(point.judgement in ("faster", "slower") for point in points):
            which = _join(names) + (" replicas" if scaling.has_replicas else "")
            yield f"Whether {which} are fastest, these runs do not tell{_missing(scaling)}."
    elif near == [points[0]]:
        yield f"{measured} one{'' if scaling.has_replicas else ' device'} is fastest{_missing(scaling)}."
    else:
        yield f"{measured} {names[0]} are fastest{_missing(scaling)}."


def _missing(scaling: Scaling) -> str:
    places = sorted(scaling.missing, key=lambda place: place.order)
    names = [str(place.num_devices) + ("" if scaling.has_replicas else f" by {place.mode}") for place in places]
    return f"; of {', '.join(names)} there is no speed" if names else ""


def _join(names: Sequence[str]) -> str:
    return f"{', '.join(names[:-1])} or {names[-1]}"


def _time(seconds: float) -> str:
    return f"{1e3 * seconds:.3g} ms"
