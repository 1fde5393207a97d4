"""The table of what a store holds says of each entry what came of it, as people read it."""

from datetime import datetime

from tfbench.show.table import text
from tfbench.store.history_table import HistoryEntry, history_section

SHOWN = """\
date         id            recipe                result               setups                                    changes
03-01 09:05  0123456789ab  mnist_hid...00_mlp_2  1,234 samples/s      default cpu:0                             optimizer.name=sgd, epochs=2
{before}-03-01   b                                   no speed
             c                                   FAILED
             d             aaaaaaaaaaaaaaaaaaaa  profile
             e                                   sweep, 1,234 runs    default cpu:0, one_device cpu:0, mirr...
             f                                   repeats, INCOMPLETE
  c           no memory
"""


def test_each_entry_has_a_row_and_a_reason_stands_below() -> None:
    now = datetime.now().replace(month=3, day=1, hour=9, minute=5)
    before = now.replace(year=now.year - 1)
    one = HistoryEntry(
        kind="run",
        id="0123456789abcdef",
        created=now.timestamp(),
        recipe="mnist_hidden100_mlp_2",
        setups=("default cpu:0",),
        changes=("optimizer.name=sgd", "epochs=2"),
        status="FINISHED",
        samples_per_second=1234.5,
    )
    entries = [
        one,
        HistoryEntry(kind="run", id="b", created=before.timestamp(), status="FINISHED"),
        HistoryEntry(kind="run", id="c", status="FAILED", reason="no memory"),
        HistoryEntry(kind="profile", id="d", status="FINISHED", recipe="a" * 20),
        HistoryEntry(
            kind="sweep",
            id="e",
            status="FINISHED",
            num_runs=1234,
            setups=("default cpu:0", "one_device cpu:0", "mirrored cpu:0,cpu:1"),
        ),
        HistoryEntry(kind="repeats", id="f", status="INCOMPLETE", num_runs=2),
    ]
    assert text([history_section(entries)], 200) == SHOWN.format(before=before.year).splitlines()


def test_columns_of_which_nothing_is_known_are_left_out() -> None:
    entries = [HistoryEntry(kind="run", id="a", status="FINISHED")]
    assert text([history_section(entries)], 80) == [
        "date  id  recipe  result",
        "      a           no speed",
    ]
