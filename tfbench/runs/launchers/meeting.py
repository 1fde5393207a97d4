"""Where the parents of workers on several machines meet: the first worker's listens, those of the others connect.

Each says who it is and what it was asked for; what differs is refused, at both ends. Strangers are kept out by what is
listened to, the address of the coordinator and no other, and by TFBENCH_GROUP_TOKEN, which all have or none: each
proves to the other that it knows it, and it is never sent.
"""

import contextlib
import dataclasses
import errno
import hmac
import importlib.metadata
import os
import platform
import secrets
import socket
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from tfbench import __version__
from tfbench.errors import InterruptedRunError, RecipeError, WorkersError
from tfbench.recipe import tables
from tfbench.records.run import RunRequest
from tfbench.runs.launchers.clusters import Place
from tfbench.runs.launchers.connection import (
    LOST_SECONDS,
    Connection,
    Message,
    find_free_addresses,
    split_address,
)
from tfbench.runs.launchers.process import TOKEN_VARIABLE
from tfbench.schema import NaturalNumber, Text, build, schema, to_plain
from tfbench.wording import shorten

MEET_SECONDS = 300.0  # for all parents to come to the meeting
_ANSWER_SECONDS = 5.0  # for one that came to say who it is
_POLL_SECONDS = 0.2
_RETRY_SECONDS = 1.0
_SHOWN_DIFFERENCES = 4

IsStopped = Callable[[], bool]
Tell = Callable[[str], None]


@schema
class Introduction:
    """Who a worker's parent is, and what it was asked for."""

    index: NaturalNumber
    num_workers: NaturalNumber
    host: Text
    pid: NaturalNumber
    address: Text  # HOST:PORT for the framework
    versions: dict[str, str]  # of what must be the same on all machines
    recipe: dict[str, Any]
    resumed_from: str = ""  # run

    @property
    def name(self) -> str:
        """What the worker is called."""
        return f"worker {self.index} of {self.num_workers} on {self.host}"


@dataclasses.dataclass(frozen=True, slots=True)
class Companion:
    """The parent of another worker, as the first one's knows it."""

    introduction: Introduction
    connection: Connection


def gather(
    place: Place, request: RunRequest, token: str, *, is_stopped: IsStopped, tell: Tell
) -> tuple[str, list[Companion]]:
    """Waits for the parents of all other workers.

    Args:
        place: Which worker is here, and where they meet.
        request: What was asked for here.
        token: That all must know; "": there is none.
        is_stopped: Says whether a stop was asked for.
        tell: Told who is waited for, and who came.

    Returns:
        An address for the framework on this machine, and the others in the order of their numbers.

    Raises:
        WorkersError: The coordinator's address cannot be used, some did not come, or one differs.
        InterruptedRunError: A stop was asked for.
    """
    met: dict[int, Companion] = {}
    with contextlib.ExitStack() as undone, _listen(place) as listening:
        undone.callback(_close_all, met)
        own = introduce(place, request, host=listening.getsockname()[0])
        deadline = time.monotonic() + MEET_SECONDS
        while len(met) < place.num_workers - 1:
            _drop_gone(met, tell)
            missing = [str(index) for index in range(1, place.num_workers) if index not in met]
            try:
                _require_going_on(is_stopped)
                if time.monotonic() > deadline:
                    raise WorkersError(
                        f"of {place.num_workers} workers, there did not come to {place.coordinator} within "
                        f"{MEET_SECONDS:.0f} s: {', '.join(missing)}. Start the same command on each machine."
                    )
                if companion := _accept(listening, own, met, token, tell):
                    met[companion.introduction.index] = companion
                    tell(f"{companion.introduction.name} is here ({len(met) + 1} of {place.num_workers})")
            except (WorkersError, InterruptedRunError) as error:
                for companion in met.values():
                    companion.connection.send("refused", reason=str(error))
                raise
        undone.pop_all()
    return own.address, [met[index] for index in sorted(met)]


