"""`tfbench crossover`: from which size on one arm is faster than another."""

from typing import TYPE_CHECKING

import click

from tfbench.cli._completion import complete_recipe
from tfbench.cli._measuring import Limits, Measuring, Number, global_batch_size_option, limit_options, measuring_options
from tfbench.cli._output import echo_json, echo_lines, exit_code, text_width
from tfbench.cli._runs import ShownRuns, warn_of_missing_view
from tfbench.cli._sweeping import look_again_lines

if TYPE_CHECKING:
    from tfbench.analysis.comparison.speedup import Speedup
    from tfbench.records.run import RunRequest
    from tfbench.records.sweep import Arm
    from tfbench.runs.limits import RunLimits, RunOutcome
    from tfbench.runs.maker import RunMaker
    from tfbench.store.store import Store
    from tfbench.sweeps.crossover import SearchResult
    from tfbench.sweeps.search_plan import SearchPlan

_SECONDS = 2.0


@click.command(short_help="Find from which size on one arm is faster than another.")
@click.argument("recipe", shell_complete=complete_recipe)
@click.option(
    "--vary",
    "varied",
    required=True,
    metavar="KEY=LOW..HIGH",
    help="What to search, for example training.global_batch_size=1..4096. Of a list, every item is set.",
)
@click.option(
    "--between",
    nargs=2,
    metavar="ARM ARM",
    help='The two to compare, each STRATEGY DEVICES KEY=VALUE..., for example "default cpu:0" "mirrored gpu".',
)
@click.option("--arm", "arms", multiple=True, metavar="ARM", help="The same, one by one, as for `tfbench sweep`.")
@click.option(
    "--step", metavar="N", type=int, help="Only multiples of N. [default: 1; for batch sizes, by the replicas]"
)
@click.option("--repeats", metavar="N", type=int, help="Rounds at each value, in which both are run once. [default: 3]")
@click.option("--seconds", metavar="S", type=Number(), help="Steady time of a run. [default: 2]")
@limit_options
@global_batch_size_option
@measuring_options
@click.pass_context
def command(
    context: click.Context,
    /,
    recipe: str,
    varied: str,
    between: tuple[str, str] | None,
    arms: tuple[str, ...],
    step: int | None,
    repeats: int | None,
    seconds: float | None,
    global_batch_size: int | None,
    limits: Limits,
    measuring: Measuring,
) -> None:
    """Find the size from which on the second of two arms is faster than the first.

    An arm is a strategy on devices, such as "default gpu:0", or with a back end "default cpu:0 backend=jax". A coarse
    grid over the range comes first, then bisection: a dozen values instead of thousands. At each, both arms are run
    in rounds, taking turns. Every crossing is given with the nearest values at which the arms differ measurably; a
    value at which a run fails, or goes beyond a limit, bounds the range, and the largest that can be measured is
    found. What is measured is kept as a sweep; Ctrl-C keeps what is there by then.

    \b
    tfbench crossover mnist_mlp --data synthetic \\
        --vary training.global_batch_size=1..4096 \\
        --between "default cpu:0" "mirrored cpu:0,cpu:1"
    tfbench crossover mnist_mlp --data synthetic \\
        --vary training.global_batch_size=8..2048 \\
        --between "default cpu:0" "default cpu:0 backend=jax"
    tfbench crossover mnist_mlp --vary training.global_batch_size=1..16384 \\
        --between "default cpu:0" "default gpu:0"
    tfbench crossover mnist_mlp --vary model.hidden_units=16..8192 \\
        --between "default gpu:0" "mirrored gpu" --repeats 5
    """
    from tfbench.report.sweep.crossover import search_lines
    from tfbench.store.briefs import typical_start_seconds
    from tfbench.sweeps.making import require_back_ends
    from tfbench.sweeps.view import try_to_show

    named = (*(between or ()), *arms)
    if len(named) != 2:
        raise click.UsageError("name the two arms to compare: --between ARM ARM, or --arm ARM twice.")
    if seconds is None:
        seconds = _SECONDS
    request = measuring.make_request(recipe, {"global_batch_size": global_batch_size}, steady_seconds=seconds)
    plan = _make_plan(request, varied, (named[0], named[1]), step, repeats, limits)
    require_back_ends(plan.sweep)
    width = text_width()
    echo_lines(
        search_lines(plan.sweep, plan.key, plan.values, width, typical_start_seconds(measuring.store)),
        err=measuring.as_json,
    )
    store = measuring.store
    runs = ShownRuns(measuring)
    result = _search(plan, store, runs)
    warn_of_missing_view(try_to_show(store, result.plan, result.results, runs.maker.tracker))
    _show(plan, result, runs.maker, measuring, width)
    context.exit(exit_code(has_failed=False, was_interrupted=result.found.was_stopped))


