from tfbench.worker.ledger import Ledger

SECOND = 1_000_000_000  # in nanoseconds


def ledger_at(*seconds: float) -> Ledger:
    """Builds a ledger of a process that was asked for at 10 s, and whose clock then shows these times."""
    readings = iter(seconds)
    return Ledger(10 * SECOND, now=lambda: int(next(readings) * SECOND))


def test_time_with_no_entry_open_is_in_none() -> None:
    ledger = ledger_at(13, 15, 16, 18)
    ledger.switch(None)
    ledger.switch("data")
    record = ledger.record()
    assert record.entries == {"startup": 3.0, "data": 1.0}
    assert record.elapsed_seconds - sum(record.entries.values()) == 2.0
    assert ledger.record().entries == {"startup": 3.0, "data": 3.0}  # which is open still


def test_an_entry_within_another_interrupts_it() -> None:
    ledger = ledger_at(11, 12, 15, 16)
    ledger.switch("callbacks")
    with ledger.entry("validation"):
        pass
    assert ledger.record().entries == {"startup": 1.0, "callbacks": 2.0, "validation": 3.0}
