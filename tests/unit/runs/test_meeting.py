"""Parents of workers on several machines: who meets, who is refused, and what becomes of a run that is cut off."""

import dataclasses
import errno
import json
import platform
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fake_workers import read_journal, wait_for
from groups import RUN, Fates, ask, ends, measure, start_fakes
from tfbench.errors import InterruptedRunError, TrackingError, WorkersError
from tfbench.records.journal import request_fields
from tfbench.records.members import join, list_missing, member_path
from tfbench.records.placement import Member
from tfbench.records.run import RunExit, RunRequest
from tfbench.runs import journal_import
from tfbench.runs.following import FollowedRun, follow
from tfbench.runs.journal_import import import_journals
from tfbench.runs.launchers import connection, meeting, remote
from tfbench.runs.launchers.clusters import Place
from tfbench.runs.launchers.connection import Connection
from tfbench.runs.recovery import RecoveredRun
from tfbench.store.store import Store
from tfbench.store.tracking_state import TrackingState

RECOVERED = RecoveredRun(id=RUN, status="recovered", message="")
HOST = platform.node()
CUT_OFF = f"the connection to worker 1 of 2 on {HOST} was cut off"


@pytest.fixture
def fates(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Fates:
    monkeypatch.setattr(meeting, "_RETRY_SECONDS", 0.05)
    monkeypatch.setattr(meeting, "_ANSWER_SECONDS", 60.0)  # however slow the machine is
    return start_fakes(monkeypatch, tmp_path)


@pytest.fixture
def address() -> Iterator[str]:
    """An address that nobody else takes before it is listened at."""
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # which lets others listen who set it, too
        taken.bind(("127.0.0.1", 0))
        yield connection.join_address(*taken.getsockname())


def place(address: str, index: int = 0, num_workers: int = 2) -> Place:
    return Place(num_workers=num_workers, index=index, coordinator=address)


class _Tracker:
    """Is there, and tracks nothing."""

    def prepare(self) -> None:
        pass


class Meanwhile:
    """Does something in another thread, and returns what came of it, or raises it."""

    def __init__(self, do: Callable[[], Any]) -> None:
        self._do = do
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def result(self) -> Any:
        self._thread.join(60)
        if isinstance(self._came, BaseException):
            raise self._came
        return self._came

    def _run(self) -> None:
        try:
            self._came = self._do()
        except BaseException as error:
            self._came = error


def follow_there(tmp_path: Path, address: str, request: RunRequest | None = None, index: int = 1) -> Meanwhile:
    """Has another worker's parent follow, with a store of its own."""
    store = Store(tmp_path / f"store{index}")
    own = dataclasses.replace(request or ask(), run_id="asked", data_dir=f"/data{index}")
    return Meanwhile(lambda: follow(own, place(address, index), store, lambda text: None))


def test_two_machines_make_one_run_and_each_keeps_what_its_worker_measured(
    tmp_path: Path, fates: Fates, address: str
) -> None:
    fates()
    there = follow_there(tmp_path, address)
    store = Store(tmp_path / "store0")
    assert measure(store, place=place(address)).result.status == "FINISHED"
    followed: FollowedRun = there.result()
    assert (followed.run_id, followed.index, followed.end.status) == (RUN, 1, "FINISHED")
    assert ends(store) == [("FINISHED", "")] * 2
    here = read_journal(member_path(store.journal_path(RUN), 1))
    assert here[:-1] == read_journal(followed.journal)[:-1]
    assert read_journal(followed.journal)[-1]["status"] == "FINISHED"
    assert here[0]["request"]["data_dir"] == "/data1"
    assert here[0]["request"]["member"]["index"] == 1
    assert Store(tmp_path / "store1").run_ids() == []
    Store(tmp_path / "store1").remove_leftovers(set())
    assert followed.journal.is_file()


def test_machines_that_share_a_store_write_each_journal_once(tmp_path: Path, fates: Fates, address: str) -> None:
    fates()
    store = Store(tmp_path / "store1")
    there = follow_there(tmp_path, address)
    measure(store, place=place(address))
    there.result()
    kinds = [record["kind"] for record in read_journal(member_path(store.journal_path(RUN), 1))]
    assert kinds.count("exit") == kinds.count("started") == kinds.count("request") == 1


def test_who_was_asked_for_something_else_is_refused_at_both_ends(tmp_path: Path, fates: Fates, address: str) -> None:
    fates()
    what = "training.epochs: 2 with the first, 3 there"
    there = follow_there(tmp_path, address, ask(epochs=3))
    with pytest.raises(WorkersError, match=f"worker 1 of 2 on {HOST}: differs from the first one: {what}"):
        measure(Store(tmp_path / "store0"), place=place(address))
    with pytest.raises(WorkersError, match=what):
        there.result()
    assert not (tmp_path / "store0").exists()
    assert not (tmp_path / "store1").exists()


def test_other_versions_are_refused() -> None:
    here = meeting.introduce(place("x:1"), ask(), host="127.0.0.1")
    there = dataclasses.replace(here, versions=here.versions | {"keras": "2.0"}, resumed_from="abc")
    found = meeting.find_difference(here, there)
    assert f"version of keras: {here.versions['keras']} with the first, 2.0 there" in found
    assert "--resume: None with the first, abc there" in found
    assert meeting.find_difference(here, here) == ""
    more = meeting.introduce(place("x:1", 3, 4), ask(4), host="127.0.0.1")
    assert "number of workers: 2 with the first, 4 there" in meeting.find_difference(here, more)


def test_two_of_one_number_are_refused(fates: Fates, address: str) -> None:
    def attend() -> Any:
        return meeting.attend(place(address, 1, 3), ask(3), "", is_stopped=lambda: False, tell=lambda text: None)

    both = [Meanwhile(attend), Meanwhile(attend)]
    with pytest.raises(WorkersError, match="there is a worker 1 already"):
        gather(address, num_workers=3)
    for one in both:
        with pytest.raises(WorkersError, match="there is a worker 1 already"):
            one.result()


def test_a_journal_without_its_beginning_is_not_joined_to_another(tmp_path: Path) -> None:
    journal = tmp_path / "run.jsonl"
    journal.write_bytes(b'{"kind":"request","time":1.0,"request":{}}\n')
    member_path(journal, 1).parent.mkdir(parents=True)
    member_path(journal, 1).write_bytes(b'{"kind":"epoch","time":2.0}\n')
    assert join(journal) == journal.read_bytes()
    request = {"request": {"member": {"index": 0, "addresses": ["a:1", "b:1", "c:1"]}}}
    assert list_missing(journal, request) == [1, 2]
    member_path(journal, 2).write_bytes(journal.read_bytes())
    assert list_missing(journal, request) == [1]


@pytest.mark.parametrize(("token", "other"), [("secret", "guessed"), ("secret", ""), ("", "secret")])
def test_who_does_not_know_the_token_is_sent_away_and_the_others_are_waited_for(
    fates: Fates, address: str, token: str, other: str
) -> None:
    def attend(token: str) -> Any:
        return meeting.attend(place(address, 1), ask(), token, is_stopped=lambda: False, tell=lambda text: None)

    told: list[str] = []
    here = Meanwhile(lambda: gather(address, token, told))
    with pytest.raises(WorkersError, match="TFBENCH_GROUP_TOKEN"):
        attend(other)
    there = Meanwhile(lambda: attend(token))
    _, (companion,) = here.result()
    assert any("was sent away: it does not know the TFBENCH_GROUP_TOKEN" in text for text in told)
    assert not any(name and name in text for text in told for name in (token, other))
    companion.connection.close()
    with pytest.raises(WorkersError, match=r"worker 0, at 127.0.0.1, is gone: the other end closed it"):
        there.result()


def gather(address: str, token: str = "", told: list[str] | None = None, num_workers: int = 2) -> Any:
    tell = (told if told is not None else []).append
    return meeting.gather(place(address, 0, num_workers), ask(num_workers), token, is_stopped=lambda: False, tell=tell)


def test_a_stranger_is_sent_away(fates: Fates, address: str) -> None:
    told: list[str] = []
    here = Meanwhile(lambda: gather(address, told=told))
    with connect(address) as stranger:
        stranger.sendall(b"GET / HTTP/1.1\r\n\r\n")
        received = b"".join(iter(lambda: stranger.recv(4096), b""))
    assert b"recipe" not in received
    there = Meanwhile(lambda: meeting.attend(place(address, 1), ask(), "", is_stopped=lambda: False, tell=told.append))
    here.result()[1][0].connection.close()
    with pytest.raises(WorkersError):
        there.result()
    assert "127.0.0.1 was sent away: it does not say who it is" in told


def connect(address: str) -> socket.socket:
    while True:
        try:
            return socket.create_connection(connection.split_address(address))
        except ConnectionRefusedError:
            time.sleep(0.02)


def test_who_does_not_come_is_named(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(meeting, "MEET_SECONDS", 0.1)
    with pytest.raises(WorkersError, match=r"of 3 workers, there did not come to .*: 1, 2. Start the same command"):
        gather(address, num_workers=3)
    with pytest.raises(WorkersError, match=f"worker 0 of 2 was not at {address} within"):
        meeting.attend(place(address, 1), ask(), "", is_stopped=lambda: False, tell=lambda text: None)
    with pytest.raises(InterruptedRunError, match="interrupted while workers were waited for"):
        meeting.attend(place(address, 1), ask(), "", is_stopped=lambda: True, tell=lambda text: None)


def test_a_coordinator_that_cannot_be_listened_at_is_an_error(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(connection.split_address(address)), pytest.raises(WorkersError, match="somebody listens"):
        gather(address)

    def refuse(*_: Any, **__: Any) -> None:
        raise OSError(errno.EADDRNOTAVAIL, "")

    monkeypatch.setattr(socket, "create_server", refuse)
    with pytest.raises(WorkersError, match="is no address of this machine, on which worker 0 is"):
        gather(address)


def test_a_worker_on_another_machine_that_fails_ends_the_run_with_its_words(
    tmp_path: Path, fates: Fates, address: str
) -> None:
    fates(w0="wait", w1="fail")
    there = follow_there(tmp_path, address)
    store = Store(tmp_path / "store0")
    measure(store, place=place(address))
    reason = f"worker 1 of 2 on {HOST}: ValueError: the loss is nowhere"
    assert ends(store) == [("FAILED", reason)] * 2
    assert there.result().end.reason == reason


def test_what_is_refused_on_another_machine_leaves_nothing(tmp_path: Path, fates: Fates, address: str) -> None:
    fates(w1="refuse")
    there = follow_there(tmp_path, address)
    with pytest.raises(Exception, match=f"worker 1 of 2 on {HOST}: no such device"):
        measure(Store(tmp_path / "store0"), place=place(address))
    with pytest.raises(WorkersError, match="no such device"):
        there.result()
    assert not (tmp_path / "store0").exists()
    assert not (tmp_path / "store1").exists()


def test_a_parent_that_is_gone_ends_the_run_at_once_and_is_named(tmp_path: Path, fates: Fates, address: str) -> None:
    fates(w0="wait")

    def come_and_go() -> None:
        connected, _ = meeting.attend(place(address, 1), ask(), "", is_stopped=lambda: False, tell=lambda text: None)
        record = read_journal_until_ready(tmp_path / "store0")
        for one in record:
            connected.send("record", record=one)
        wait_for(Store(tmp_path / "store0").journal_path(RUN), "spans")
        connected.close()

    Meanwhile(come_and_go)
    store = Store(tmp_path / "store0")
    measure(store, place=place(address))
    assert [(status, reason.partition(":")[0]) for status, reason in ends(store)] == [("KILLED", CUT_OFF)] * 2


def read_journal_until_ready(root: Path) -> list[dict[str, Any]]:
    """Returns what the first worker wrote until it was ready."""
    path = Store(root).journal_path(RUN)
    wait_for(path, "ready")
    return [record for record in read_journal(path) if record["kind"] in ("request", "worker", "ready")]


def test_a_first_parent_that_is_gone_ends_the_others_and_what_they_measured_is_kept(
    tmp_path: Path, fates: Fates, address: str
) -> None:
    fates(w1="hang")
    following_ = follow_there(tmp_path, address)
    own_address, (companion,) = gather(address)
    member = Member(index=1, addresses=(own_address, companion.introduction.address))
    companion.connection.send("request", **request_fields(dataclasses.replace(ask(), member=member)))
    companion.connection.send("begin")
    journal = member_path(Store(tmp_path / "store1").journal_path(RUN), 1)
    wait_for(journal, "spans")
    companion.connection.close()
    followed: FollowedRun = following_.result()
    assert followed.end.reason.startswith("the connection to worker 0 was cut off: its parent was killed")
    records = read_journal(journal)
    assert records[-1]["kind"] == "exit"
    assert sum(record["kind"] == "spans" for record in records) >= 1


def connected_pair() -> tuple[socket.socket, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        theirs = socket.create_connection(listening.getsockname())
        return listening.accept()[0], theirs


def test_a_machine_that_falls_silent_is_named_in_bounded_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "LOST_SECONDS", 0.05)
    ours, theirs = connected_pair()
    with theirs:
        worker = remote.RemoteWorker(Connection(ours), tmp_path / "1.jsonl", "worker 1 of 2 on there")
        while worker.end is None:
            worker.look()
        assert worker.end.reason.startswith("worker 1 of 2 on there has not been heard of for")
        theirs.shutdown(socket.SHUT_WR)
        worker.close()


def test_half_a_journal_is_not_given_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = connected_pair()
    path, first = tmp_path / "1.jsonl", {"kind": "worker", "time": 1.0}
    with theirs:
        worker = remote.RemoteWorker(Connection(ours), path, "worker 1 of 2 on there")
        theirs.sendall(json.dumps({"kind": "record", "record": first}).encode() + b"\n")
        while not worker.look():
            pass

        def refuse(*_: Any) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        with monkeypatch.context() as full:
            full.setattr(remote.lines, "append", refuse)
            theirs.sendall(json.dumps({"kind": "record", "record": first}).encode() + b"\n")
            while not worker.look():
                pass
        worker.conclude(RunExit(status="FINISHED"), is_kept=True)
        theirs.shutdown(socket.SHUT_WR)
        worker.close()
    assert read_journal(path) == [first]


def test_what_is_no_message_ends_a_connection() -> None:
    ours, theirs = connected_pair()
    with theirs:
        connected = Connection(ours)
        theirs.sendall(b'{"kind": "state"}\n["no object"]\n')
        assert connected.receive(60) == {"kind": "state"}
        assert connected.receive(60) is None
        assert connected.problem == "what came is no message: no JSON object with a kind"
        connected.close()


def test_what_was_cut_off_is_merged_from_both_copies_of_a_journal(
    tmp_path: Path, fates: Fates, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fates()
    there = follow_there(tmp_path, address)
    store, other = Store(tmp_path / "store0"), Store(tmp_path / "store9")
    measure(store, place=place(address))
    lone = there.result().journal
    journal = store.journal_path(RUN)
    state = TrackingState(tracking_uri=other.tracking_uri, experiment="test")
    monkeypatch.setattr(journal_import, "project_one", lambda store, result, trackers: RECOVERED)

    def bring(*paths: Path) -> list[str]:
        return [f"{one.status}: {one.message}" for one in import_journals(other, paths, lambda *_: _Tracker(), state)]

    with pytest.raises(TrackingError, match=f"is the journal of worker 1 of 2 of run {RUN}, which is not in the store"):
        bring(lone)
    whole = member_path(journal, 1).read_bytes()
    lines = whole.splitlines(keepends=True)
    member_path(journal, 1).write_bytes(b"".join(lines[:4]))  # the network was gone from then on
    exported = tmp_path / "run.jsonl"
    exported.write_bytes(join(journal))
    assert bring(exported) == ["imported: "]
    assert other.journal_path(RUN).read_bytes() == journal.read_bytes()
    assert member_path(other.journal_path(RUN), 1).read_bytes() == b"".join(lines[:4])
    assert bring(lone) == ["imported: the journal of worker 1 was added to it"]
    assert member_path(other.journal_path(RUN), 1).read_bytes() == lone.read_bytes()
    assert bring(lone, exported) == bring(lone) == ["known: it is in the store already"]