def _make_plan(
    request: "RunRequest",
    varied: str,
    arms: tuple[str, str],
    step: int | None,
    repeats: int | None,
    limits: Limits,
) -> "SearchPlan":
    from tfbench.records.sweep import BATCH_KEY
    from tfbench.sweeps.plan import new_plan, parse_arm
    from tfbench.sweeps.search_plan import MIN_ROUNDS, SearchPlan, check_range, parse_range

    num_rounds = 3 if repeats is None else repeats
    if not MIN_ROUNDS <= num_rounds <= 1000:
        raise click.UsageError(f"--repeats: must be from {MIN_ROUNDS} to 1000. Received: {num_rounds}.")
    if step is not None and not 1 <= step <= 1_000_000:
        raise click.UsageError(f"--step: must be from 1 to 1000000. Received: {step}.")
    first, second = (parse_arm(text) for text in arms)
    key, own_values = parse_range(varied, step or 1)
    sweep = new_plan(
        request,
        (first, second),
        num_rounds=num_rounds,
        run_timeout_seconds=limits.run_timeout,
        memory_limit_bytes=limits.memory_limit,
    )
    if len(sweep.arms) < 2:  # also where one names the back end that both have
        raise click.UsageError(f'both arms are "{sweep.arms[0].label}". Name two.')
    if key == BATCH_KEY and step is None:
        key, own_values = parse_range(varied, _find_step(*sweep.arms))
    plan = SearchPlan(sweep=sweep, key=key, values=own_values)
    check_range(plan)
    return plan


def _find_step(first: "Arm", second: "Arm") -> int:
    """Returns what batch sizes must be multiples of, to be divided among the replicas of either arm."""
    import math

    from tfbench.machine.devices import count_gpus
    from tfbench.records.sweep import BACKEND_KEY
    from tfbench.sweeps.search_plan import count_replicas

    counts = []
    for arm in (first, second):
        count = count_replicas(arm, None)
        if count is None:
            count = count_replicas(arm, count_gpus(dict(arm.values).get(BACKEND_KEY, "tensorflow")))
        counts.append(count or 1)
    return math.lcm(*counts)


def _search(plan: "SearchPlan", store: "Store", runs: ShownRuns) -> "SearchResult":
    from tfbench.report.formats import wrap
    from tfbench.report.sweep.crossover import point_line
    from tfbench.store.sweep_log import replaced_log
    from tfbench.sweeps.crossover import search

    labels = (plan.sweep.arms[0].label, plan.sweep.arms[1].label)

    class Watcher:
        """Prints a line a run, and one a value."""

        label = ""

        def begin(self, value: int, arm: "Arm", round_number: int) -> None:
            self.label = f"  {plan.key.rpartition('.')[2]}={value}, {arm.label}, round {round_number}"

        def end(self, value: int, found: "Speedup | str") -> None:
            echo_lines(wrap(point_line(plan.key, value, labels, found), text_width()), err=runs.as_json)

    watcher = Watcher()

    def execute(request: "RunRequest", limits: "RunLimits") -> "RunOutcome":
        return runs.make_brief(request, watcher.label, limits)

    with replaced_log(store, plan.sweep.sweep_id) as keep:
        return search(plan, execute, watcher, keep)


def _show(plan: "SearchPlan", result: "SearchResult", maker: "RunMaker", measuring: "Measuring", width: int) -> None:
    from tfbench.analysis.comparison.verdict import find_verdict
    from tfbench.report.comparison.comparison import comparison_json
    from tfbench.report.sweep.crossover import crossover_lines, crossover_to_json, model_lines
    from tfbench.report.sweep.sweep import result_lines
    from tfbench.sweeps.comparison import compare_sweep

    labels = (plan.sweep.arms[0].label, plan.sweep.arms[1].label)
    sweep_id, models = plan.sweep.sweep_id, result.models
    store, as_json = measuring.store, measuring.as_json
    comparison = compare_sweep(store, result.plan, result.results)
    lines = result_lines(comparison, width)
    lines += ["", *crossover_lines(result.found, plan.key, labels, width, result.unequal)]
    if models:
        lines += ["", *model_lines(models.arms, models.crossings, plan.key, labels, width)]
    lines += ["", *look_again_lines(maker, sweep_id)]
    echo_lines(lines, err=as_json)
    if as_json:
        document = {"sweep_id": sweep_id, "recipe": plan.sweep.recipe_name} | crossover_to_json(
            result.found,
            models=models.arms if models else None,
            predicted=models.crossings if models else None,
            unequal=result.unequal,
            key=plan.key,
            arms=labels,
        )
        document["comparison"] = comparison_json(comparison, find_verdict(comparison))
        echo_json(document, f"The runs are stored as sweep {sweep_id}")