def attend(
    place: Place, request: RunRequest, token: str, *, is_stopped: IsStopped, tell: Tell
) -> tuple[Connection, Message]:
    """Goes to the meeting, as the parent of another worker than the first; arguments as of `gather`.

    Returns:
        The connection to the first worker's parent, and what it says is to be measured.

    Raises:
        WorkersError: Nobody was there in time, or this worker does not fit to the others.
        InterruptedRunError: A stop was asked for.
    """
    about = _describe(place, request)  # before the first worker's parent waits for it: a disk may be slow to say
    connection = _connect(place, is_stopped, tell)
    try:
        meet = _wait(connection, "meet", is_stopped, MEET_SECONDS)
        own = Introduction(address=find_free_addresses(connection.own_host, 1)[0], **about)
        theirs, ours = str(meet.get("nonce")), secrets.token_hex(16)
        proof = _prove(token, "other", theirs, ours)
        connection.send("hello", nonce=ours, proof=proof, introduction=to_plain(own))
        welcome = _wait(connection, "welcome", is_stopped, MEET_SECONDS)
        if not _is_proof(welcome, _prove(token, "first", theirs, ours)):
            raise WorkersError(f"{place.coordinator}: does not know the {TOKEN_VARIABLE} that is set here.")
        connection.is_trusted = True
        tell(f"at {place.coordinator}; waiting until all are there")
        return connection, _wait(connection, "request", is_stopped, None)
    except BaseException:
        connection.close()
        raise


def introduce(place: Place, request: RunRequest, *, host: str) -> Introduction:
    """Says who this parent is; `host` is the address that others reach this machine by."""
    return Introduction(address=find_free_addresses(host, 1)[0], **_describe(place, request))


def find_difference(first: Introduction, other: Introduction) -> str:
    """Says in what another worker's parent differs from the first one's; "" if in nothing that counts."""
    pairs: list[tuple[str, Any, Any]]
    pairs = [(f"version of {name}", version, other.versions.get(name)) for name, version in first.versions.items()]
    pairs += [
        ("number of workers", first.num_workers, other.num_workers),
        ("--resume", first.resumed_from or None, other.resumed_from or None),
    ]
    here, there = tables.list_values(first.recipe), tables.list_values(other.recipe)
    pairs += [(key, here.get(key), there.get(key)) for key in (*here, *(key for key in there if key not in here))]
    found = [
        f"{name}: {shorten(str(ours))} with the first, {shorten(str(theirs))} there"
        for name, ours, theirs in pairs
        if ours != theirs
    ]
    more = f"; and {len(found) - _SHOWN_DIFFERENCES} more" if len(found) > _SHOWN_DIFFERENCES else ""
    return "; ".join(found[:_SHOWN_DIFFERENCES]) + more


def _describe(place: Place, request: RunRequest) -> dict[str, Any]:
    """Returns what an introduction says but for the address, which is known once there is a connection."""
    backend = request.recipe.training.backend
    return {
        "index": place.index,
        "num_workers": place.num_workers,
        "host": platform.node(),
        "pid": os.getpid(),
        "versions": {"tfbench": __version__, "keras": _find_version("keras"), backend: _find_version(backend)},
        "recipe": tables.to_tables(request.recipe),
        "resumed_from": request.resume.run_id if request.resume else "",
    }


def _accept(
    listening: socket.socket, own: Introduction, met: Collection[int], token: str, tell: Tell
) -> Companion | None:
    """Returns who came and may stay, if somebody did; a stranger is sent away."""
    try:
        connected, _ = listening.accept()
        connection = Connection(connected)
    except OSError:  # nobody, or one who was gone again before a word was said
        return None
    theirs, ours = "", secrets.token_hex(16)
    connection.send("meet", nonce=ours)
    hello = connection.receive(_ANSWER_SECONDS)
    problem = ""
    if hello is None or hello["kind"] != "hello":
        problem = "it does not say who it is"
    elif not _is_proof(hello, _prove(token, "other", ours, theirs := str(hello.get("nonce")))):
        problem = f"it does not know the {TOKEN_VARIABLE} of the first worker, or has one where the first has none"
    else:
        try:
            other = build(Introduction, hello.get("introduction"), "introduction")
        except RecipeError as error:
            problem = str(error)
    if problem:
        tell(f"{connection.other_host} was sent away: {problem}")
        connection.send("refused", reason=problem)
        connection.close()
        return None
    if difference := find_difference(own, other):
        problem = f"differs from the first one: {difference}"
    elif other.index in met or not 0 < other.index < own.num_workers:
        problem = f"there is a worker {other.index} already"
    if problem:
        refusal = WorkersError(f"{other.name}: {problem}.")
        connection.send("refused", reason=str(refusal))
        connection.close()
        raise refusal
    connection.is_trusted = True
    connection.send("welcome", proof=_prove(token, "first", ours, theirs))
    return Companion(other, connection)


