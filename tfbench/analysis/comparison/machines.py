"""The machines that runs were made on: what each is, what it costs, and in what versions they differ."""

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from tfbench.analysis.comparison.brief import RunBrief
from tfbench.analysis.comparison.comparison import Comparison
from tfbench.analysis.comparison.hosts import host_of, machine_of
from tfbench.records.machine import Environment
from tfbench.records.settings import MachineSettings
from tfbench.schema import build
from tfbench.wording import join_words

_VERSIONS = {
    "tfbench": "tfbench",
    "python": "Python",
    "keras": "Keras",
    "numpy": "NumPy",
    "tensorflow": "TensorFlow",
    "tensorflow_cuda": "CUDA of TensorFlow",
    "tensorflow_cudnn": "cuDNN of TensorFlow",
    "tensorflow_onednn": "oneDNN",
    "jax": "JAX",
    "jax_cuda": "CUDA of JAX",
    "torch": "PyTorch",
    "torch_cuda": "CUDA of PyTorch",
    "mlflow": "MLflow",
}
_KIND = ("cpu_model", "num_logical_cores", "usable_cores", "cpu_quota_cores")  # of what one name stands for


class Price(NamedTuple):
    """What an hour of a machine costs."""

    per_hour: float
    currency: str


class Peak(NamedTuple):
    """The fastest products of two matrices that were timed on some devices of a machine."""

    devices: str
    precision: str
    flops_per_second: float


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Machine:
    """One machine, or several of a kind that arms give one name."""

    name: str  # as arms name it, else its host name
    hosts: tuple[str, ...]
    num_runs: int
    environment: Environment | None  # of its newest run
    versions: Mapping[str, frozenset[str]]  # by what they are of: those of all of its runs
    peaks: tuple[Peak, ...]
    price: Price | None
    kinds: tuple[str, ...] = ()  # of hardware, where its hosts are of several


def describe_machines(comparison: Comparison) -> list[Machine]:
    """Returns the machines of the runs that count, in the order of the arms."""
    runs: dict[str, list[RunBrief]] = {}
    for arm in comparison.arms:
        for row in comparison.rows:
            for run in row.entries[arm].runs:
                runs.setdefault(machine_of(run), []).append(run)
    return [_describe(name, own, comparison.machine_settings) for name, own in runs.items()]


def version_cautions(machines: Sequence[Machine]) -> Iterator[str]:
    """Yields in which versions machines differ, and which they have; and of which kinds one that has several is."""
    told = []
    for title in dict.fromkeys(title for machine in machines for title in machine.versions):
        having: dict[str, list[str]] = {}
        for machine in machines:
            for version in sorted(machine.versions.get(title, ())):
                having.setdefault(version, []).append(machine.name)
        if len(having) > 1:
            told.append(f"{title} {', '.join(f'{version} on {join_words(on)}' for version, on in having.items())}")
    if told:
        yield f"machines differ in versions, which may be why their speeds do: {'; '.join(told)}."
    for machine in machines:
        if len(machine.kinds) > 1:
            yield f"{machine.name} stands for machines of several kinds: {'; '.join(machine.kinds)}."


def describe_gpus(environment: Environment, describe: Callable[[Any], str]) -> list[str]:
    """Returns the GPUs of a machine in words, those that are alike once: "8 x Example GPU"."""
    texts = [describe(gpu) for gpu in environment.gpus]
    return [text if (num := texts.count(text)) == 1 else f"{num} x {text}" for text in dict.fromkeys(texts)]


def _describe(name: str, runs: Sequence[RunBrief], settings: Mapping[str, MachineSettings]) -> Machine:
    environments = {run.run_id: _environment_of(run) for run in runs}
    known = [environments[run.run_id] for run in sorted(runs, key=lambda run: run.created)]
    newest = next((environment for environment in reversed(known) if environment), None)
    hosts = tuple(dict.fromkeys(map(host_of, runs)))
    kinds = {_kind_of(environment): None for environment in known if environment}
    return Machine(
        name=name,
        hosts=hosts,
        num_runs=len(runs),
        environment=newest,
        versions=_list_versions([environment for environment in known if environment]),
        peaks=_find_peaks(runs),
        price=_find_price(name, hosts, runs, settings),
        kinds=tuple(kinds),
    )


def _environment_of(run: RunBrief) -> Environment | None:
    return build(Environment, run.environment, f"run {run.run_id}: environment") if run.environment else None


def _kind_of(environment: Environment) -> str:
    values = [getattr(environment, name) for name in _KIND]
    cores = f"{values[0]}, {values[1]} logical cores, {values[2]} usable"
    quota = f", quota {values[3]:g}" if values[3] is not None else ""
    return ", ".join([cores + quota, *describe_gpus(environment, lambda gpu: str(gpu.name))])


def _list_versions(environments: Sequence[Environment]) -> dict[str, frozenset[str]]:
    """Returns what is known of them; a framework that a run did not load says nothing."""
    found: dict[str, set[str]] = {}
    for environment in environments:
        for name, title in _VERSIONS.items():
            value = getattr(environment, name)
            if value is not None:
                found.setdefault(title, set()).add({True: "on", False: "off"}.get(value, str(value)))
        for gpu in environment.gpus:
            if gpu.driver:
                found.setdefault("GPU driver", set()).add(gpu.driver)
    return {title: frozenset(values) for title, values in found.items()}


def _find_peaks(runs: Sequence[RunBrief]) -> tuple[Peak, ...]:
    found: dict[tuple[str, str], float] = {}
    for run in runs:
        if peak := run.metrics.get("peak_flops_per_second"):
            place = ",".join(run.devices), str((run.equals.get("settings") or {}).get("precision", ""))
            found[place] = max(peak, found.get(place, 0.0))
    return tuple(Peak(*place, flops) for place, flops in found.items())


def _find_price(
    name: str, hosts: Sequence[str], runs: Sequence[RunBrief], settings: Mapping[str, MachineSettings]
) -> Price | None:
    """Returns the price in the user's settings, else that of the recipe for an instance of this name."""
    costs = [run.cost for run in sorted(runs, key=lambda run: run.created, reverse=True) if run.cost]
    currency = str(costs[0].get("currency", "")) if costs else ""
    names = [name, *(hosts if len(hosts) == 1 else ())]
    for own in names:
        if own in settings:
            return Price(settings[own].price_per_hour, settings[own].currency or currency)
    for cost in costs:
        if cost.get("instance") in names and cost.get("price_per_hour"):
            return Price(cost["price_per_hour"], str(cost["currency"]))
    return None
