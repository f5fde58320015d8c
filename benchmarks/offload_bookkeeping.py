"""What asynchronous offload costs a scheduler: the reference implementation against a release of vLLM, by ratio.

    python benchmarks/offload_bookkeeping.py [vllm==0.33.0] [--requests 3000] [--rounds 5] [--json FILE]

Both sides serve one and the same sequence of requests in eager mode, each in its own interpreter, in turns; medians of
the rounds count. No bytes are moved: a transfer ends two steps after it was sent. Sixteen requests run at a time. Each
has a prompt of 64 blocks of 16 tokens, the first half of which is one of 64 prefixes, computes it in two steps, decodes
64 tokens one by one, and finishes; three in ten have the prompt of one of the last 400 requests. The host's pool has
8,192 blocks, half of what these 400 fill, the device's 2,048: so blocks are stored, evicted and loaded all the
time.

What is timed: of vLLM the five calls that its scheduler makes to `SimpleCPUOffloadScheduler`
(``get_num_new_matched_tokens``, ``update_state_after_alloc``, ``build_connector_meta``,
``request_finished_all_groups``, ``update_connector_output``), whole. Of the reference implementation every call to
`OffloadManager`, less what `KVCacheManager` takes inside it: that is the device's own bookkeeping, which is there
without offload too, and which vLLM does in calls that are not timed. Not timed on either side: hashing, tokens, the
loop around the calls. A clock that runs around calls of some hundred nanoseconds costs as much as they do, so its cost
is measured in the same process, on calls that do nothing, and taken off on both sides.

The cost is per scheduled block: per block that a request's table got, by hit, load or computation. Exit status 1 if
the ratio is above ``--limit``, or the two sides did not do the same work; 2 if the release is not installed.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import json
import os
import random
import statistics
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter_ns
from typing import Any

BLOCK = 16
PREFIX, OWN, DECODED = 32, 32, 64
"""Blocks of a prefix, blocks of a prompt behind it, and tokens that are decoded."""
RUNNING = 16
DEVICE, HOST = 2_048, 8_192
DELAY = 2
"""Steps that a transfer takes."""
CHUNK = 512
"""Tokens of one request in one step."""

READY = "ready"
"""What a side says when it has started and is warm."""

Counts = dict[str, int]


# ---------------------------------------------------------------------------------------------- the clock


class Clock:
    """Adds up what the calls of some objects take, each under its name, without what is taken out of it."""

    def __init__(self) -> None:
        self.spent: dict[str, int] = {}
        self.calls: dict[str, int] = {}
        self.inner: dict[str, int] = {}
        self._name: str | None = None

    def timed(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        """Return a call that is timed, unless it is made by one that is."""
        self.spent[name] = self.calls[name] = self.inner[name] = 0

        def run(*args: Any, **more: Any) -> Any:
            if self._name is not None:
                return call(*args, **more)
            self._name = name
            began = perf_counter_ns()
            try:
                return call(*args, **more)
            finally:
                self.spent[name] += perf_counter_ns() - began
                self.calls[name] += 1
                self._name = None

        return run

    def untimed(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """Return a call whose time is taken out of the one that makes it."""

        def run(*args: Any, **more: Any) -> Any:
            began = perf_counter_ns()
            try:
                return call(*args, **more)
            finally:
                took = perf_counter_ns() - began
                if self._name is not None:
                    self.spent[self._name] -= took
                    self.inner[self._name] += 1

        return run

    def reset(self) -> None:
        """Begin at 0."""
        for counts in (self.spent, self.calls, self.inner):
            counts.update(dict.fromkeys(counts, 0))

    def costs(self) -> dict[str, float]:
        """Nanoseconds by name, without what the clock itself takes."""
        outer, inner = _own_costs()
        return {name: self.spent[name] - outer * self.calls[name] - inner * self.inner[name] for name in self.spent}


def _own_costs(times: int = 20_000) -> tuple[float, float]:
    """What a clock adds to the time of a call, and what it adds for each call that is taken out of it."""
    clock = Clock()

    def nothing(_: None) -> None:
        return None

    inside = clock.untimed(nothing)

    def with_inside(_: None) -> None:
        inside(None)

    calls = {"none": nothing, "inside": with_inside}
    timed = {name: clock.timed(name, call) for name, call in calls.items()}
    outer, inner = [], []
    for _ in range(5):
        clock.reset()
        began = perf_counter_ns()
        for _ in range(times):
            nothing(None)
        plain = perf_counter_ns() - began
        for call in timed.values():
            for _ in range(times):
                call(None)
        # The call itself is no cost of the clock's, and is left in; of the loop around it some remains.
        outer.append((clock.spent["none"] - plain) / times)
        inner.append((clock.spent["inside"] - clock.spent["none"]) / times)
    return max(0.0, statistics.median(outer)), max(0.0, statistics.median(inner))


# ---------------------------------------------------------------------------------------------- the sequence


def prompts(count: int) -> list[tuple[int, int]]:
    """Return for each request which prefix its prompt has, and what makes the rest of it its own."""
    rng = random.Random(7)
    made: list[tuple[int, int]] = []
    for number in range(count):
        old = made and rng.random() < 0.3
        made.append(rng.choice(made[-400:]) if old else (min(63, int(rng.expovariate(0.06))), number))
    return made


def tokens_of(prefix: int, own: int) -> list[int]:
    """The tokens of a prompt."""
    return [1 + prefix] * (PREFIX * BLOCK) + [100 + own] * (OWN * BLOCK)


def serve(side: Any, count: int) -> Counts:
    """Let a side serve all requests; return how much was done."""
    waiting = deque((f"r{number}", tokens_of(*prompt)) for number, prompt in enumerate(prompts(count)))
    left: dict[str, int] = {}
    loading: set[str] = set()
    due: deque[tuple[int, list[str], Any]] = deque()
    total = {"blocks": 0, "stored": 0, "loaded": 0, "hit": 0}
    now = last = 0
    while waiting or left or now < last + 2 * DELAY:
        now += 1
        last = now if waiting or left else last
        scheduled: list[tuple[str, int]] = [(r, min(CHUNK, n)) for r, n in left.items() if r not in loading]
        for r, n in scheduled:
            side.grow(r, n)
        entering: list[str] = []
        while waiting and len(left) < RUNNING:
            r, tokens = waiting.popleft()
            hit, loaded, left[r] = side.enter(r, tokens)
            total["hit"] += hit
            total["loaded"] += loaded
            total["blocks"] += PREFIX + OWN + DECODED // BLOCK
            if loaded:
                loading.add(r)
                entering.append(r)
            else:
                scheduled.append((r, min(CHUNK, left[r])))
                side.grow(r, scheduled[-1][1])
        ticket, stored = side.plan(scheduled)
        total["stored"] += stored
        due.append((now + DELAY, entering, ticket))
        for r, n in scheduled:
            left[r] = side.computed(r, n, left[r] - n)
            if not left[r]:
                del left[r]
                side.finish(r)
        while due and due[0][0] <= now:
            _, loads, ticket = due.popleft()
            side.report(loads, ticket)
            loading.difference_update(loads)
    return total


class Reference:
    """The reference implementation."""

    OFFLOAD = ("admit", "hit", "allocate", "write_run", "processed", "register", "look", "load", "num_offered", "offer",
               "finish", "take_messages", "report")  # fmt: skip
    DEVICE = ("admit", "hit", "allocate", "write_run", "register", "finish")

    def __init__(self, clock: Clock) -> None:
        import torch

        from kvproof.refimpl.offload.manager import OffloadManager
        from kvproof.refimpl.offload.transfers import Store, WorkerReport
        from kvproof.refimpl.pool.keys import block_key
        from kvproof.refimpl.pool.manager import KVCacheManager

        for name in self.DEVICE:
            setattr(KVCacheManager, name, clock.untimed(getattr(KVCacheManager, name)))
        for name in self.OFFLOAD:
            setattr(OffloadManager, name, clock.timed(name, getattr(OffloadManager, name)))
        self._key, self._report, self._store = block_key, WorkerReport, Store
        self._zeros = torch.zeros(CHUNK, dtype=torch.int64)

    def begin(self) -> None:
        """Make everything anew."""
        from kvproof.refimpl.offload.manager import OffloadManager
        from kvproof.refimpl.pool.block_pool import BlockPool

        host = BlockPool(HOST - 1, null_block=False, events=False)
        self._manager = OffloadManager(BlockPool(DEVICE, events=False), block_tokens=BLOCK, host=host)
        self._keys: dict[str, list[bytes]] = {}
        self._tokens: dict[str, list[int]] = {}
        self._done: dict[str, int] = {}
        self._registered: dict[str, int] = {}
        self._written: dict[str, dict[int, None]] = {}

    def enter(self, r: str, tokens: list[int]) -> tuple[int, int, int]:
        """Let a request in; return how many blocks were hit, how many are loaded, and how many tokens are left."""
        manager = self._manager
        self._tokens[r], self._keys[r] = tokens[:], []
        self._hash(r)
        keys, limit = self._keys[r], (len(tokens) - 1) // BLOCK
        if not manager.admit(r, len(tokens) // BLOCK + DECODED // BLOCK):
            raise RuntimeError("the device is too small")
        hit = manager.hit(r, keys, limit)
        loaded = manager.look(r, keys, limit)
        if loaded and manager.load(r, loaded) is None:
            raise RuntimeError("the device is too small")
        self._registered[r], self._written[r] = hit, {}
        self._done[r] = (hit + loaded) * BLOCK
        return hit, loaded, len(tokens) - self._done[r]

    def grow(self, r: str, n: int) -> None:
        """Take room for tokens, which are written in this step."""
        manager, done = self._manager, self._done[r]
        more = -(-(done + n) // BLOCK) - manager.num_positions(r)
        if more > 0 and manager.allocate(r, more) is None:
            raise RuntimeError("the device is too small")
        manager.write_run(r, done, self._zeros[:n])
        self._written[r].update(dict.fromkeys(manager.table(r)[done // BLOCK : -(-(done + n) // BLOCK)]))
        self._register(r, done + n)

    def plan(self, _scheduled: list[tuple[str, int]]) -> tuple[list[int], int]:
        """Plan what a step copies; return what names it, and how many blocks are stored."""
        messages = self._manager.take_messages()
        stored = sum(len(message.pairs) for message in messages if isinstance(message, self._store))
        return [message.id for message in messages], stored

    def computed(self, r: str, n: int, left: int) -> int:
        """A step is done: what it completed is offered, as `OffloadFlow.process` does."""
        manager = self._manager
        for block in self._written[r]:
            manager.processed(block)
        self._written[r].clear()
        fresh = self._registered[r] - manager.num_offered(r)
        if fresh > 0:
            manager.offer(r, fresh)
        self._done[r] += n
        if left or len(self._tokens[r]) == (PREFIX + OWN) * BLOCK + DECODED:
            return left
        self._tokens[r].append(7)
        self._hash(r)
        return 1

    def finish(self, r: str) -> None:
        """A request leaves."""
        self._manager.finish(r, abort=True)

    def report(self, loads: list[str], ticket: list[int]) -> None:
        """What a step copied is there; what it loaded may be found."""
        for number in ticket:
            if not self._manager.report(self._report(0, number)):
                raise RuntimeError(f"transfer {number} was not waited for")
        for r in loads:
            self._register(r, self._done[r])

    def _register(self, r: str, tokens: int) -> None:
        keys = self._keys[r]
        for at in range(self._registered[r], tokens // BLOCK):
            self._manager.register(r, at, keys[at], keys[at - 1] if at else None, BLOCK)
        self._registered[r] = tokens // BLOCK

    def _hash(self, r: str) -> None:
        keys, tokens = self._keys[r], self._tokens[r]
        for at in range(len(keys), len(tokens) // BLOCK):
            keys.append(self._key(keys[-1] if keys else None, tokens[at * BLOCK : (at + 1) * BLOCK]))


class Vllm:
    """A release of vLLM: its scheduler's calls, by the helpers of the kit's worker."""

    OFFLOAD = ("get_num_new_matched_tokens", "update_state_after_alloc", "build_connector_meta",
               "request_finished_all_groups", "update_connector_output")  # fmt: skip

    def __init__(self, clock: Clock) -> None:
        engines = Path(__file__).resolve().parents[1] / "kvproof" / "engines"
        sys.path[:0] = [str(engines / "worker"), str(engines / "vllm" / "worker")]
        # By name: the modules are the engine's, which is not installed beside the kit.
        self._common = importlib.import_module("vllm_common")
        self._system_of = importlib.import_module("vllm_simple_system")
        self._over = importlib.import_module("vllm.v1.request").RequestStatus.FINISHED_STOPPED
        self._clock = clock

    def begin(self) -> None:
        """Make everything anew."""
        longest = (PREFIX + OWN) * BLOCK + DECODED
        setup = {
            "groups": [{"kind": "full", "block": BLOCK}],
            "blocks": DEVICE,
            "host": HOST,
            "lazy": False,
            "workers": 1,
            "budget": RUNNING * CHUNK,
            "max_len": longest + 1,
            "events": False,
        }
        self._system = self._system_of.System(setup)
        for name in self.OFFLOAD:
            setattr(self._system.offload, name, self._clock.timed(name, getattr(self._system.offload, name)))
        self._hasher = self._common.hasher(BLOCK)
        self._requests: dict[str, Any] = {}
        self._found: dict[str, tuple[Any, int]] = {}
        self._new: list[Any] = []
        self._cached: list[Any] = []
        self._seen: set[str] = set()
        self._ended: set[str] = set()

    def enter(self, r: str, tokens: list[int]) -> tuple[int, int, int]:
        """Let a request in; return how many blocks were hit, how many are loaded, and how many tokens are left."""
        request = self._common.make_request(r, tokens, block_hasher=self._hasher, max_tokens=DECODED)
        self._requests[r] = request
        blocks, local, external = self._system.lookup(request)
        left = len(tokens) - local - external
        if not self._system.admit(request, blocks, local, external, 0 if external else min(CHUNK, left)):
            raise RuntimeError("the device is too small")
        request.num_computed_tokens = local + external
        if not external:
            self._found[r] = blocks, local
        return local // BLOCK, external // BLOCK, left

    def grow(self, r: str, n: int) -> None:
        """Take room for tokens, which are written in this step."""
        manager, request = self._system.manager, self._requests[r]
        if r in self._seen:
            new = manager.allocate_slots(request, n)
            if new is None:
                raise RuntimeError("the device is too small")
            self._cached.append((r, new.get_block_ids(allow_none=True), False))
            return
        if self._found.pop(r, None) is None and manager.allocate_slots(request, n) is None:
            raise RuntimeError("the device is too small")
        self._seen.add(r)
        self._new.append((r, manager.get_block_ids(r)))

    def plan(self, scheduled: list[tuple[str, int]]) -> tuple[int, int]:
        """Plan what a step copies; return what names it, and how many blocks are stored."""
        output = self._system_of.scheduled(self._new, self._cached, dict(scheduled), set(), self._ended, {})
        plan = self._system.offload.build_connector_meta(output)
        self._new, self._cached, self._ended = [], [], set()
        return plan.store_event, len(plan.store_gpu_blocks)

    def computed(self, r: str, n: int, left: int) -> int:
        """A step is done."""
        request = self._requests[r]
        request.num_computed_tokens += n
        if left or request.num_output_tokens == DECODED:
            return left
        request.append_output_token_ids(7)
        return 1

    def finish(self, r: str) -> None:
        """A request leaves."""
        request = self._requests.pop(r)
        request.status = self._over
        self._system.finish(request)
        self._system.manager.free(request)
        self._ended.add(r)

    def report(self, loads: list[str], ticket: int) -> None:
        """What a step copied is there; what it loaded may be found."""
        if loads or ticket >= 0:
            self._system.report(set(loads), {ticket: 1} if ticket >= 0 else {})
        for r in loads:
            request = self._requests[r]
            self._system.manager.cache_blocks(request, request.num_computed_tokens)


# ---------------------------------------------------------------------------------------------- both sides


def be_side(name: str, requests: int) -> None:
    """Serve all requests, once per line of standard input; tell the counts and the costs in a line."""
    clock = Clock()
    side = (Reference if name == "refimpl" else Vllm)(clock)
    side.begin()
    serve(side, 40)
    print(READY, flush=True)
    for _ in sys.stdin:
        side.begin()
        clock.reset()
        gc.collect()
        gc.disable()
        counts = serve(side, requests)
        gc.enable()
        print(json.dumps({"counts": counts, "costs": clock.costs(), "calls": clock.calls}), flush=True)


@contextmanager
def running(python: str, environment: Mapping[str, str], side: str, requests: int) -> Iterator[subprocess.Popen[str]]:
    """Start a side in an interpreter of its own."""
    command = [python, str(Path(__file__).resolve()), "--side", side, "--requests", str(requests)]
    with subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            # Nothing is measured while the other side is still importing.
            assert process.stdout is not None
            if not any(line.strip() == READY for line in process.stdout):
                raise RuntimeError(f"{side} did not start")
            yield process
        finally:
            process.kill()


def ask(process: subprocess.Popen[str]) -> dict[str, Any]:
    """Have a side serve all requests."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("\n")
    process.stdin.flush()
    for line in process.stdout:
        if line.startswith('{"counts"'):
            return dict(json.loads(line))
    raise RuntimeError("a side ended without an answer")


