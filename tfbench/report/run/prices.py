"""What the console shows of a run's cost."""

from tfbench.analysis.run.cost import Cost, TargetCost, compute_cost
from tfbench.records.run import RunResult
from tfbench.report.formats import format_number, format_time
from tfbench.report.table import Section, facts


def cost_section(result: RunResult) -> Section | None:
    """Returns what a run cost; None without a price."""
    cost = compute_cost(result)
    if cost is None:
        return None
    pairs = [("machine", describe_cost(cost))]
    if cost.epoch is not None:
        pairs.append(("an epoch", f"{_money(cost.epoch, cost)}, training and validation"))
    if cost.target:
        pairs.append(("to accuracy", _describe_target(cost.target, cost)))
    return Section("Cost, from the request of the run to its end", tables=(facts(pairs),))


def describe_cost(cost: Cost) -> str:
    """Returns what the machine cost, for how long, and at which price."""
    price = _money(cost.price_per_hour, cost) + " an hour" + (f" ({cost.instance})" if cost.instance else "")
    return f"{_money(cost.machine, cost)} for {_duration(cost.hours)} at {price}"


def _describe_target(target: TargetCost, cost: Cost) -> str:
    wanted = f"val_accuracy {format_number(target.val_accuracy)} ({target.origin})"
    if target.machine is None:
        return f"not reached: {wanted}"
    return f"{_money(target.machine, cost)} to {wanted} in epoch {target.epoch}"


def _money(value: float, cost: Cost) -> str:
    return f"{format_number(value)} {cost.currency}"


def _duration(hours: float) -> str:
    return f"{format_number(hours)} h" if hours >= 1 else format_time(hours * 3600)
