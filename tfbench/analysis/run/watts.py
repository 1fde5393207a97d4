"""Watts, clocks and temperatures over the time of a run, as its parent saw them."""

import dataclasses
import itertools
import math

from tfbench.analysis.run.energy import count_up
from tfbench.machine.energy import addresses_in_use
from tfbench.records.energy import Part
from tfbench.records.run import RunResult


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class WattsCurve:
    """Watts of one source over time; seconds count from the first reading of the run."""

    name: str
    part: Part
    seconds: tuple[float, ...]
    watts: tuple[float, ...]


def watts_curves(result: RunResult) -> tuple[WattsCurve, ...]:
    """Returns watts over time as the parent saw them: of GPUs by their own word, else by their counters."""
    began = start_of(result)
    curves = []
    for address in dict.fromkeys(name for state in result.machine_states for name in state.gpus):
        seen = [
            (state.seconds - began, state.gpus[address].watts)
            for state in result.machine_states
            if address in state.gpus
        ]
        known = [(seconds, watts) for seconds, watts in seen if watts is not None]
        if known:
            seconds, watts = zip(*known, strict=True)
            curves.append(WattsCurve(name=address, part="gpu", seconds=seconds, watts=watts))
    for source, counted in count_up(result).items():
        times = [state.seconds for state in result.machine_states if state.seconds in counted]
        rates = [
            (after - began, (counted[after] - counted[before]) / (after - before))
            for before, after in itertools.pairwise(times)
            if after > before and math.isfinite(counted[after])
        ]
        if source.part != "gpu" and rates:
            seconds, watts = zip(*rates, strict=True)
            curves.append(WattsCurve(name=source.name, part=source.part, seconds=seconds, watts=watts))
    return tuple(curves)


def start_of(result: RunResult) -> float:
    """Returns the seconds of the monotonic clock at the first reading of a run; 0 without any."""
    borders = (reading.seconds for reading in result.energy_readings)
    return min((*borders, *(state.seconds for state in result.machine_states)), default=0.0)


def gpu_names(result: RunResult) -> dict[str, str]:
    """Returns what the run calls the GPUs that were looked at, "gpu:0", by their addresses on the bus."""
    visible = result.settings.gpu_addresses if result.settings else ()
    in_use = addresses_in_use(result.placement.devices if result.placement else (), visible)
    names = {address: name for name, address in in_use.items()}
    seen = dict.fromkeys(name for state in result.machine_states for name in state.gpus)
    return {address: names.get(address, address) for address in seen}
