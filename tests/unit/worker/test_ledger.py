from tfbench.worker.ledger import Ledger

SECOND = 1_000_000_000  # in nanoseconds


def ledger_at(*seconds: float) -> Ledger:
    """Builds a ledger of a process that was asked for at 10 s, and whose clock then shows these times."""
    readings = iter(seconds)
    return Ledger(10 * SECOND, now=lambda: int(next(readings) * SECOND))


def test_the_start_is_open_from_when_the_process_was_asked_for() -> None:
    ledger = ledger_at(13, 15)
    ledger.switch("data")
    record = ledger.record()
    assert record.entries == {"startup": 3.0, "data": 2.0}
    assert record.elapsed_seconds == 5.0


def test_time_with_no_entry_open_is_in_none() -> None:
    ledger = ledger_at(13, 15, 16)
    ledger.switch(None)
    ledger.switch("data")
    record = ledger.record()
    assert record.entries == {"startup": 3.0, "data": 1.0}
    assert record.elapsed_seconds - sum(record.entries.values()) == 2.0


def test_an_entry_within_another_interrupts_it() -> None:
    ledger = ledger_at(11, 12, 15, 16)
    ledger.switch("callbacks")
    with ledger.entry("validation"):
        pass
    assert ledger.record().entries == {"startup": 1.0, "callbacks": 2.0, "validation": 3.0}


def test_a_record_can_be_taken_again_and_again() -> None:
    ledger = ledger_at(11, 12, 14)
    ledger.switch("steady")
    assert ledger.record().entries["steady"] == 1.0
    assert ledger.record().entries["steady"] == 3.0
