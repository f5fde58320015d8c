"""The scheduler's side of asynchronous offload: all rules through random steps, with real payload."""

import random

import pytest

from kvproof.refimpl.payload import prefix_digests
from kvproof.refimpl.pool.blocks import blocks_for, lookup_limit
from kvproof.refimpl.pool.keys import chain_keys
from tests.refimpl.offload_rig import BLOCK_TOKENS, DIALECTS, Rig, check, flood


class Chaos(Rig):
    """Random legal steps on a tiny system; after each, what must hold is looked at from outside."""

    def __init__(self, seed: int, **options) -> None:
        super().__init__(**options)
        self.rng = random.Random(seed)
        self.tokens: dict[int, list[int]] = {}
        self.names = 0
        self.failures = True
        self.known: dict[int, int] = {}
        """How many positions of a request, from the first, have content that it relies on."""
        self.full_before: dict[int, int] = {}
        """How many offers had met a full host when a request came in."""
        self.met: set[bytes] = set()
        """What the host has, had, or is to get."""

    def step(self) -> None:
        rng, manager = self.rng, self.manager
        inside = [name for name in self.tokens if manager.is_inside(name)]
        choice = rng.choice([0, 1, 2, 2, 3, 3, 4, 4, 4, 5, 5, 6, 6, 7, 7, 8, 8, 8, 9])
        if choice == 0 and len(self.tokens) < 3:
            self.names += 1
            self.tokens[self.names] = [rng.randrange(2) for _ in range(rng.choice([1, 3, 5, 7, 8, 8]))]
        elif choice == 1:
            for name in self.tokens:
                if name not in inside:
                    manager.admit(name, blocks_for(len(self.tokens[name]), BLOCK_TOKENS))
                    self.hit(name)
        elif choice in (2, 3) and inside:
            self.grow(rng.choice(inside))
        elif choice == 4 and inside:
            self.compute_one(rng.choice(inside))
        elif choice == 5:
            for block in [*manager.snapshot().computing]:
                if rng.random() < 0.7:
                    manager.processed(block)
        elif choice == 6 and not manager.lazy and inside:
            manager.offer(rng.choice(inside), rng.randrange(4))
        elif choice == 6 and manager.lazy:
            self.scan()
        elif choice == 7 and inside:
            self.leave(rng.choice(inside))
        elif choice == 8:
            self.work()
        elif choice == 9 and rng.random() < 0.3:
            flood(manager)
        elif choice == 9 and rng.random() < 0.1:
            manager.evict(rng.randrange(1, manager.pool.num_blocks))

    def hit(self, name) -> None:
        tokens = self.tokens[name]
        hits = self.manager.hit(name, chain_keys(tokens, BLOCK_TOKENS), lookup_limit(len(tokens), BLOCK_TOKENS))
        self.known[name] = hits
        self.full_before[name] = self.manager.offer_stats.host_full

    def grow(self, name) -> None:
        tokens, manager = self.tokens[name], self.manager
        keys = chain_keys(tokens, BLOCK_TOKENS)
        length = manager.num_positions(name)
        if length == self.known[name] and not manager.is_loading(name):
            found = manager.look(name, keys, max(length, lookup_limit(len(tokens), BLOCK_TOKENS)))
            if found and self.rng.random() < 0.9 and manager.load(name, self.rng.randint(1, found)):
                return
        if length < manager.need(name):
            manager.allocate(name, 1)

    def settle_loads(self) -> None:
        """After reports: what was loaded is relied on, and registered."""
        for name, tokens in self.tokens.items():
            if not self.manager.is_inside(name) or self.manager.is_loading(name):
                continue
            keys = chain_keys(tokens, BLOCK_TOKENS)
            table, external = self.manager.table(name), self.manager.snapshot().external[name]
            while external and self.known[name] < len(table) and self.is_external(name, self.known[name]):
                position = self.known[name]
                parent = keys[position - 1] if position else None
                if position == 0 or parent in self.manager.pool.keys_of(table[position - 1]):
                    self.manager.register(name, position, keys[position], parent, BLOCK_TOKENS)
                self.known[name] += 1

    def is_external(self, name, position) -> bool:
        return position in self.manager._tiers[name].external

    def compute_one(self, name) -> None:
        tokens, position = self.tokens[name], self.known[name]
        if position >= self.manager.num_positions(name) or self.manager.is_loading(name):
            return
        first = position * BLOCK_TOKENS
        digests = prefix_digests(tokens)[first : first + BLOCK_TOKENS]
        self.manager.write_run(name, first, digests)
        keys = chain_keys(tokens, BLOCK_TOKENS)
        parent = keys[position - 1] if position else None
        if position < len(keys):
            self.manager.register(name, position, keys[position], parent, BLOCK_TOKENS)
        self.known[name] += 1

    def scan(self) -> None:
        manager = self.manager
        before = manager.snapshot()
        worth = [block for block in before.pool.free if manager._worth_storing(block) is not None]
        manager.scan(self.rng.randrange(1, 7))
        begun = [number for number in manager.snapshot().stores if number not in before.stores]
        stored = [pair[0] for number in begun for pair in manager.snapshot().stores[number].pairs]
        assert stored[:1] == worth[: len(stored[:1])], "the first that is worth it"
        assert stored == worth[: len(stored)] or len(before.host.free) < manager.host.num_blocks or before.host.keys

    def leave(self, name) -> None:
        manager = self.manager
        computing = manager.snapshot().computing
        table = manager.table(name)
        is_done = self.known[name] == manager.need(name) and not computing.intersection(table)
        if is_done and not manager.is_loading(name):
            carried = [key for block in table for key in manager.pool.keys_of(block)]
            filed = [key for key in manager.snapshot().filed[name] if key in carried]
            manager.finish(name)
            self.note_what_the_host_met()
            assert manager.lazy or manager.offer_stats.host_full > self.full_before[name] or self.met >= set(filed), (
                "O9"
            )
            del self.tokens[name]
        elif self.rng.random() < 0.3:
            manager.preempt(name)
        elif self.rng.random() < 0.1:
            manager.finish(name, abort=True)
            del self.tokens[name]

    def note_what_the_host_met(self) -> None:
        shown = self.manager.snapshot()
        self.met.update(shown.host.copies, *(store.keys for store in shown.stores.values()))

    def work(self) -> None:
        """Send, copy some, finish or fail some, deliver in any order, some twice."""
        self.send()
        reports = []
        for worker in self.workers:
            for transfer in worker.jobs:
                left = list(worker.uncopied(transfer))
                for pair, slot in self.rng.sample(left, self.rng.randint(0, len(left))):
                    worker.copy(transfer, pair, slot)
                if self.failures and self.rng.random() < 0.05:
                    worker.fail(transfer)
                elif not worker.uncopied(transfer):
                    worker.finish(transfer)
            reports += worker.poll()
        self.rng.shuffle(reports)
        for report in reports:
            assert self.manager.report(report)
            assert not self.manager.report(report)
            for name in self.tokens:
                if self.manager.is_inside(name):
                    self.known[name] = min(self.known[name], self.manager.num_positions(name))
            self.settle_loads()

    def settle_all(self) -> None:
        """L2: with nobody inside, transfers end by themselves."""
        self.failures = False
        for _ in range(1000):
            if not self.manager.pending:
                return
            self.work()
        raise AssertionError("a transfer never ends")

    def verify(self) -> None:
        check(self.manager)
        self.note_what_the_host_met()
        device, host = self.manager.snapshot().pool, self.manager.snapshot().host
        for payload, pool in [(self.device, device), (self.host, host)]:
            for block, keys in pool.keys.items():
                for key in keys:
                    digests = CONTENT.get(key)
                    assert digests is not None
                    assert all(payload.matches(block, slot, digest) for slot, digest in enumerate(digests)), "P6"


CONTENT: dict[bytes, list[int]] = {}


"""For each key of at most eight binary tokens: the digests of its block's tokens."""


for length in range(BLOCK_TOKENS, 9, BLOCK_TOKENS):
    for number in range(2**length):
        bits = [number >> index & 1 for index in range(length)]
        CONTENT[chain_keys(bits, BLOCK_TOKENS)[-1]] = prefix_digests(bits).tolist()[-BLOCK_TOKENS:]


@pytest.mark.parametrize("seed", range(12))
def test_all_rules_hold_through_random_steps(seed):
    rng = random.Random(seed)
    chaos = Chaos(
        seed,
        device_blocks=rng.randint(6, 9),
        host_blocks=rng.randint(1, 8),
        workers=rng.randint(1, 2),
        lazy=seed % 2 == 1,
        free_order=rng.choice(DIALECTS),
    )
    for _ in range(600):
        chaos.step()
        chaos.verify()
    for name in list(chaos.tokens):
        if chaos.manager.is_inside(name):
            chaos.manager.finish(name, abort=True)
    for block in chaos.manager.snapshot().computing:
        chaos.manager.processed(block)
    chaos.settle_all()
    assert chaos.manager.reset()
