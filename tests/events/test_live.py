"""Live streams: a publisher of the tests' own, and those of installed releases of vLLM, on loopback."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from kvproof.cli import main as cli
from kvproof.engines.build import Build
from kvproof.errors import UsageError
from kvproof.events import live
from kvproof.events.arrival import Arrival, Damage
from kvproof.events.checking import Checker
from kvproof.events.live import Endpoint, Listener, parse_endpoint
from kvproof.events.recording import Recorder
from kvproof.events.wire import Stored

from ..engines.installed import engine

zmq = pytest.importorskip("zmq")

WORKERS = [Path(live.__file__).parents[1] / "engines" / part for part in ("vllm/worker", "worker")]
CHILD = Path(__file__).with_name("publisher_child.py")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


# ------------------------------------------------------------------------------------------------ a publisher of ours


class Publisher:
    """A publisher with a replay socket, as vLLM's is; ``topic_in_replay``: as that of 0.33, or as those before."""

    def __init__(self, *, topic_in_replay: bool, buffered: int = 1000) -> None:
        self._topic_in_replay = topic_in_replay
        self._context = zmq.Context()
        self._pub, self._replay = self._context.socket(zmq.PUB), self._context.socket(zmq.ROUTER)
        self.port = self._pub.bind_to_random_port("tcp://127.0.0.1")
        self.replay_port = self._replay.bind_to_random_port("tcp://127.0.0.1")
        self._buffer: deque[tuple[int, bytes]] = deque(maxlen=buffered)
        self._number, self._made = 0, 0.5
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def publish(self, *, lost: bool = False, **fields: object) -> None:
        event = Stored([self._number], None, (self._number,), 1, medium="GPU")
        payload = msgspec.msgpack.encode([self._made, [event], 0])
        self._buffer.append((self._number, payload))
        if not lost:
            self._pub.send_multipart((b"kv", self._number.to_bytes(8, "big"), payload))
        self._number += 1

    def anew(self) -> None:
        """What comes next is another publisher's, at the same address."""
        self._buffer.clear()
        self._number, self._made = 0, self._made + 1

    def send(self, *parts: bytes) -> None:
        self._pub.send_multipart(parts)

    def _serve(self) -> None:
        while not self._ending.is_set():
            if not self._replay.poll(20):
                continue
            client, empty, start = self._replay.recv_multipart()
            assert empty == b""
            for number, payload in list(self._buffer):
                if number >= int.from_bytes(start, "big"):
                    self._answer(client, b"kv", number.to_bytes(8, "big"), payload)
            self._answer(client, b"", b"\xff" * 8, b"")

    def _answer(self, client: bytes, topic: bytes, number: bytes, payload: bytes) -> None:
        middle = (b"", topic) if self._topic_in_replay else (b"",)
        self._replay.send_multipart((client, *middle, number, payload))

    def close(self) -> None:
        self._ending.set()
        self._thread.join()
        self._context.destroy(linger=0)


@contextmanager
def publisher(*, topic_in_replay: bool = True, buffered: int = 1000) -> Iterator[Publisher]:
    made = Publisher(topic_in_replay=topic_in_replay, buffered=buffered)
    try:
        yield made
    finally:
        made.close()


def joined(listener: Listener, sender: Publisher) -> None:
    """Wait until a subscription has reached its publisher."""
    for _ in range(200):
        sender.send(b"knock")
        if any(isinstance(arrival, Damage) for arrival in listener.arrivals(0.02)):
            for _ in listener.arrivals(0.02):
                pass
            return
    raise AssertionError("nothing comes")


def heard(listener: Listener, checker: Checker, batches: int, recorder: Recorder | None = None) -> Checker:
    """Listen until so many batches came."""
    until = time.monotonic() + 60
    while checker.tally.batches < batches and time.monotonic() < until:
        for arrival in listener.arrivals(0.05):
            if recorder is not None and isinstance(arrival, Arrival):
                recorder.write(arrival)
            checker.take(arrival)
    return checker


@pytest.mark.parametrize("topic_in_replay", [True, False])
def test_a_gap_is_closed_by_a_replay_and_nothing_is_applied_twice(topic_in_replay: bool) -> None:
    with publisher(topic_in_replay=topic_in_replay) as sender:
        for _ in range(3):
            sender.publish()  # before anybody listens
        endpoint = parse_endpoint(f"zmq://127.0.0.1:{sender.port}?replay={sender.replay_port}")
        with Listener([endpoint]) as listener:
            joined(listener, sender)
            for lost in (False, True, True, False, False):
                sender.publish(lost=lost)
            checker = heard(listener, Checker(), 8)
        assert not checker.faults, checker.faults.first
        assert (checker.tally.batches, checker.belief.keys) == (8, 8)
        assert checker.tally.replayed >= 5