def measure(target: str, requests: int, rounds: int) -> dict[str, Any]:
    """Run both sides in turns; return the medians, in nanoseconds per scheduled block.

    Raises:
        UsageError: the release is not installed.
    """
    from kvproof.cli.hunting import open_build

    build = open_build(target)
    there = build.environment()
    here = dict(os.environ) | {"OMP_NUM_THREADS": "1"}
    told: dict[str, list[dict[str, Any]]] = {"refimpl": [], "vllm": []}
    with (
        running(sys.executable, here, "refimpl", requests) as ours,
        running(str(build.python), there, "vllm", requests) as theirs,
    ):
        for _ in range(rounds):
            told["refimpl"].append(ask(ours))
            told["vllm"].append(ask(theirs))
    result: dict[str, Any] = {"target": target, "requests": requests, "rounds": rounds}
    for side, answers in told.items():
        blocks = answers[0]["counts"]["blocks"]
        result[side] = {
            "counts": answers[0]["counts"],
            "ns_per_block": statistics.median(sum(a["costs"].values()) / blocks for a in answers),
            "calls": {
                name: {
                    "ns_per_block": statistics.median(a["costs"][name] / blocks for a in answers),
                    "calls_per_block": calls / blocks,
                }
                for name, calls in answers[0]["calls"].items()
            },
        }
    pairs = zip(told["refimpl"], told["vllm"], strict=True)
    result["ratios"] = [sum(a["costs"].values()) / sum(b["costs"].values()) for a, b in pairs]
    result["ratio"] = statistics.median(result["ratios"])
    return result


