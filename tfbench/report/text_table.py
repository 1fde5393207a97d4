"""Tables of plain text, columns aligned, in the width that there is."""

from collections.abc import Collection, Sequence

from tfbench.report.formats import wrap

_GAP = "  "


def table_lines(header: Sequence[str], rows: Sequence[Sequence[str]], *, left: Collection[str] = ()) -> list[str]:
    """Returns header and rows as lines; columns stand to the right, but for those that `left` names."""
    cells = [header, *rows]
    widths = [max(len(row[column]) for row in cells) for column in range(len(header))]
    return [
        _GAP.join(
            text.ljust(width) if name in left else text.rjust(width)
            for name, text, width in zip(header, row, widths, strict=True)
        ).rstrip()
        for row in cells
    ]


def fitting_lines(
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    width: int,
    *,
    left: Collection[str] = (),
    drop: Sequence[str] = (),
) -> list[str]:
    """Returns a table of lines that fit: without the first few columns of `drop`, which a line below it names then.

    Columns of `drop` that are empty in every row go first, and nobody misses them.

    Args:
        header: Names of the columns.
        rows: Texts.
        width: Characters of a line.
        left: Columns that stand to the left.
        drop: Columns that may be left out, the least important first.
    """
    lines = table_lines(header, rows, left=left)
    droppable = [name for name in drop if name in header]
    empty = [name for name in droppable if not any(row[header.index(name)] for row in rows)]
    dropped: list[str] = []
    for name in (*empty, *(name for name in droppable if name not in empty)):
        if fits(lines, width):
            break
        dropped.append(name)
        places = [place for place, other in enumerate(header) if other not in dropped]
        lines = table_lines(
            [header[place] for place in places], [[row[place] for place in places] for row in rows], left=left
        )
    missed = [name for name in dropped if name not in empty]
    if not missed:
        return lines
    remark = f"Left out for want of room: {', '.join(missed)}. A wider terminal shows them, and --format json."
    return [*lines, *wrap(remark, width)]


def fits(lines: Sequence[str], width: int) -> bool:
    """Says whether lines are not longer than they may be."""
    return max(map(len, lines), default=0) <= width
