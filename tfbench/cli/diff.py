"""`tfbench diff`: what differs between two runs."""

from pathlib import Path

import click

from tfbench.cli._completion import complete_run
from tfbench.cli._options import format_option
from tfbench.cli._output import echo_lines, text_width
from tfbench.cli._store import load_run, open_store, store_option, warn_of_damaged_floors


@click.command(short_help="Show what differs between two runs, results and causes.")
@click.argument("first", metavar="RUN", shell_complete=complete_run)
@click.argument("second", metavar="RUN", shell_complete=complete_run)
@store_option
@format_option
def command(first: str, second: str, store_root: Path, output_format: str) -> None:
    """Show what differs between two runs: results, and what may have caused it.

    RUN is the beginning of an id (tfbench's or MLflow's), a run name, or @last. First comes what must be equal for
    devices or strategies to be compared, and is not: XLA, precision, data, batch size, versions, machine. A difference
    in speed is judged by the noise floors of both runs, once `tfbench calibrate` has measured them.

    \b
    tfbench diff 3f2a 9c1b
    tfbench diff mnist_mlp-1000x1000-b100-default @last
    tfbench diff 3f2a @last --format json
    """
    from tfbench.analysis.comparison.difference import compare_runs
    from tfbench.analysis.comparison.judging import judge_results
    from tfbench.analysis.run.summary import summarize_run
    from tfbench.store.noise_floors import find_noise_floor

    store = open_store(store_root)
    results = [load_run(store, store.find_training(run)) for run in (first, second)]
    a, b = results
    if a.request.run_id == b.request.run_id:
        raise click.UsageError(f"{first} and {second} are the same run, {a.request.run_id}. Name two.")
    warn_of_damaged_floors(store)
    a_summary, b_summary = (summarize_run(r) for r in results)
    speedup = judge_results((a, a_summary), (b, b_summary), lambda result: find_noise_floor(store, result))
    difference = compare_runs(a, a_summary, b, b_summary, speedup=speedup)
    if output_format == "json":
        import json

        from tfbench.report.comparison.difference import difference_json

        click.echo(json.dumps(difference_json(difference), indent=2, allow_nan=False))
        return
    from tfbench.report.comparison.difference import difference_sections
    from tfbench.report.table import text

    echo_lines(text(difference_sections(difference), text_width()))
