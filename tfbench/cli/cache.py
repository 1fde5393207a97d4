"""`tfbench cache`: decoded data that is kept from one run to the next."""

from typing import TYPE_CHECKING

import click

from tfbench.cli._options import format_option
from tfbench.cli._output import echo_json, echo_lines, text_width

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tfbench.datasets.sources.cache_folder import Entry

_HEADINGS = ("id", "data set", "part", "size", "last used", "source")
_NAME_CHARACTERS = 12  # a part of an id is enough


@click.command(short_help="List decoded data that is kept for the next run, or remove it.")
@click.argument("entry", required=False)
@click.option("--clear", is_flag=True, help="Remove all entries, or the one named.")
@format_option
def command(entry: str | None, clear: bool, output_format: str) -> None:
    """List decoded data that is kept for the next run, or remove it.

    Real data that takes time to decode is decoded once: MNIST, CIFAR-10 and SVHN as tensorflow-datasets prepared them,
    SVHN's .mat files, MNIST's packed files. A run finds it by the contents of the data's files, and gets the bytes that
    decoding would give. ENTRY is the beginning of an id.

    TFBENCH_CACHE_DIR is the folder, else tfbench/arrays in the user's cache folder. TFBENCH_CACHE_SIZE is what it may
    take, such as 500MiB or 20GiB, else 10GiB; 0: nothing is kept, and nothing that is kept is used. What was not used
    for longest goes first.

    \b
    tfbench cache
    tfbench cache --format json
    tfbench cache --clear
    tfbench cache 3f2a --clear
    """
    from tfbench.datasets.sources.cache_folder import find_folder, list_entries, read_limit, remove
    from tfbench.report.formats import format_bytes

    folder, limit = find_folder(), read_limit()
    entries = list_entries(folder)
    if entry is not None:
        entries = [_find(entries, entry, folder)]
    freed = remove(folder, entries) if clear else 0
    if output_format == "json":
        import dataclasses

        plain = [dataclasses.asdict(one) for one in entries]
        document = {"folder": str(folder), "limit_bytes": limit, "removed" if clear else "entries": plain}
        echo_json(document, f"The cache is {folder}")
        return
    number = f"{len(entries)} {'entry' if len(entries) == 1 else 'entries'}"
    if clear:
        click.echo(f"{folder}: removed {number}, {format_bytes(freed)}.")
        return
    total = format_bytes(sum(one.num_bytes for one in entries))
    if entries:
        echo_lines([*_table(entries), ""])
    allowed = f"of {format_bytes(limit)}" if limit else "and TFBENCH_CACHE_SIZE=0: none is used"
    click.echo(f"{folder}: {number}, {total} {allowed}.")


def _find(entries: "Sequence[Entry]", token: str, folder: "Path") -> "Entry":
    from tfbench.errors import UnknownNameError

    found = [one for one in entries if one.name.startswith(token)]
    if len(found) != 1:
        what = f"is the beginning of {len(found)} entries" if found else "is the beginning of no entry"
        raise UnknownNameError(f"{folder}: '{token}' {what}. `tfbench cache` lists them.")
    return found[0]


def _table(entries: "Sequence[Entry]") -> list[str]:
    from tfbench.report.formats import format_bytes
    from tfbench.report.table import table_of
    from tfbench.wording import cut

    rows = [
        (
            one.name[:_NAME_CHARACTERS],
            cut(one.dataset, 20) or "cannot be used",
            cut(one.part, 20),
            format_bytes(one.num_bytes),
            _moment(one.last_used),
            cut(one.source, 60),
        )
        for one in entries
    ]
    left = [name for name in _HEADINGS if name != "size"]
    return table_of(_HEADINGS, rows, left=left, drop=("source", "part")).text(text_width())


def _moment(seconds: float) -> str:
    import datetime

    return f"{datetime.datetime.fromtimestamp(seconds):%Y-%m-%d %H:%M}"
