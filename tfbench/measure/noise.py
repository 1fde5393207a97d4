"""The noise floor: by how much a recipe differs from itself, and so the least that a comparison can show."""

import hashlib
import json
import math
import statistics

from tfbench import recipe_file
from tfbench.measure.intervals import log_ratios, t_quantile
from tfbench.recipe import Recipe
from tfbench.results import RunResult
from tfbench.schema import Count, PositiveNumber, schema

MIN_ROUNDS = 3


@schema
class NoiseKey:
    """What a noise floor holds for: machine, devices, workload and batch size."""

    hostname: str
    cpu_model: str
    usable_cores: int
    gpus: tuple[str, ...]
    strategy: str
    devices: tuple[str, ...]
    recipe: str
    workload_sha256: str  # of the keys of [model] and [dataset]
    global_batch_size: Count


@schema
class NoiseFloor:
    """Speeds of one recipe run against itself in interleaved rounds; raw, in samples per second.

    `first[i]` and `second[i]` are of round i, in which now the one arm, now the other came first.
    """

    group: str  # of its runs
    created: float  # seconds since 1970, UTC
    tfbench: str  # version
    key: NoiseKey
    steps: int | None  # what a run was limited to after its warm-up
    seconds: float | None
    first: tuple[PositiveNumber, ...]
    second: tuple[PositiveNumber, ...]

    def __post_init__(self) -> None:
        if len(self.first) != len(self.second) or len(self.first) < MIN_ROUNDS:
            raise ValueError(
                f"a noise floor needs {MIN_ROUNDS} or more rounds of two runs. "
                f"Received: {len(self.first)} and {len(self.second)} runs."
            )

    @property
    def num_rounds(self) -> int:
        """Rounds that it rests on."""
        return len(self.first)

    def paired_limit(self, num_rounds: int = 1) -> float:
        """Returns the relative difference below which a comparison paired by round shows nothing (0.02: 2 %).

        exp(t r / sqrt(num_rounds)) - 1, where r is the root mean square of the logarithms of the n rounds' ratios,
        whose true mean is 0, and t the 97.5 % quantile of Student's t with n degrees of freedom: none was spent on a
        mean.

        Args:
            num_rounds: Rounds of the comparison that is judged.
        """
        ratios = log_ratios(self.first, self.second)
        spread = math.sqrt(statistics.fmean(ratio**2 for ratio in ratios))
        return math.expm1(t_quantile(len(ratios)) * spread / math.sqrt(num_rounds))

    def unpaired_limit(self, num_runs: int = 1) -> float:
        """Returns the relative difference below which two runs that did not take turns show nothing (0.02: 2 %).

        It is the least such difference: what changes on the machine from one hour, or day, to the next is not in it.
        exp(t s sqrt(2 / num_runs)) - 1, where s is the standard deviation of the logarithms of all 2n speeds, whichever
        arm and round they are of, and t the 97.5 % quantile of Student's t with 2n - 1 degrees of freedom.

        Args:
            num_runs: Runs on each side; above 1, their geometric means are compared.
        """
        logs = [math.log(value) for value in (*self.first, *self.second)]
        return math.expm1(t_quantile(len(logs) - 1) * statistics.stdev(logs) * math.sqrt(2 / num_runs))


def noise_key(result: RunResult) -> NoiseKey | None:
    """Returns what a run must have in common with a noise floor; None for a run that never got so far."""
    environment, placement = result.environment, result.placement
    if environment is None or placement is None:
        return None
    return NoiseKey(
        hostname=environment.hostname,
        cpu_model=environment.cpu_model,
        usable_cores=environment.usable_cores,
        gpus=tuple(gpu.name for gpu in environment.gpus),
        strategy=placement.strategy,
        devices=placement.devices,
        recipe=result.request.recipe.name,
        workload_sha256=_hash_workload(result.request.recipe),
        global_batch_size=placement.global_batch_size,
    )


def _hash_workload(recipe: Recipe) -> str:
    tables = recipe_file.to_tables(recipe)
    text = json.dumps({name: tables[name] for name in ("model", "dataset")}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()
