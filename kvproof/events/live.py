"""Live streams: what publishers send over ZeroMQ, with gaps closed from their replay sockets where they have one.

A message has three parts: the topic, the number in 8 bytes (big-endian), the batch. A replay is asked for with a number
and answered with all batches that are still there from that on, then with a number of all ones. Releases of vLLM differ
in whether an answer repeats the topic; the last two parts are the same in all.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

from ..errors import UsageError
from ..untrusted import limits
from .arrival import Arrival, Damage, checksum

if TYPE_CHECKING:
    import zmq

__all__ = ["Endpoint", "Listener", "check_each_once", "is_live", "parse_endpoint"]

_END = (2**64 - 1).to_bytes(8, "big")
_QUEUED = 100_000
"""Messages that wait here before the publisher drops some, which then shows as a gap."""
_AT_ONCE = 1000
"""Messages that are taken of one publisher before it is the next one's turn."""
_LONGEST_WAIT = 60.0
"""Seconds that are waited at once: more than some weeks are no number of milliseconds for ZeroMQ."""
_ANSWER_SECONDS = 3.0
"""How long a replay may keep silent."""


@dataclass(frozen=True)
class Endpoint:
    """Where a publisher is listened to."""

    address: str
    bind: bool = False
    """Whether publishers connect here, instead of the other way round."""
    topic: bytes = b""
    """Only topics that begin so."""
    replay: str | None = None


def is_live(text: str) -> bool:
    """Whether this names a live stream, and no file."""
    return text.startswith(("zmq://", "ipc://"))


def parse_endpoint(text: str) -> Endpoint:
    """Read ``zmq://HOST:PORT[?topic=TEXT&replay=PORT]``, or ``ipc://PATH``; a host of ``*`` lets publishers connect.

    Raises:
        UsageError: it is none.
    """
    wrong = f"{text} names no stream; write it as zmq://HOST:PORT, or zmq://HOST:PORT?replay=PORT&topic=TEXT"
    try:
        parts = urlsplit(text)
        asked = parse_qs(parts.query, strict_parsing=bool(parts.query))
        if parts.scheme == "zmq" and (parts.hostname is None or parts.port is None or parts.path not in ("", "/")):
            raise UsageError(wrong)
    except ValueError as error:
        raise UsageError(wrong) from error
    if parts.fragment or not asked.keys() <= {"topic", "replay"} or any(len(said) > 1 for said in asked.values()):
        raise UsageError(wrong)
    host = f"[{parts.hostname}]" if parts.hostname and ":" in parts.hostname else parts.hostname
    address = f"ipc://{parts.netloc}{parts.path}" if parts.scheme == "ipc" else f"tcp://{host}:{parts.port}"
    topic = asked.get("topic", [""])[0].encode()
    return Endpoint(address, parts.hostname == "*", topic, _replay(asked.get("replay", [None])[0], host, wrong))


def check_each_once(endpoints: Sequence[Endpoint]) -> None:
    """Refuse a publisher that is named twice: each of its messages would come twice.

    Raises:
        UsageError: one is.
    """
    for at, one in enumerate(endpoints):
        for other in endpoints[:at]:
            topics = sorted((one.topic, other.topic), key=len)
            if one.address == other.address and topics[1].startswith(topics[0]):
                raise UsageError(
                    f"{one.address} is named twice; name each publisher once, or topics of which none begins another"
                )


def _replay(asked: str | None, host: str | None, wrong: str) -> str | None:
    if asked is None or asked.startswith("ipc://"):
        return asked
    port = asked.removeprefix("zmq://").rpartition(":")[2]
    if not port.isascii() or not port.isdigit() or not 0 < int(port) < 2**16:
        raise UsageError(wrong)
    host = asked.removeprefix("zmq://").rpartition(":")[0] or host
    return f"tcp://{host}:{port}" if host not in (None, "*") else None


@dataclass
class _Row:
    """How far one topic of an endpoint was heard."""

    expected: int = 0
    heard: int = -1
    """The last number that came by itself."""
    check: int = 0
    """`checksum` of what came with it."""


@dataclass
class _Open:
    """An endpoint that is listened to."""

    endpoint: Endpoint
    socket: zmq.Socket[bytes]
    rows: dict[bytes, _Row] = field(default_factory=dict)