def show(result: dict[str, Any]) -> None:
    """Print what was measured."""
    from rich.console import Console
    from rich.table import Table

    console = Console()
    for side in ("refimpl", "vllm"):
        table = Table("call", "ns/block", "calls/block", title=side if side == "refimpl" else result["target"])
        for name, call in sorted(result[side]["calls"].items(), key=lambda item: -item[1]["ns_per_block"]):
            table.add_row(name, f"{call['ns_per_block']:.0f}", f"{call['calls_per_block']:.3f}")
        table.add_row("all", f"{result[side]['ns_per_block']:.0f}", "", style="bold")
        console.print(table)
        console.print("  ".join(f"{name} {count:,}" for name, count in result[side]["counts"].items()))
    low, high = min(result["ratios"]), max(result["ratios"])
    console.print(f"ratio {result['ratio']:.2f} (rounds from {low:.2f} to {high:.2f})", highlight=False)


def main() -> int:
    """Measure, print and judge."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target", nargs="?", default="vllm==0.33.0")
    parser.add_argument("--requests", type=int, default=3000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--limit", type=float, default=1.0, help="the greatest ratio that passes")
    parser.add_argument("--json", metavar="FILE", help="write the numbers as JSON")
    parser.add_argument("--side", choices=("refimpl", "vllm"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.side:
        be_side(given.side, given.requests)
        return 0
    from kvproof.errors import UsageError

    try:
        result = measure(given.target, given.requests, given.rounds)
    except UsageError as error:
        print(error, file=sys.stderr)
        return 2
    if given.json:
        Path(given.json).write_text(json.dumps(result, indent=2) + "\n")
    show(result)
    ours, theirs = result["refimpl"]["counts"], result["vllm"]["counts"]
    if any(abs(ours[name] - theirs[name]) > 0.01 * theirs[name] for name in theirs):
        print("the two sides did not do the same work: the ratio means nothing", file=sys.stderr)
        return 1
    return int(result["ratio"] > given.limit)


if __name__ == "__main__":
    sys.exit(main())
