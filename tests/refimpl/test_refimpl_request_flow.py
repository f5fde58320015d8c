"""Whole requests: reuse, room, growth, preemption; what is read through a table is always the request's own KV (P6)."""

import random

import pytest

from kvproof.refimpl.errors import RefusedError
from kvproof.refimpl.events import BlockStored
from kvproof.refimpl.payload import Payload
from kvproof.refimpl.pool.block_pool import BlockPool
from kvproof.refimpl.pool.keys import ExtraKeys, MultimodalItem, chain_keys
from kvproof.refimpl.pool.manager import KVCacheManager, PrefixCacheStats
from kvproof.refimpl.pool.request_flow import RequestFlow


def make(num_blocks: int = 10, payload: bool = True, **options) -> RequestFlow:
    content = Payload(num_blocks, 4, layers=1, heads=1, head_dim=4) if payload else None
    return RequestFlow(KVCacheManager(BlockPool(num_blocks, **options), block_tokens=4, payload=content))


def serve(flow: RequestFlow, name, tokens, extras=ExtraKeys(), max_new_tokens=0) -> int:  # noqa: B008
    assert flow.add_request(name, tokens, extras, max_new_tokens)
    hit = flow.schedule(name)
    assert hit is not None
    assert flow.compute(name) == len(tokens) - hit
    assert flow.mismatches(name) == []
    return hit


def test_the_same_prefix_hits():
    flow = make()
    assert serve(flow, 1, range(10)) == 0
    assert serve(flow, 2, range(10)) == 8
    assert flow.manager.table(1)[:2] == flow.manager.table(2)[:2]
    assert flow.manager.stats == PrefixCacheStats(queries=4, hits=2)


def test_p14_the_last_token_is_always_computed():
    flow = make()
    serve(flow, 1, range(8))
    assert serve(flow, 2, range(8)) == 4


@pytest.mark.parametrize(
    "extras",
    [
        ExtraKeys(adapter="X"),
        ExtraKeys(salt="X"),
        ExtraKeys(prompt_embeds=b"X"),
        ExtraKeys(multimodal=(MultimodalItem("X", 0),)),
    ],
)
def test_p13_another_tenant_or_input_does_not_hit(extras):
    flow = make()
    for number, other in enumerate([ExtraKeys(), ExtraKeys(adapter="X"), ExtraKeys(salt="X")]):
        if other != extras:
            serve(flow, number, range(9), other)
            flow.finish(number)
    assert serve(flow, "own", range(9), extras) == 0
    assert serve(flow, "own again", range(9), extras) == 8


def test_a_request_that_never_fits_is_turned_away():
    flow = make(num_blocks=4)
    assert not flow.add_request(1, range(9), max_new_tokens=4)
    assert flow.add_request(1, range(9), max_new_tokens=3)


def test_p15_a_request_that_does_not_fit_now_changes_nothing():
    flow = make(num_blocks=6)
    serve(flow, 1, range(8))
    flow.finish(1)
    serve(flow, 2, range(100, 109))
    flow.add_request(3, range(12))
    # Both free hits count as taken: 2 of 2 free blocks, so nothing is left for the third block.
    before = flow.manager.snapshot()
    assert before.pool.num_free == 2
    assert flow.schedule(3) is None
    assert flow.manager.snapshot() == before
    flow.finish(2)
    assert flow.schedule(3) == 8


@pytest.mark.parametrize(
    "act",
    [
        lambda flow: flow.extend(1, 1),
        lambda flow: flow.compute(1),
        lambda flow: flow.append(1, 3),
        lambda flow: flow.preempt(1),
        lambda flow: flow.mismatches(1),
    ],
)
def test_a_request_that_waits_is_told_so(act):
    flow = make()
    flow.add_request(1, range(3), max_new_tokens=1)
    with pytest.raises(RefusedError, match="request 1 is not scheduled"):
        act(flow)


