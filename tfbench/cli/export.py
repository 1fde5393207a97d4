"""`tfbench export`: write a run to a file."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from tfbench.cli._options import store_option
from tfbench.cli._output import echo_lines, is_stdout, require_free, write_to
from tfbench.cli._units import FILE

if TYPE_CHECKING:
    from tfbench.store.store import Store


@click.command(short_help="Write a run to a file for `tfbench import`.")
@click.argument("run")
@click.option("-o", "--output", type=FILE, metavar="FILE", help="[default: ID.jsonl; - is stdout]")
@click.option("--force", is_flag=True, help="Overwrite the file.")
@store_option
def command(run: str, output: Path | None, force: bool, store: "Store") -> None:
    """Write a run to a file that `tfbench import` reads, here or on another machine.

    RUN is the beginning of an id (tfbench's or MLflow's), a run name, or @last. The file is the run's journal:
    everything that was measured, as lines of JSON.

    \b
    tfbench export @last
    tfbench export 3f2a -o mnist_mlp-gpu.jsonl
    tfbench export @last -o - | ssh other 'cat > run.jsonl'
    """
    from tfbench.records import json_lines
    from tfbench.records.events import Exited, class_of
    from tfbench.records.journal import read_records

    run_id = store.find(run)
    records = read_records(store.journal_path(run_id))
    if not any(class_of(record) is Exited for record in records):
        click.echo(f"Warning: run {run_id} has not ended, or not been recovered: the file is not complete.", err=True)
    data = json_lines.whole_lines(store.journal_path(run_id).read_bytes())
    target = output or Path(f"{run_id}.jsonl")
    require_free(target, force=force)
    write_to(target, data)
    if not is_stdout(target):
        echo_lines([f"{target}: run {run_id}, {len(records)} records."])
