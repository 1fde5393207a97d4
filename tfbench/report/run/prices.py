"""What the console shows of a run's cost."""

from tfbench.analysis.run.cost import AlternativeCost, Cost, TargetCost, compute_cost
from tfbench.records.run import RunResult
from tfbench.report.formats import format_number, format_pairs, format_time


def cost_lines(result: RunResult, width: int) -> list[str]:
    """Returns what a run cost, and what it would have cost elsewhere; nothing without a price."""
    cost = compute_cost(result)
    if cost is None:
        return []
    pairs = [("machine", describe_cost(cost))]
    if cost.epoch is not None:
        pairs.append(("an epoch", f"{_money(cost.epoch, cost)}, training and validation"))
    if cost.target:
        pairs.append(("to accuracy", _describe_target(cost.target, cost)))
    config = result.request.recipe.cost
    if cost.storage:
        storage_price = _money(config.storage_price_per_gib_month, cost)
        kept = f"{format_number(config.storage_gib)} GiB at {storage_price} per GiB and month of 30 days"
        pairs.append(("storage", f"{_money(cost.storage, cost)}: {kept}"))
        total = _money(cost.total, cost)
        pairs.append(("together", f"{total}, {_money(cost.total_per_hour, cost)} an hour"))
    pairs += [("elsewhere", _describe_alternative(other, cost)) for other in cost.alternatives]
    return ["Cost, from the request of the run to its end", *format_pairs(pairs, width)]


def describe_cost(cost: Cost) -> str:
    """Returns what the machine cost, for how long, and at which price."""
    price = _money(cost.price_per_hour, cost) + " an hour" + (f" ({cost.instance})" if cost.instance else "")
    return f"{_money(cost.machine, cost)} for {_duration(cost.hours)} at {price}"


def _describe_target(target: TargetCost, cost: Cost) -> str:
    wanted = f"val_accuracy {format_number(target.val_accuracy)} ({target.origin})"
    if target.machine is None:
        return f"not reached: {wanted}"
    return f"{_money(target.machine, cost)} to {wanted} in epoch {target.epoch}"


def _describe_alternative(other: AlternativeCost, cost: Cost) -> str:
    price = f"{_money(other.price_per_hour, cost)} an hour ({other.instance})"
    speed = "equal speed" if other.relative_speed == 1 else f"{format_number(other.relative_speed)} times the speed"
    costs = f"{_money(other.machine, cost)} for {_duration(other.hours)} at {price}"
    return f"{costs}; {speed} is assumed, not measured"


def _money(value: float | None, cost: Cost) -> str:
    return f"{format_number(value)} {cost.currency}"


def _duration(hours: float) -> str:
    return f"{format_number(hours)} h" if hours >= 1 else format_time(hours * 3600)