@contextlib.contextmanager
def _listen(place: Place) -> Iterator[socket.socket]:
    """Listens at the coordinator's address, and at no other of this machine."""
    host, port = split_address(place.coordinator)
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listening = socket.create_server(address[:2], family=family, backlog=place.num_workers)
    except OSError as error:
        why = "somebody listens there already; name another port" if error.errno == errno.EADDRINUSE else error.strerror
        if error.errno == errno.EADDRNOTAVAIL:
            why = "is no address of this machine, on which worker 0 is"
        raise WorkersError(f"coordinator {place.coordinator}: cannot be listened at: {why}.") from error
    with listening:
        listening.settimeout(_POLL_SECONDS)
        yield listening


def _connect(place: Place, is_stopped: IsStopped, tell: Tell) -> Connection:
    deadline, is_told = time.monotonic() + MEET_SECONDS, False
    while True:
        _require_going_on(is_stopped)
        try:
            return Connection(socket.create_connection(split_address(place.coordinator), timeout=_ANSWER_SECONDS))
        except OSError as error:
            if time.monotonic() > deadline:
                raise WorkersError(
                    f"worker 0 of {place.num_workers} was not at {place.coordinator} within {MEET_SECONDS:.0f} s: "
                    f"{error.strerror or error}. Start the same command on its machine."
                ) from error
        if not is_told:
            tell(f"waiting for worker 0 of {place.num_workers} at {place.coordinator}")
            is_told = True
        time.sleep(_RETRY_SECONDS)


def _wait(connection: Connection, kind: str, is_stopped: IsStopped, seconds: float | None) -> Message:
    """Returns the message that is waited for; one that refuses ends it."""
    deadline = None if seconds is None else time.monotonic() + seconds
    while True:
        _require_going_on(is_stopped)
        is_over = bool(connection.problem)  # before the last look
        if message := connection.receive(_POLL_SECONDS):
            if message["kind"] == "refused":
                raise WorkersError(str(message.get("reason")))
            if message["kind"] == kind:
                return message
        elif is_over or connection.silent_seconds > LOST_SECONDS or (deadline and time.monotonic() > deadline):
            why = connection.problem or "it is silent"
            raise WorkersError(f"worker 0, at {connection.other_host}, is gone: {why}.")


def _require_going_on(is_stopped: IsStopped) -> None:
    if is_stopped():
        raise InterruptedRunError("interrupted while workers were waited for; nothing was measured.")


def _drop_gone(met: dict[int, Companion], tell: Tell) -> None:
    """Forgets who is gone, so that a worker that was started anew can take its place."""
    for index, companion in list(met.items()):
        if companion.connection.problem or companion.connection.silent_seconds > LOST_SECONDS:
            met.pop(index).connection.close()
            tell(f"{companion.introduction.name} has gone again")


def _close_all(met: Mapping[int, Companion]) -> None:
    for companion in met.values():
        companion.connection.close()


def _prove(token: str, who: str, *nonces: str) -> str:
    """Returns what only who knows the token can make of numbers drawn for this meeting; "" without a token."""
    return hmac.digest(token.encode(), "|".join((who, *nonces)).encode(), "sha256").hex() if token else ""


def _is_proof(message: Message, expected: str) -> bool:
    return hmac.compare_digest(str(message.get("proof")).encode(errors="replace"), expected.encode())


def _find_version(package: str) -> str:
    for name in (package, f"{package}-cpu"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            return importlib.metadata.version(name)
    return "not installed"
