"""What sentences call the setups and settings of a comparison."""

from collections.abc import Iterable, Mapping, Sequence

from tfbench.analysis.comparison.comparison import Comparison, Row
from tfbench.recipe.backend_support import title_of
from tfbench.records.sweep import BATCH_KEY, describe_setting, format_value

_NUM_NAMED = 3  # settings that a sentence names; of more it has the number, and the table the rest
_WORD = "backend="  # of a setup's label, before its backend


def name_setups(labels: Iterable[str], backends: Mapping[str, str] | None = None) -> dict[str, str]:
    """Returns what setups are called: by their backends where they differ in nothing else, otherwise by their label.

    Args:
        labels: Of the setups.
        backends: Of their runs, by label, where that is known; otherwise the label says it.
    """
    found = {label: next((word for word in label.split() if word.startswith(_WORD)), "tensorflow") for label in labels}
    found = {label: word.removeprefix(_WORD) for label, word in found.items()} | dict(backends or {})
    rests = {" ".join(word for word in label.split() if not word.startswith(_WORD)) for label in found}
    differ_by_it_alone = len(rests) == 1 and len(set(found.values())) == len(found) > 1
    return {label: title_of(backend) if differ_by_it_alone else label for label, backend in found.items()}


def block_key(comparison: Comparison) -> str | None:
    """Returns the key whose values are rows of one block, where several are varied; None: there is but one block."""
    keys = comparison.keys
    return None if len(keys) < 2 else BATCH_KEY if BATCH_KEY in keys else keys[-1]


def describe_block(row: Row, comparison: Comparison) -> str:
    """Returns what the rows of a block have in common: "hidden_units=[100]"; "" where there is but one block."""
    own = BATCH_KEY if BATCH_KEY in comparison.keys else block_key(comparison)
    return describe_setting({key: value for key, value in row.setting.items() if key != own})


def settings_noun(comparison: Comparison) -> str:
    """Returns what several settings are called together."""
    return "batch sizes" if comparison.keys == (BATCH_KEY,) else "settings"


def describe_where(rows: Sequence[Row], comparison: Comparison) -> str:
    """Returns " at batch 32, 64", " at batch 32 with units=[100]", " at 4 of 6 settings"; "" of the only one."""
    keys = comparison.keys
    noun = settings_noun(comparison)
    if not rows[0].setting:
        return ""
    if len(rows) == len(comparison.rows) > 1:
        return f" at both {noun}" if len(rows) == 2 else f" at all {len(rows)} {noun}"
    if len(rows) > _NUM_NAMED or (len(rows) > 1 and len(keys) > 1):
        return f" at {len(rows)} of {len(comparison.rows)} {noun}"
    own = BATCH_KEY if BATCH_KEY in keys else keys[-1]
    values = ", ".join(format_value(row.setting.get(own)) for row in rows)
    block = describe_setting({key: value for key, value in rows[0].setting.items() if key != own})
    at = f"batch {values}" if own == BATCH_KEY else f"{own.rpartition('.')[2]}={values}"
    return f" at {at}{f' with {block}' if block else ''}"