class Listener:
    """Listens to publishers; a context, so that its sockets are closed."""

    def __init__(self, endpoints: Sequence[Endpoint]) -> None:
        """Connect. A publisher that is not there yet is waited for.

        Raises:
            UsageError: pyzmq is not installed, or an address is none.
        """
        self._zmq = _pyzmq()
        self.unanswered = 0
        """Replays that were asked for and not answered to their end."""
        self._context: zmq.Context[Any] = self._zmq.Context()
        try:
            self._open = [_Open(endpoint, self._subscribe(endpoint)) for endpoint in endpoints]
        except self._zmq.ZMQError as error:
            self._context.destroy(linger=0)
            raise UsageError(f"cannot listen there ({error}); give the address that the engine publishes at") from error
        self._poller = self._zmq.Poller()
        for opened in self._open:
            self._poller.register(opened.socket, self._zmq.POLLIN)

    def __enter__(self) -> Listener:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._context.destroy(linger=0)

    def arrivals(self, seconds: float) -> Iterator[Arrival | Damage]:
        """The messages that come within this time, in the order in which they are to be applied."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            ready = dict(self._poller.poll(min(left, _LONGEST_WAIT) * 1000))
            for opened in self._open:
                if opened.socket in ready:
                    yield from self._drain(opened, until)

    def _drain(self, opened: _Open, until: float) -> Iterator[Arrival | Damage]:
        """What waits at a socket, but no longer than this, and no more than is taken at once."""
        for _ in range(_AT_ONCE):
            if time.monotonic() >= until:
                return
            try:
                parts = opened.socket.recv_multipart(self._zmq.NOBLOCK)
            except self._zmq.Again:
                return
            yield from self._message(opened, parts)

    def _message(self, opened: _Open, parts: list[bytes]) -> Iterator[Arrival | Damage]:
        address, now = opened.endpoint.address, time.time()
        if len(parts) != 3 or len(parts[1]) != 8 or len(parts[0]) > limits.EVENT_TOPIC_BYTES:
            sizes = ", ".join(str(len(part)) for part in parts[:5])
            yield Damage(address, f"a message of {len(parts)} parts ({sizes} bytes) is no topic, number and batch")
            return
        topic, number, payload = parts[0], int.from_bytes(parts[1], "big"), parts[2]
        row = opened.rows.get(topic)
        if row is None:
            row = opened.rows[topic] = _Row()
        check = checksum(payload)
        # Messages of one publisher come in order: where they go back, another one begins. Its first may be lost.
        if number < row.heard or (number == row.heard and check != row.check):
            row.expected, row.heard = 0, -1
        if number > row.expected and opened.endpoint.replay is not None:
            yield from self._replayed(opened.endpoint, topic, row, number)
        row.heard, row.check, row.expected = number, check, max(row.expected, number + 1)
        yield Arrival(address, topic, number, payload, check, at=now)

    def _replayed(self, endpoint: Endpoint, topic: bytes, row: _Row, before: int) -> Iterator[Arrival]:
        """Ask for what is missing before a number. A publisher keeps only so many batches.

        It answers with later ones too; those come by themselves, and in order.
        """
        assert endpoint.replay is not None
        socket = self._socket(self._zmq.DEALER, endpoint.replay)
        try:
            socket.connect(endpoint.replay)
            socket.send_multipart((b"", row.expected.to_bytes(8, "big")))
            while socket.poll(int(_ANSWER_SECONDS * 1000)):
                parts = socket.recv_multipart()
                if len(parts) < 3 or len(parts[-2]) != 8 or parts[-2] == _END:
                    self.unanswered += parts[-2] != _END if len(parts) > 1 else 1
                    return
                number, payload = int.from_bytes(parts[-2], "big"), parts[-1]
                if not row.expected <= number < before or (len(parts) > 3 and parts[-3] != topic):
                    continue
                row.expected = number + 1
                yield Arrival(
                    endpoint.address, topic, number, payload, checksum(payload), replayed=True, at=time.time()
                )
            self.unanswered += 1
        finally:
            socket.close(linger=0)

    def _subscribe(self, endpoint: Endpoint) -> zmq.Socket[bytes]:
        socket = self._socket(self._zmq.SUB, endpoint.address)
        socket.setsockopt(self._zmq.RCVHWM, _QUEUED)
        socket.setsockopt(self._zmq.SUBSCRIBE, endpoint.topic)
        if endpoint.bind:
            socket.bind(endpoint.address)
        else:
            socket.connect(endpoint.address)
        return socket

    def _socket(self, kind: int, address: str) -> zmq.Socket[bytes]:
        """A socket for an address, not connected yet."""
        socket: zmq.Socket[bytes] = self._context.socket(kind)
        socket.setsockopt(self._zmq.MAXMSGSIZE, limits.EVENT_BATCH_BYTES)
        if "[" in address:  # Without it, ZeroMQ finds nobody there, and does not say so.
            socket.setsockopt(self._zmq.IPV6, 1)
        return socket


def _pyzmq() -> Any:
    try:
        import zmq
    except ImportError as error:
        sentence = "listening to a live stream needs pyzmq: install it with pip install 'kvproof[events]'"
        raise UsageError(sentence) from error
    return zmq
