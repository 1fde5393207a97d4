from tfbench.worker.breakdown import Breakdown

SECOND = 1_000_000_000  # in nanoseconds


def breakdown_at(*seconds: float) -> Breakdown:
    """Builds a time breakdown of a process that was asked for at 10 s, and whose clock then shows these times."""
    readings = iter(seconds)
    return Breakdown(10 * SECOND, now=lambda: int(next(readings) * SECOND))


def test_time_with_no_entry_open_is_in_none() -> None:
    breakdown = breakdown_at(13, 15, 16, 18)
    breakdown.switch(None)
    breakdown.switch("data")
    record = breakdown.record()
    assert record.entries == {"startup": 3.0, "data": 1.0}
    assert record.elapsed_seconds - sum(record.entries.values()) == 2.0
    assert breakdown.record().entries == {"startup": 3.0, "data": 3.0}  # which is open still


def test_an_entry_within_another_interrupts_it() -> None:
    breakdown = breakdown_at(11, 12, 15, 16)
    breakdown.switch("callbacks")
    with breakdown.entry("validation"):
        pass
    assert breakdown.record().entries == {"startup": 1.0, "callbacks": 2.0, "validation": 3.0}