def test_a_gap_that_no_replay_closes_is_told() -> None:
    with publisher(buffered=1) as sender:
        endpoint = f"zmq://127.0.0.1:{sender.port}?topic=k"
        for replay in ("", f"&replay={sender.replay_port}"):
            with Listener([parse_endpoint(endpoint + replay)]) as listener:
                joined(listener, sender)
                for lost in (False, True, True, False):
                    sender.publish(lost=lost)
                checker = heard(listener, Checker(), 2)
            (fault,) = checker.faults.first
            assert (fault.rule, fault.kind) == ("E1", "gap")
            assert "2 batches are missing" in fault.text


def test_where_numbers_go_back_the_replay_is_asked_for_what_another_publisher_sent_first() -> None:
    with publisher() as sender:
        endpoint = parse_endpoint(f"zmq://127.0.0.1:{sender.port}?replay={sender.replay_port}")
        with Listener([endpoint]) as listener:
            joined(listener, sender)
            for _ in range(6):
                sender.publish()
            checker = heard(listener, Checker(), 6)
            sender.anew()
            for lost in (True, True, False, False):
                sender.publish(lost=lost)
            heard(listener, checker, 10)
        assert not checker.faults, checker.faults.first
        assert (checker.tally.restarts, checker.tally.replayed, checker.belief.keys) == (1, 2, 4)


def test_a_replay_that_nobody_answers_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "_ANSWER_SECONDS", 0.1)
    with publisher() as sender:
        with Listener([Endpoint(f"tcp://127.0.0.1:{sender.port}", replay="tcp://127.0.0.1:9")]) as listener:
            joined(listener, sender)
            sender.publish(lost=True)
            sender.publish()
            heard(listener, Checker(), 1)
        assert listener.unanswered == 1


def test_publishers_connect_where_the_host_is_a_star() -> None:
    port = free_port()
    context = zmq.Context()
    with Listener([parse_endpoint(f"zmq://*:{port}")]) as listener:
        sender = context.socket(zmq.PUB)
        sender.connect(f"tcp://127.0.0.1:{port}")
        until = time.monotonic() + 60
        came: list[Arrival | Damage] = []
        while not came and time.monotonic() < until:
            sender.send_multipart((b"", bytes(8), msgspec.msgpack.encode([0.5, [], 1])))
            came = list(listener.arrivals(0.05))
        assert came
    context.destroy(linger=0)


@pytest.mark.parametrize("seconds", [float("inf"), 1e12])
def test_a_listener_waits_for_any_time(seconds: float) -> None:
    with publisher() as sender, Listener([parse_endpoint(f"zmq://127.0.0.1:{sender.port}")]) as listener:
        joined(listener, sender)
        sender.publish()
        assert isinstance(next(listener.arrivals(seconds)), Arrival)


def test_an_address_of_the_sixth_version_is_heard() -> None:
    context = zmq.Context()
    sender = context.socket(zmq.PUB)
    sender.setsockopt(zmq.IPV6, 1)
    try:
        port = sender.bind_to_random_port("tcp://[::1]")
    except zmq.ZMQError:
        pytest.skip("there is no such address here")
    came: list[Arrival | Damage] = []
    with Listener([parse_endpoint(f"zmq://[::1]:{port}")]) as listener:
        until = time.monotonic() + 60
        while not came and time.monotonic() < until:
            sender.send_multipart((b"", bytes(8), msgspec.msgpack.encode([0.5, [], 0])))
            came = list(listener.arrivals(0.05))
    context.destroy(linger=0)
    assert came


def test_one_publisher_does_not_keep_the_others_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "_AT_ONCE", 5)
    with publisher() as busy, publisher() as other:
        endpoints = [parse_endpoint(f"zmq://127.0.0.1:{sender.port}") for sender in (busy, other)]
        with Listener(endpoints) as listener:
            for sender in (busy, other):
                joined(listener, sender)
            for _ in range(100):
                busy.publish()
            other.publish()
            time.sleep(0.2)
            came = [arrival.source for arrival in listener.arrivals(0.3) if isinstance(arrival, Arrival)]
    assert len(came) == 101
    assert came.index(f"tcp://127.0.0.1:{other.port}") < 50


@pytest.mark.parametrize(
    "text",
    ["zmq://", "zmq://host", "zmq://host:port", "zmq://host:1?what=2", "zmq://host:1?replay=x", "zmq://h:1/path",
     "zmq://h:1?topic=a&topic=b", "zmq://h:99999", "zmq://h:1#x"],
)  # fmt: skip
def test_what_names_no_stream_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="write it as zmq://HOST:PORT"):
        parse_endpoint(text)


def test_streams_are_named_as_addresses() -> None:
    assert parse_endpoint("zmq://h:5557") == Endpoint("tcp://h:5557")
    assert parse_endpoint("zmq://[::1]:5557?replay=5558") == Endpoint("tcp://[::1]:5557", replay="tcp://[::1]:5558")
    assert parse_endpoint("zmq://*:1?topic=kv%40a") == Endpoint("tcp://*:1", bind=True, topic=b"kv@a")
    assert parse_endpoint("ipc:///tmp/a?replay=ipc:///tmp/b") == Endpoint("ipc:///tmp/a", replay="ipc:///tmp/b")


