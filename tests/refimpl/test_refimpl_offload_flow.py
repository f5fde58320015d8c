"""Whole requests with asynchronous offload: every token's KV and every attention output is what it is without it."""

import random
from collections.abc import Callable
from typing import Any
from unittest.mock import Mock

import pytest
import torch

from kvproof.refimpl.attention import dense_attention, paged_attention
from kvproof.refimpl.errors import RefusedError
from kvproof.refimpl.events import BlockStored
from kvproof.refimpl.offload.flow import OffloadEngine, OffloadFlow
from kvproof.refimpl.offload.manager import OffloadManager
from kvproof.refimpl.offload.records import OfferStats
from kvproof.refimpl.offload.transfers import Load, Message, WorkerReport
from kvproof.refimpl.offload.worker import SteppedWorker, make_workers, split_layers, step_at_random
from kvproof.refimpl.payload import Payload
from kvproof.refimpl.pool.block_pool import BlockPool
from kvproof.refimpl.pool.keys import chain_keys
from tests.refimpl.offload_rig import copy_all

BLOCK_TOKENS = 4
DEVICES = [
    "cpu",
    pytest.param(
        "cuda",
        marks=[pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")],
    ),
]


@pytest.fixture(autouse=True)
def one_thread():
    """The tensors are tiny: more threads only wait for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


class Counting(OffloadManager):
    """A manager that counts the blocks that were loaded."""

    loaded = 0

    def take_messages(self) -> list[Message]:
        messages = super().take_messages()
        self.loaded += sum(len(message.pairs) for message in messages if isinstance(message, Load))
        return messages


class Served:
    """An engine with real payload, which checks each request after each step of it."""

    def __init__(
        self,
        device_blocks: int = 9,
        host_blocks: int = 12,
        *,
        workers: int = 1,
        lazy: bool = False,
        free_order="split",
        kind: str = "stepped",
        device: str = "cpu",
        seed: int | None = 0,
        failures: float = 0.0,
        **options,
    ) -> None:
        self.device = Payload(device_blocks, BLOCK_TOKENS, layers=2, heads=2, head_dim=4, device=device)
        self.host = Payload(host_blocks, BLOCK_TOKENS, layers=2, heads=2, head_dim=4, pin_memory=device == "cuda")
        self.manager = Counting(
            BlockPool(device_blocks, free_order=free_order),
            block_tokens=BLOCK_TOKENS,
            payload=self.device,
            host=BlockPool(host_blocks, null_block=False, free_order=free_order),
            workers=workers,
            lazy=lazy,
        )
        self.flow = OffloadFlow(self.manager)
        drive: Callable[[], object] | None = None
        self.stepped: list[SteppedWorker] = []
        if kind == "stepped":
            parts = zip(split_layers(self.device.data, workers), split_layers(self.host.data, workers), strict=True)
            self.stepped = [SteppedWorker(index, here, there) for index, (here, there) in enumerate(parts)]
            rng = random.Random(seed)
            drive = lambda: step_at_random(self.stepped, rng, failures=failures)  # noqa: E731
        self.copying = self.stepped or make_workers(self.device.data, self.host.data, workers)
        self.engine = OffloadEngine(
            self.flow,
            self.copying,
            seed=seed,
            scan_blocks=4 if lazy else 0,
            drive=drive,
            on_computed=self.look_at,
            **options,
        )
        self.attended: dict[tuple[Any, ...], torch.Tensor] = {}

    @property
    def loaded(self) -> int:
        return self.manager.loaded

    def look_at(self, name) -> None:
        """P6 for every token of the request; and attention of the last tokens, as over the contiguous sequence."""
        assert self.flow.mismatches(name) == []
        count = self.flow.num_computed(name)
        expected = self.device.expected(self.flow.digests(name)[:count]).permute(1, 2, 0, 3, 4)
        queries = torch.linspace(-1, 1, 2 * 4, device=expected.device).reshape(1, 2, 4)
        for layer in range(2):
            paged = paged_attention(queries, self.device.data, layer, self.manager.table(name), count)
            assert torch.equal(paged, dense_attention(queries, *expected[layer]))
            self.attended[name, count, layer] = paged.cpu()

    def run(self) -> None:
        self.engine.run()
        assert not self.engine.is_busy
        assert self.manager.num_inside == 0
        for worker in self.copying:
            worker.close()
        assert self.manager.reset()
        assert self.manager.pool.num_free == self.manager.pool.usable
        assert self.manager.host.num_free == self.manager.host.num_blocks


def conversation(rng: random.Random, names: int, *, vocabulary: int = 2, longest: int = 20) -> list[tuple[Any, ...]]:
    """Requests that share prefixes: each goes on from a piece of one before it."""
    requests: list[tuple[Any, ...]] = []
    for name in range(names):
        stem = list(rng.choice(requests)[1]) if requests and rng.random() < 0.7 else []
        stem = stem[: rng.randrange(len(stem) + 1)]
        tokens = [*stem, *(rng.randrange(vocabulary) for _ in range(rng.randrange(1, longest)))][:longest]
        requests.append((name, tokens, [rng.randrange(vocabulary) for _ in range(rng.randrange(4))]))
    return requests


# One thing at a time.


def after_each_step(served: Served, look: Callable[[bool], Any], monkeypatch) -> list[Any]:
    """What is seen after each step of the engine, by who is told whether anything moved."""
    seen, step = list[Any](), served.engine.step

    def looked() -> bool:
        moved = step()
        seen.append(look(moved))
        return moved

    monkeypatch.setattr(served.engine, "step", looked)
    return seen


def through(served: Served, name, tokens, output=()) -> None:
    assert served.engine.add(name, tokens, output)
    served.engine.run()


@pytest.mark.parametrize("kind", ["stepped", "thread"])
@pytest.mark.parametrize("device", DEVICES)
def test_a_prefix_that_the_device_lost_is_loaded(kind, device):
    served = Served(kind=kind, device=device)
    through(served, 1, range(17))
    through(served, 2, range(100, 132))  # Takes all eight blocks.
    through(served, 3, range(17))
    assert served.loaded == 4
    through(served, 4, range(18))
    assert served.loaded == 4, "what was loaded is found on the device"
    assert served.manager.stats.hits == 4
    served.run()


def test_o6_the_last_token_is_always_computed():
    served = Served()
    through(served, 1, range(16))
    through(served, 2, range(100, 132))
    through(served, 3, range(16))
    assert served.loaded == 3


def test_a_step_whose_blocks_are_all_loaded_takes_no_others():
    served = Served()
    through(served, 1, range(17))
    through(served, 2, range(100, 132))
    served.flow.add_request(3, range(17))
    assert served.flow.schedule(3, budget_tokens=2 * BLOCK_TOKENS) == 0
    assert served.manager.num_positions(3) == 2
    assert served.flow.is_loading(3)


def test_others_go_on_while_a_request_waits_for_its_load():
    served = Served(device_blocks=12, host_blocks=20, seed=None)
    through(served, 1, range(9))
    through(served, 2, range(100, 144))
    engine, flow = served.engine, served.flow
    engine._drive = None  # The workers stand still.
    engine.add("waits", range(9))
    engine.add("goes on", [1, 2, 3], [4, 5, 6])
    for _ in range(8):
        engine.step()
    assert flow.is_loading("waits")
    assert "goes on" not in flow._requests
    with pytest.raises(RefusedError):
        flow.compute("waits")
    (worker,) = served.stepped
    assert len(worker.jobs) == 2, "a load, and the store of the finished one"
    for transfer in worker.jobs:
        for pair, slot in worker.uncopied(transfer):
            worker.copy(transfer, pair, slot)
        worker.finish(transfer)
    engine.run()
    served.run()


def test_without_payload_too_nothing_is_computed_before_a_load_is_complete():
    host = BlockPool(8, null_block=False)
    flow = OffloadFlow(OffloadManager(BlockPool(5), block_tokens=BLOCK_TOKENS, host=host))
    for name, tokens in [(1, range(9)), (2, range(100, 116)), (3, range(9))]:
        flow.add_request(name, tokens)
        assert flow.schedule(name) == 0
        if name < 3:
            flow.compute(name)
            flow.process()
            flow.finish(name)
            for message in flow.offload.take_messages():
                assert flow.report(WorkerReport(0, message.id))
    assert flow.is_loading(3)
    before = flow.manager.snapshot()
    with pytest.raises(RefusedError):
        flow.compute(3)
    assert flow.num_computed(3) == 0
    assert flow.manager.snapshot() == before
    (message,) = flow.offload.take_messages()
    assert flow.report(WorkerReport(0, message.id))
    assert not flow.is_loading(3)
    assert flow.num_computed(3) == 8
    assert flow.compute(3) == 1


def test_p12_what_was_loaded_is_told_to_listeners_as_a_chain():
    served = Served()
    through(served, 1, range(17))
    through(served, 2, range(100, 132))
    served.manager.take_events()
    through(served, 3, range(17))
    told = [event for event in served.manager.take_events() if isinstance(event, BlockStored)]
    keys = chain_keys(range(17), BLOCK_TOKENS)
    assert [(event.key, event.parent) for event in told] == list(zip(keys, [None, *keys], strict=False))


def test_o4_blocks_are_stored_while_their_request_runs():
    served = Served(seed=None, step_tokens=4)
    served.engine.add(1, range(13))
    served.engine.step()
    assert served.manager.offer_stats.stored == 0, "the first step is not processed yet"
    served.engine.step()
    assert served.manager.offer_stats.stored == 1
    served.engine.step()
    assert served.manager.offer_stats.stored == 2
    served.run()


def test_o4_no_position_is_offered_before_its_block_is_full():
    """Whatever was offered before: a position that is passed over would have to be offered once more."""
    served = Served(seed=None, step_tokens=4)
    served.engine.add(1, range(15))
    for _ in range(3):
        served.engine.step()
    assert served.manager.num_offered(1) == 2
    assert served.manager.offer_stats == OfferStats(stored=2)
    served.run()


@pytest.mark.parametrize("seed", [None, 0])
def test_a_run_tells_how_many_steps_it_took(seed, monkeypatch):
    served = Served(seed=seed)
    steps = after_each_step(served, bool, monkeypatch)
    for name in range(3):
        served.engine.add(name, range(9), [1, 2])
    assert served.engine.run() == len(steps) > 0


def test_a_step_offers_what_others_computed_too_when_one_has_left():
    served = Served(seed=None)
    served.engine.add(1, range(5))
    served.engine.add(2, range(10, 15), [7, 7])
    served.engine.step()
    served.engine.abort(1)
    served.engine.step()
    assert served.manager.offer_stats.stored == 1
    served.run()


def test_o4_only_a_step_that_computed_something_scans(monkeypatch):
    served = Served(lazy=True, seed=None)
    scan = Mock(wraps=served.manager.scan)
    monkeypatch.setattr(served.manager, "scan", scan)
    served.engine.add(1, range(9))
    scanned = []
    while served.engine.is_busy:
        scan.reset_mock()
        assert served.engine.step(), "a departure moves something too"
        scanned.append(scan.call_count)
    assert scanned == [1, 0], "the second step only lets the request go"


def test_o9_nothing_of_a_request_that_was_preempted_behind_its_step_is_offered():
    served = Served()
    flow = served.flow
    assert flow.add_request(1, range(9))
    assert flow.schedule(1) == 0
    flow.compute(1)
    flow.preempt(1)
    flow.process()
    assert served.manager.offer_stats.stored == 0


def test_o9_a_request_leaves_only_when_all_of_its_steps_are_processed():
    served = Served()
    flow = served.flow
    assert flow.add_request(1, range(9))
    assert flow.schedule(1) == 0
    flow.compute(1, 4)
    flow.process()
    flow.compute(1)
    with pytest.raises(RefusedError, match="not processed"):
        flow.finish(1)


def test_an_admission_alone_is_a_move():
    """A request that begins to load computes nothing in that step."""
    served = Served(host_blocks=20)
    through(served, 1, range(9))
    through(served, 2, range(100, 132))
    served.engine._drive = None
    assert served.engine.add(3, range(9))
    assert served.engine.step()
    assert served.flow.is_loading(3)


def test_tokens_that_were_computed_are_a_move():
    """Also where nothing comes from the workers, nobody is let in, and nobody leaves."""
    served = Served(seed=None, step_tokens=4)
    served.engine._drive = None
    assert served.engine.add(1, range(13))
    for count in (4, 8, 12):
        assert served.engine.step()
        assert served.flow.num_computed(1) == count


def test_tokens_of_an_older_request_are_a_move_where_a_younger_one_found_no_room():
    served = Served(device_blocks=5, seed=None)
    served.engine._drive = None
    assert served.engine.add(1, range(5), [5, 6, 7])
    assert served.engine.add(2, range(10, 18), [18])  # The next token takes a third block.
    served.engine.step()
    assert served.engine.step()
    assert served.engine.preemptions == 1
    assert served.flow.num_computed(1) == 6


def test_a_step_in_which_a_request_only_gave_up_its_blocks_moved_nothing():
    """It needs one that a store of another still holds, and there is nobody younger to take it from."""
    served = Served(device_blocks=5, seed=None)
    served.engine._drive = None
    assert served.engine.add(1, range(8))
    for _ in range(2):
        served.engine.step()
    assert served.manager.num_inside == 0
    assert served.engine.add(2, range(10, 18), [18])
    assert [served.engine.step() for _ in range(2)] == [True, False]
    assert served.engine.preemptions == 1


def test_a_single_report_is_a_move():
    served = Served(seed=None)
    served.engine._drive = None
    served.engine.add(1, range(9))
    for _ in range(3):
        served.engine.step()
    assert not served.engine.step()
    (worker,) = served.stepped
    (transfer,) = worker.jobs
    copy_all(worker, transfer)
    worker.finish(transfer)
    assert served.engine.step()


def test_who_came_first_is_let_in_first():
    served = Served(device_blocks=4, seed=None)
    for name in (1, 2):
        assert served.engine.add(name, range(10 * name, 10 * name + 9))
    served.engine.step()
    assert [served.manager.is_inside(name) for name in (1, 2)] == [True, False]
    served.run()


def test_who_was_preempted_comes_back_before_those_who_were_never_in():
    served = Served(device_blocks=5, seed=None)

    def copy_at_once() -> None:
        (worker,) = served.stepped
        for transfer in worker.jobs:
            copy_all(worker, transfer)
            worker.finish(transfer)

    served.engine._drive = copy_at_once
    assert served.engine.add(1, range(5), [5, 6, 7])
    assert served.engine.add(2, range(10, 18), [18])
    assert served.engine.add(3, range(20, 25))
    inside = []
    for _ in range(3):
        served.engine.step()
        inside.append([name for name in (1, 2, 3) if served.manager.is_inside(name)])
    assert inside == [[1, 2], [1], [1, 2]]
    served.run()


def test_o4_nothing_is_scanned_where_a_request_found_no_room_to_compute():
    """The first part of its load failed; others still hold the blocks that it would need, and it goes back to wait."""
    served = Served(device_blocks=6, lazy=True, seed=None)
    through(served, 1, range(17))
    assert served.manager.scan(9) == 4
    served.engine.run()
    through(served, 2, range(100, 117))  # Takes all five blocks.
    served.manager.max_pairs = 1
    served.engine._drive = None
    served.engine.add(3, range(17))
    served.engine.step()
    (worker,) = served.stepped
    assert len(worker.jobs) == 4
    worker.fail(worker.jobs[0])
    before = served.manager.snapshot()
    served.engine.step()
    assert served.engine.preemptions == 1
    assert not served.manager.is_inside(3)
    after = served.manager.snapshot()
    assert (after.stores, after.cursor, after.stats) == (before.stores, before.cursor, before.stats)


def test_a_request_that_waits_may_leave():
    served = Served()
    assert served.flow.add_request(1, range(9))
    served.flow.finish(1)
    served.run()


def test_preemptions_are_counted(monkeypatch):
    served = Served(device_blocks=9, host_blocks=20, step_tokens=3)
    preempt = Mock(wraps=served.flow.preempt)
    monkeypatch.setattr(served.flow, "preempt", preempt)
    for name, tokens, output in conversation(random.Random(0), 30):
        served.engine.add(name, tokens, output)
    served.run()
    assert served.engine.preemptions == preempt.call_count > 0


@pytest.mark.parametrize(("seed", "are_late"), [(0, True), (None, False)])
def test_with_a_seed_some_reports_are_taken_late(seed, are_late, monkeypatch):
    served = Served(workers=2, seed=seed)
    left = after_each_step(served, lambda _: len(served.engine._reports), monkeypatch)
    for name, tokens, output in conversation(random.Random(0), 10):
        served.engine.add(name, tokens, output)
    served.run()
    assert any(left) == are_late


@pytest.mark.parametrize(("seed", "in_turn"), [(None, True), (0, False), (1, False)])
def test_with_a_seed_reports_are_taken_in_another_order_than_they_came(seed, in_turn, monkeypatch):
    served = Served(seed=seed)
    reports = [WorkerReport(0, number) for number in range(20)]
    polls, taken = iter([list(reports)]), list[WorkerReport]()
    monkeypatch.setattr(SteppedWorker, "poll", lambda worker: next(polls, []))
    monkeypatch.setattr(served.flow, "report", taken.append)
    for _ in reports:
        served.engine.step()
    assert sorted(taken, key=lambda report: report.id) == reports
    assert (taken == reports) == in_turn


def test_a_stall_is_told_after_so_many_steps_in_a_row_in_which_nothing_moved(monkeypatch):
    served = Served(seed=None)
    served.engine._drive = None
    moved = after_each_step(served, bool, monkeypatch)
    served.engine.add(1, range(9))
    with pytest.raises(RuntimeError, match="stalled"):
        served.engine.run(max_idle=3)
    assert moved[-5:] == [True, False, False, False, False]


def test_who_waits_for_workers_that_move_by_themselves_leaves_them_the_processor(monkeypatch):
    served, slept = Served(seed=None), Mock()
    monkeypatch.setattr("kvproof.refimpl.offload.flow.time.sleep", slept)
    served.engine._drive = None
    served.engine.add(1, range(9))
    with pytest.raises(RuntimeError, match="stalled"):
        served.engine.run(max_idle=3)
    assert slept.call_count == 3  # The fourth idle step is one too many.


def test_who_moves_the_workers_itself_is_not_kept_waiting(monkeypatch):
    served, slept = Served(seed=None), Mock()
    monkeypatch.setattr("kvproof.refimpl.offload.flow.time.sleep", slept)
    served.engine._drive = lambda: None
    served.engine.add(1, range(9))
    with pytest.raises(RuntimeError, match="stalled"):
        served.engine.run(max_idle=3)
    slept.assert_not_called()


def test_o8_the_engine_goes_on_stepping_for_transfers_without_any_request():
    served = Served(seed=None)
    engine = served.engine
    drive, engine._drive = engine._drive, None
    engine.add(1, range(9))
    for _ in range(3):
        engine.step()
    assert "1" not in served.flow._requests
    assert served.manager.num_inside == 0
    assert engine.is_busy
    assert not engine.step()
    with pytest.raises(RuntimeError, match="stalled"):
        engine.run(max_idle=3)
    engine._drive = drive
    served.run()


def test_o9_a_request_is_flushed_with_the_blocks_of_its_last_step():
    """B10: what the last step completes is stored although the request finishes right after it."""
    served = Served()
    through(served, 1, range(6), [6, 7, 8])
    assert served.manager.offer_stats.stored == 2
    through(served, 2, range(100, 132))
    through(served, 3, range(9))
    assert served.loaded == 2
    # Without an offer before the end, the flush alone does it.
    flow = served.flow
    flow.add_request("late", range(200, 208))
    flow.schedule("late")
    flow.compute("late")
    with pytest.raises(RefusedError):
        flow.finish("late")
    served.manager.processed_run("late")
    stored = served.manager.offer_stats.stored
    flow._written.clear()
    flow.finish("late")
    assert served.manager.offer_stats.stored == stored + 2


def test_o11_a_request_whose_load_fails_computes_what_it_wanted():
    served = Served(seed=None)
    through(served, 1, range(17))
    through(served, 2, range(100, 132))
    served.engine._drive = None
    served.engine.add(3, range(17))
    served.engine.step()
    assert served.flow.is_loading(3)
    (worker,) = served.stepped
    (transfer,) = worker.jobs
    worker.copy(transfer, 0, 0)
    worker.fail(transfer)
    served.engine.step()
    assert not served.flow.is_loading(3)
    assert served.flow.num_computed(3) == 17, "computed in the step that learnt of it"
    assert served.manager.num_external(3) == 0


def test_o8_abort_at_any_moment():
    """A request is aborted after every number of steps; nothing leaks, and those after it are right."""
    for moment in range(12):
        served = Served(seed=moment)
        through(served, 1, range(17))
        through(served, 2, range(100, 132))
        served.engine.add(3, range(17), [1] * 5)
        for _ in range(moment):
            served.engine.step()
        if 3 in served.flow._requests:
            served.engine.abort(3)
        through(served, 4, range(21))
        served.run()


def test_a_request_that_never_fits_is_turned_away():
    served = Served(device_blocks=3)
    assert not served.engine.add(1, range(9))
    assert not served.engine.is_busy
    with pytest.raises(RefusedError):
        OffloadEngine(served.flow, [])
    assert not served.flow.report(WorkerReport(0, 7))


# All of it.


@pytest.mark.parametrize("lazy", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_a_conversation_is_served_right_in_any_order_of_completions(seed, lazy):
    rng = random.Random(seed)
    served = Served(
        device_blocks=rng.randint(8, 12),
        host_blocks=rng.randint(4, 40),
        workers=rng.randint(1, 2),
        lazy=lazy,
        seed=seed,
        free_order=rng.choice(["append", "split"]),
        failures=rng.choice([0.0, 0.05]),
        step_tokens=rng.choice([None, 3, 8]),
    )
    requests = conversation(rng, 25)
    serve_and_compare(served, requests)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("lazy", [False, True])
def test_a_conversation_is_served_right_by_workers_that_copy_by_themselves(device, lazy):
    served = Served(host_blocks=40, kind="thread", device=device, workers=2, lazy=lazy, step_tokens=6)
    serve_and_compare(served, conversation(random.Random(9), 40))


def serve_and_compare(served: Served, requests: list[tuple[Any, ...]]) -> None:
    """Serve with offload and without (a host that has nothing, requests one by one): all outputs are equal.

    Both on one kind of device: a card's sums differ from a processor's in their last bits.
    """
    for number, (name, tokens, output) in enumerate(requests):
        assert served.engine.add(name, tokens, output)
        for _ in range(number % 5):
            served.engine.step()
    served.run()
    plain = Served(device_blocks=12, host_blocks=1, seed=None, device=served.device.data.device.type)
    for name, tokens, output in requests:
        through(plain, name, tokens, output)
        plain.manager.reset()
    assert plain.loaded == 0
    ends = {(name, len(tokens) + len(output), layer) for name, tokens, output in requests for layer in (0, 1)}
    for end in ends:
        assert torch.equal(served.attended[end], plain.attended[end])


def test_these_conversations_load_and_preempt():
    """So that the tests above are not empty."""
    loaded = preempted = 0
    for seed in range(4):
        served = Served(device_blocks=9, host_blocks=20, seed=seed, failures=0.05, step_tokens=3)
        for name, tokens, output in conversation(random.Random(seed), 30):
            served.engine.add(name, tokens, output)
        served.run()
        loaded += served.loaded
        preempted += served.engine.preemptions
    assert loaded > 10
    assert preempted > 3
