"""How often `tfbench profile --try` calls equal variants faster or slower, and how often it finds real effects.

    python benchmarks/variants.py

Plants profiles whose readings are known: each build of a step differs from the next by 2 %, each round by 1 %, and the
whole machine from build to build by 5 %, all standard deviations of logarithms. Each is judged by what the command and
its report use, `compare_variants`. Beside it stands what was done before: one build of each,
held against a second one of the unchanged step, by the rounds. Prints Markdown tables; ends with 1 if more than 5 % of
the profiles in which nothing differs say anything else, by more than chance explains. A minute or two.
"""

import dataclasses
import math
import sys
from typing import Any

import click
import numpy as np

from tfbench.analysis.comparison.intervals import compare_paired
from tfbench.analysis.profile.variants import compare_variants
from tfbench.recipe import files
from tfbench.records.profile import Profile, ProfileRequest, Variant, VariantRound
from tfbench.records.run import RunResult
from tfbench.records.variants import BASE, DEFAULT_BUILDS
from tfbench.runs.requests import new_request, profile_request

SEED = 0
BETWEEN_BUILDS, BETWEEN_ROUNDS, MACHINE = 0.02, 0.01, 0.05
ROUNDS = 8  # of a build
NUM_VARIANTS = (1, 3, 8)
BUILDS = (2, 3, 4, DEFAULT_BUILDS, 8)
EFFECTS = (0.05, 0.10, 0.20)
ALLOWED = 0.05


@dataclasses.dataclass(frozen=True)
class Plan:
    """What is planted. `effects`: by how much each variant is faster."""

    effects: tuple[float, ...]
    builds: int = DEFAULT_BUILDS
    heavy: bool = False  # builds by Student's t of three degrees of freedom


def draw_builds(rng: np.random.Generator, plan: Plan, shape: tuple[int, ...]) -> np.ndarray:
    """Returns logarithms of builds, with a standard deviation of `BETWEEN_BUILDS`."""
    if plan.heavy:
        return rng.standard_t(3, shape) / math.sqrt(3) * BETWEEN_BUILDS
    return rng.normal(0, BETWEEN_BUILDS, shape)


def plant(rng: np.random.Generator, plan: Plan, template: RunResult) -> RunResult:
    """Returns a profile with these effects."""
    assert template.request.profile is not None
    variants = tuple(Variant(name=f"learning_rate={place}") for place, _ in enumerate(plan.effects))
    names = (BASE, *(variant.name for variant in variants))
    means = -np.log1p(np.array([0.0, *plan.effects]))
    machine = rng.normal(0, MACHINE, (plan.builds, 1))
    builds = means + machine + draw_builds(rng, plan, (plan.builds, len(names)))
    logs = builds[:, None, :] + rng.normal(0, BETWEEN_ROUNDS, (plan.builds, ROUNDS, len(names)))
    rounds = tuple(
        VariantRound(build=number, seconds=dict(zip(names, map(float, row), strict=True)))
        for number, build in enumerate(np.exp(logs), start=1)
        for row in build
    )
    request = dataclasses.replace(
        template.request,
        profile=dataclasses.replace(template.request.profile, variants=variants, builds=plan.builds),
    )
    return dataclasses.replace(template, request=request, profile=Profile(variant_rounds=rounds))


def judge(result: RunResult) -> list[str]:
    """Returns the verdict of each variant."""
    found = compare_variants(result)
    assert found is not None
    return [outcome.verdict for outcome in found.outcomes]


def judge_as_before(rng: np.random.Generator, num_variants: int) -> bool:
    """Says whether anything is told apart among builds that differ in nothing, one of each, by their rounds."""
    builds = rng.normal(0, BETWEEN_BUILDS, num_variants + 2)
    seconds = np.exp(builds[:, None] + rng.normal(0, BETWEEN_ROUNDS, (num_variants + 2, 5 * ROUNDS))).tolist()
    base, control, *variants = seconds
    of_control = compare_paired(control, base)
    assert of_control is not None
    limit = max(of_control.high, 1 / of_control.low)
    ratios = [compare_paired(own, base) for own in variants]
    return any(found and found.excludes_one and not 1 / limit <= found.ratio <= limit for found in ratios)


def count_wrong(rng: np.random.Generator, plan: Plan, template: RunResult, simulations: int) -> float:
    """Returns the share of profiles that call a variant faster or slower though none is."""
    wrong = 0
    for _ in range(simulations):
        wrong += any(verdict in ("pays", "costs") for verdict in judge(plant(rng, plan, template)))
    return wrong / simulations


def count_found(rng: np.random.Generator, plan: Plan, template: RunResult, simulations: int) -> float:
    """Returns the share of profiles that say of the first variant, which is faster, that it pays."""
    return sum(judge(plant(rng, plan, template))[0] == "pays" for _ in range(simulations)) / simulations


def print_table(head: list[str], rows: list[list[str]]) -> None:
    """Prints a Markdown table."""
    for row in (head, ["---"] * len(head), *rows):
        click.echo(f"| {' | '.join(row)} |")


def make_template() -> RunResult:
    """Returns a profile of variants without any reading."""
    recipe = files.load_recipe(files.find_recipe("mnist_mlp"))
    request = new_request(recipe, name=None, data_dir=None)
    return RunResult(request=profile_request(request, ProfileRequest(kind="variants", builds=DEFAULT_BUILDS)))


@click.command()
@click.option("--simulations", default=2_000, show_default=True, help="Profiles that each share is of.")
def main(simulations: int) -> Any:
    """Prints how often variants are told apart that differ in nothing, and how often those that differ."""
    rng = np.random.default_rng(SEED)
    template = make_template()
    limit = ALLOWED + 3 * math.sqrt(ALLOWED * (1 - ALLOWED) / simulations)
    good, rows = True, []
    for num in NUM_VARIANTS:
        before = sum(judge_as_before(rng, num) for _ in range(simulations)) / simulations
        shares = []
        for heavy in (False, True):
            for builds in BUILDS:
                plan = Plan(effects=(0.0,) * num, builds=builds, heavy=heavy)
                share = count_wrong(rng, plan, template, simulations)
                good &= share <= limit
                shares.append(f"{share:.1%}")
        rows.append([str(num), f"{before:.1%}", *shares])
    heads = [f"{builds} builds{tail}" for tail in ("", ", heavy tails") for builds in BUILDS]
    click.echo("Profiles that call a variant faster or slower though none is:\n")
    print_table(["variants", "one build of each, by rounds", *heads], rows)
    rows = []
    for effect in EFFECTS:
        for num in NUM_VARIANTS:
            plans = [Plan(effects=(effect, *(0.0,) * (num - 1)), builds=builds) for builds in BUILDS]
            rows.append(
                [
                    f"{effect:.0%}",
                    str(num),
                    *(f"{count_found(rng, plan, template, simulations):.1%}" for plan in plans),
                ]
            )
    click.echo("\nProfiles that say of a variant which is faster that it pays:\n")
    print_table(["faster by", "variants", *(f"{builds} builds" for builds in BUILDS)], rows)
    sys.exit(not good)


if __name__ == "__main__":
    main()