def test_without_pyzmq_a_sentence_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "zmq", None)
    assert cli.run(["events", "zmq://127.0.0.1:1"]) == 2
    assert "needs pyzmq: install it with pip install 'kvproof[events]'" in capsys.readouterr().err


def test_a_command_follows_records_and_ends_in_its_time(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recording, report = tmp_path / "stream", tmp_path / "report.json"
    with publisher() as sender:
        sender.publish()
        endpoint = f"zmq://127.0.0.1:{sender.port}?replay={sender.replay_port}"
        over = threading.Event()

        def talk() -> None:
            while not over.wait(0.05):
                sender.publish()

        thread = threading.Thread(target=talk)
        thread.start()
        options = ["--record", str(recording), "--json", str(report), "--every", "1"]
        assert cli.run(["events", endpoint, "--for", "1.5", *options]) == 0
        over.set()
        thread.join()
    told = json.loads(report.read_text())
    assert told["events"] == told["batches"] >= 2
    assert told["held"] == [{"source": f"tcp://127.0.0.1:{sender.port}", "rank": 0, "medium": "GPU", "group": None,
                             "blocks": told["events"]}]  # fmt: skip
    assert "blocks held" in capsys.readouterr().err
    assert cli.run(["events", str(recording), "--json", "-"]) == 0
    again = json.loads(capsys.readouterr().out)
    assert (again["events"], again["held"]) == (told["events"], told["held"])


def test_a_follower_ends_in_order_when_it_is_told_to(tmp_path: Path) -> None:
    with publisher() as sender:
        sender.publish()
        endpoint = f"zmq://127.0.0.1:{sender.port}?replay={sender.replay_port}"
        command = [
            sys.executable,
            "-m",
            "kvproof",
            "events",
            endpoint,
            "--record",
            str(tmp_path / "stream"),
            "--every",
            "1",
        ]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            assert process.stderr is not None
            assert process.stderr.readline().startswith("listening to ")
            for line in process.stderr:
                sender.publish()
                if not line.startswith("0 events"):
                    break
            process.send_signal(signal.SIGTERM)
            shown, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert "blocks held" in shown
    assert cli.run(["events", str(tmp_path / "stream")]) == 0


# ------------------------------------------------------------------------------------------------ vLLM's own publisher


class Child:
    """A release's block pool and its publisher, in the release's own interpreter."""

    def __init__(self, build: Build) -> None:
        port, replay_port = free_port(), free_port()
        self.endpoint = parse_endpoint(f"zmq://127.0.0.1:{port}?replay={replay_port}")
        self.batches = 0
        folders = ":".join(map(str, WORKERS))
        command = [str(build.python), str(CHILD), folders, str(port), str(replay_port)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=dict(build.environment())
        )
        assert self._answer() == "ready\n"

    def _answer(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()

    def do(self, words: str) -> object:
        assert self._process.stdin is not None
        self._process.stdin.write(words + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._answer())
        self.batches += {"step": 1, "lose": 1}.get(words.split()[0], 0) * int(words.partition(" ")[2] or 0)
        self.batches += {"reset": 1, "twice": 41, "window": 1}.get(words, 0)
        return answer

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(20)


@pytest.fixture(scope="module", params=["0.33.0", pytest.param("0.20.2", marks=pytest.mark.slow)])
def child(request: pytest.FixtureRequest) -> Iterator[Child]:
    made = Child(engine(request.param))
    yield made
    made.close()


def test_a_releases_own_publisher_is_followed_and_its_pool_agrees(child: Child, tmp_path: Path) -> None:
    """From the middle of its stream on, with lost batches and a reset, recorded."""
    recording, cached = tmp_path / "stream", tmp_path / "map.json"
    child.do("step 30")
    with Listener([child.endpoint]) as listener, Recorder(recording) as recorder:
        time.sleep(0.3)  # What is published until the subscription has reached it comes with the replay.
        for words in ("step 50", "lose 3", "step 30", "reset", "step 30"):
            child.do(words)
        checker = heard(listener, Checker(), 30 + 50 + 3 + 30 + 1 + 30, recorder)
    assert checker.tally.batches == 144
    assert not checker.faults, checker.faults.first
    assert not checker.tally.unjudged
    assert checker.tally.replayed >= 33
    assert not checker.tally.unknown
    cached.write_text(json.dumps(child.do("map")))
    assert cli.run(["events", str(recording)]) == 0
    assert cli.run(["events", "diff", str(recording), str(cached)]) == 0
    child.do("step 1")
    cached.write_text(json.dumps(child.do("map")))
    assert cli.run(["events", "diff", str(recording), str(cached)]) == 1


def test_known_faults_of_a_release_show_in_its_stream(child: Child) -> None:
    """B15, and tokens of blocks that are not stored."""
    with Listener([child.endpoint]) as listener:
        time.sleep(0.3)
        for words in ("reset", "twice", "window"):
            child.do(words)
        checker = heard(listener, Checker(), child.batches)
    assert {rule for rule, _ in checker.faults.counts} == {"P12", "E3"}
    assert checker.faults.counts["P12", "removed before the last copy"] == 2
    assert checker.faults.counts["E3", "tokens"] == 1