def test_p6_content_that_is_not_a_requests_own_is_told_by_its_tokens():
    flow = make()
    serve(flow, 1, range(10))
    payload, table = flow.manager.payload, flow.manager.table(1)
    assert payload is not None
    for token in (1, 6, 9):
        payload.write(table[token // 4], token % 4, 7)
    assert flow.mismatches(1) == [1, 6, 9]
    assert flow.mismatches(1, start=2) == [6, 9]


def test_growth_registers_what_it_fills():
    flow = make()
    serve(flow, 1, range(6), max_new_tokens=6)
    for token in range(6, 12):
        assert flow.append(1, token)
        assert flow.compute(1) == 1
    assert flow.mismatches(1) == []
    assert flow.keys(1) == tuple(chain_keys(range(12), 4))
    with pytest.raises(RefusedError):
        flow.append(1, 12)
    assert serve(flow, 2, range(13)) == 12


def test_growth_that_finds_no_block_changes_nothing():
    flow = make(num_blocks=4)
    serve(flow, 1, range(8), max_new_tokens=4)
    serve(flow, 2, [1])
    before = flow.manager.snapshot()
    assert not flow.append(1, 8)
    assert flow.num_tokens(1) == 8
    assert flow.manager.snapshot() == before


def test_a_preempted_request_comes_back_with_its_tokens_and_counts_once():
    flow = make()
    serve(flow, 1, range(6), max_new_tokens=6)
    for token in range(6, 9):
        flow.append(1, token)
    flow.compute(1)
    flow.preempt(1)
    assert flow.manager.num_inside == 0
    assert flow.num_computed(1) == 0
    stats = flow.manager.stats
    assert flow.schedule(1) == 8
    flow.compute(1)
    assert flow.mismatches(1) == []
    assert flow.manager.stats == stats


def test_p15_a_name_that_left_while_it_waited_counts_anew():
    flow = make()
    serve(flow, 1, range(9))
    flow.preempt(1)
    flow.finish(1)
    assert serve(flow, 1, range(9)) == 8
    assert flow.manager.stats == PrefixCacheStats(queries=4, hits=2)


def test_a_prompt_may_be_computed_in_chunks():
    flow = make()
    flow.add_request(1, range(11))
    flow.schedule(1)
    assert [flow.compute(1, 3) for _ in range(5)] == [3, 3, 3, 2, 0]
    assert flow.mismatches(1) == []
    assert serve(flow, 2, range(11)) == 8


def test_p12_a_prompt_in_chunks_is_reported_as_one_chain():
    flow = make()
    flow.add_request(1, range(17))
    flow.schedule(1)
    for _ in range(3):
        flow.compute(1, 7)
    keys = flow.keys(1)
    parents = [None, *keys[:-1]]
    assert flow.manager.take_events() == list(map(BlockStored, keys, parents, flow.manager.table(1)))


def test_a_block_is_not_hittable_before_it_is_computed():
    flow = make()
    flow.add_request(1, range(11))
    flow.schedule(1)
    flow.compute(1, 7)
    assert serve(flow, 2, range(11)) == 4


def test_ready_keys_stand_for_tokens_when_no_payload_is_kept():
    plain, hashed = make(payload=False), make(payload=False)
    for name, tokens in [(1, range(10)), (2, [*range(8), 1, 2, 3, 4]), (3, range(10))]:
        plain.add_request(name, tokens)
        hashed.add_hashed_request(name, len(tokens), chain_keys(tokens, 4))
        assert plain.schedule(name) == hashed.schedule(name)
        assert plain.compute(name) == hashed.compute(name)
        assert plain.manager.snapshot() == hashed.manager.snapshot()
    with pytest.raises(RefusedError):
        make().add_hashed_request(1, 4, [b"k"])
    with pytest.raises(RefusedError):
        hashed.add_hashed_request(9, 10, [b"k"])


@pytest.mark.parametrize("hashed", [False, True])
def test_a_request_generates_as_many_tokens_as_it_may(hashed):
    flow = RequestFlow(KVCacheManager(BlockPool(12), block_tokens=4)) if hashed else make()
    added = flow.add_hashed_request(1, 6, [b"k"], 2) if hashed else flow.add_request(1, range(6), max_new_tokens=2)
    assert added
    flow.schedule(1)
    flow.compute(1)
    for token in (6, 7):
        assert flow.append(1, token)
        flow.compute(1)
    with pytest.raises(RefusedError, match="has all of its 8 tokens"):
        flow.append(1, 8)


def test_without_caching_nothing_hits_and_content_is_right():
    flow = make(caching=False)
    assert serve(flow, 1, range(9)) == 0
    assert serve(flow, 2, range(9)) == 0


@pytest.mark.parametrize(
    "call",
    [
        lambda flow: flow.add_request("in", [1]),
        lambda flow: flow.add_request("new", []),
        lambda flow: flow.add_request("new", [1], max_new_tokens=-1),
        lambda flow: flow.schedule("in"),
        lambda flow: flow.schedule("nobody"),
        lambda flow: flow.compute("waiting"),
        lambda flow: flow.compute("in", -1),
        lambda flow: flow.append("waiting", 1),
        lambda flow: flow.preempt("waiting"),
        lambda flow: flow.finish("nobody"),
    ],
)
def test_illegal_calls_are_refused_and_change_nothing(call):
    flow = make()
    serve(flow, "in", range(6), max_new_tokens=2)
    flow.add_request("waiting", [1, 2])
    before = flow.manager.snapshot()
    with pytest.raises(RefusedError):
        call(flow)
    assert flow.manager.snapshot() == before


@pytest.mark.parametrize("free_order", ["append", "split"])
@pytest.mark.parametrize("seed", range(3))
def test_p1_and_p6_hold_through_a_random_service(free_order, seed):
    """Tiny vocabulary, few blocks, much sharing and preemption: every read is right, and nothing leaks."""
    rng = random.Random(seed)
    flow = make(num_blocks=9, free_order=free_order)
    known: list[int] = []
    for name in range(60):
        tokens = [rng.randrange(2) for _ in range(rng.randrange(1, 18))]
        if flow.add_request(name, tokens, ExtraKeys(salt=rng.choice([None, "s"])), rng.randrange(4)):
            known.append(name)
        for other in list(known):
            inside = flow.manager.is_inside(other)
            if not inside:
                flow.schedule(other)
            elif rng.random() < 0.3:
                flow.preempt(other)
            else:
                flow.compute(other, rng.randrange(1, 9))
                if rng.random() < 0.3:
                    flow.finish(other)
                    known.remove(other)
        for other in known:
            if flow.manager.is_inside(other):
                assert flow.mismatches(other) == []
        snapshot = flow.manager.snapshot()
        held = {block for table in snapshot.tables.values() for block in table}
        assert sorted([*snapshot.pool.free, *held]) == list(range(1, 9))
    for name in known:
        flow.finish(name)
    assert flow.manager.pool.num_free == 8
    assert flow.manager.stats.hits > 0
    assert flow.manager.reset()
