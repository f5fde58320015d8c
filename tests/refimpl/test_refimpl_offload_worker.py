"""The worker's side of asynchronous offload: what is copied, when, and what is reported (O2, O7, P6)."""

import random
import threading
import time

import pytest
import torch

from kvproof.refimpl.errors import RefusedError
from kvproof.refimpl.offload import worker as worker_module
from kvproof.refimpl.offload.transfers import Load, Store, WorkerReport
from kvproof.refimpl.offload.worker import OffloadWorker, SteppedWorker, make_workers, split_layers, step_at_random

CUDA = torch.cuda.is_available()
DEVICES = [
    "cpu",
    pytest.param("cuda", marks=[pytest.mark.gpu, pytest.mark.skipif(not CUDA, reason="needs a CUDA device")]),
]


def tiers(device: str = "cpu", layers: int = 4) -> tuple[torch.Tensor, torch.Tensor]:
    """Two tiers whose elements all differ: five device blocks and seven host blocks of three slots."""
    here = torch.arange(layers * 2 * 5 * 3 * 2 * 4).float().reshape(layers, 2, 5, 3, 2, 4).to(device)
    there = -torch.arange(layers * 2 * 7 * 3 * 2 * 4).float().reshape(layers, 2, 7, 3, 2, 4)
    return here, there.pin_memory() if device == "cuda" else there


def wait_for(workers, count: int) -> list[WorkerReport]:
    """Poll until so many reports came, or for a minute: who waits so long waits for nothing."""
    reports: list[WorkerReport] = []
    deadline = time.monotonic() + 60
    while len(reports) < count and time.monotonic() < deadline:
        for worker in workers:
            reports += worker.poll()
    return reports


def close(workers) -> None:
    for worker in workers:
        worker.close()


# Workers that copy by themselves.


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("count", [1, 2, 3])
def test_each_worker_copies_its_layers_and_reports_once(device, count):
    here, there = tiers(device)
    wanted_there, wanted_here = there.clone(), here.cpu().clone()
    wanted_there[:, :, [6, 0]] = here.cpu()[:, :, [1, 3]]
    wanted_here[:, :, [4, 2]] = there[:, :, [2, 5]]
    workers = make_workers(here, there, count)
    for worker in workers:
        worker.submit([Store(0, ((1, 6), (3, 0))), Load(1, ((2, 4), (5, 2)))])
    reports = wait_for(workers, 2 * count)
    close(workers)
    assert sorted((report.worker, report.id) for report in reports) == [(w, t) for w in range(count) for t in (0, 1)]
    assert all(report.ok for report in reports)
    assert [worker.poll() for worker in workers] == [[]] * count
    assert torch.equal(there, wanted_there)
    assert torch.equal(here.cpu(), wanted_here)


@pytest.mark.parametrize("device", DEVICES)
def test_a_copy_that_fails_is_reported_and_others_go_on(device):
    here, there = tiers(device)
    (worker,) = make_workers(here, there, 1)
    before = there.clone()
    worker.submit([Store(0, ((1, 9),)), Store(1, ((1, 6),)), Load(2, ((9, 1),))])
    reports = wait_for([worker], 3)
    worker.close()
    assert sorted((report.id, report.ok) for report in reports) == [(0, False), (1, True), (2, False)]
    before[:, :, 6] = here.cpu()[:, :, 1]
    assert torch.equal(there, before)


@pytest.mark.parametrize("device", DEVICES)
def test_closing_ends_what_is_in_progress(device):
    here, there = tiers(device)
    (worker,) = make_workers(here, there, 1)
    worker.submit([])
    worker.submit([Store(number, ((1, 6),)) for number in range(20)])
    worker.close()
    worker.close()
    assert [report.id for report in worker.poll()] == list(range(20))
    with pytest.raises(RefusedError):
        worker.submit([])


def test_copies_in_a_thread_do_not_hold_up_who_submits(monkeypatch):
    may_go = threading.Event()
    threads = []

    def slow(source, destination, pairs):
        threads.append(threading.current_thread())
        may_go.wait(5)

    monkeypatch.setattr(worker_module, "copy_blocks", slow)
    (worker,) = make_workers(*tiers(), 1)
    worker.submit([Store(0, ((1, 6),))])
    assert worker.poll() == []
    may_go.set()
    assert wait_for([worker], 1) == [WorkerReport(0, 0)]
    worker.close()
    assert threads[0] is not threading.main_thread()
    assert threads[0].daemon, "a process that forgets to close its workers can end"
    assert not threads[0].is_alive()


def test_layers_are_split_as_views():
    data = torch.zeros(5, 2, 3, 2, 1, 4)
    parts = split_layers(data, 3)
    assert [len(part) for part in parts] == [2, 2, 1]
    for index, part in enumerate(parts):
        part += index
    assert data[:, 0, 0, 0, 0, 0].tolist() == [0, 0, 1, 1, 2]
    with pytest.raises(RefusedError):
        split_layers(data, 6)
    with pytest.raises(RefusedError):
        split_layers(data, 0)


@pytest.mark.parametrize("kind", [OffloadWorker, SteppedWorker])
def test_tiers_that_do_not_fit_are_refused(kind):
    here, there = tiers()
    for other in (there.double(), there[:2], there[:, :, :, :2], there[0], there.flatten()):
        with pytest.raises(RefusedError):
            kind(0, here, other)
    with pytest.raises(RefusedError):
        kind(0, here.flatten(), there)


@pytest.mark.parametrize(("device_blocks", "host_blocks"), [(1, 7), (5, 1), (1, 1)])
def test_a_tier_may_have_a_single_block(device_blocks, host_blocks):
    here, there = tiers()
    worker = SteppedWorker(0, here[:, :, :device_blocks], there[:, :, :host_blocks])
    worker.submit([Store(0, ((0, 0),))])
    for pair, slot in worker.uncopied(0):
        worker.copy(0, pair, slot)
    assert torch.equal(there[:, :, 0], here[:, :, 0])


# Workers that copy when they are told.


def test_a_stepped_worker_copies_slot_by_slot():
    here, there = tiers()
    worker = SteppedWorker(1, here, there)
    worker.submit([Store(3, ((1, 6), (2, 0))), Load(4, ((5, 4),))])
    assert worker.jobs == (3, 4)
    assert worker.uncopied(3) == tuple((pair, slot) for pair in (0, 1) for slot in (0, 1, 2))
    wanted = there.clone()
    worker.copy(3, 1, 2)
    wanted[:, :, 0, 2] = here[:, :, 2, 2]
    assert torch.equal(there, wanted)
    with pytest.raises(RefusedError):
        worker.copy(3, 1, 2)
    with pytest.raises(RefusedError):
        worker.finish(3)
    here[:, :, 1, 0] = 77  # A copy reads what stands there when it reads.
    for pair, slot in worker.uncopied(3):
        worker.copy(3, pair, slot)
    wanted[:, :, [6, 0]] = here[:, :, [1, 2]]
    assert torch.equal(there, wanted)
    assert worker.poll() == []
    worker.finish(3)
    worker.copy(4, 0, 1)
    assert torch.equal(here[:, :, 4, 1], there[:, :, 5, 1])
    worker.fail(4)
    assert worker.poll() == [WorkerReport(1, 3), WorkerReport(1, 4, ok=False)]
    assert worker.poll() == []
    assert not worker.jobs


@pytest.mark.parametrize(
    "call",
    [
        lambda worker: worker.uncopied(1),
        lambda worker: worker.copy(1, 0, 0),
        lambda worker: worker.copy(0, 1, 0),
        lambda worker: worker.copy(0, 0, 3),
        lambda worker: worker.copy(0, 0, -1),
        lambda worker: worker.finish(1),
        lambda worker: worker.fail(1),
    ],
)
def test_a_stepped_worker_refuses_what_is_not_to_be_done(call):
    here, there = tiers()
    before = here.clone(), there.clone()
    worker = SteppedWorker(0, here, there)
    worker.submit([Store(0, ((1, 6),))])
    with pytest.raises(RefusedError):
        call(worker)
    assert torch.equal(here, before[0])
    assert torch.equal(there, before[1])
    assert len(worker.uncopied(0)) == 3
    worker.close()
    assert worker.jobs == ()


# On a GPU.


def delay() -> None:
    """Keep the current stream busy for some hundred milliseconds."""
    torch.cuda._sleep(1_000_000_000)


@pytest.mark.gpu
@pytest.mark.skipif(not CUDA, reason="needs a CUDA device")
def test_a_store_reads_what_the_model_wrote_before():
    here, there = tiers("cuda")
    (worker,) = make_workers(here, there, 1)
    worker.submit([Store(0, ((2, 2),)), Load(1, ((3, 3),))])  # Compiles the kernels.
    wait_for([worker], 2)
    delay()
    here[:, :, 1] = 77
    begun = time.monotonic()
    worker.submit([Store(2, ((1, 6),))])
    assert worker.poll() == []
    assert time.monotonic() - begun < 0.1, "nobody waits for the stream"
    assert wait_for([worker], 1) == [WorkerReport(0, 2)]
    assert bool((there[:, :, 6] == 77).all())
    worker.close()


@pytest.mark.gpu
@pytest.mark.skipif(not CUDA, reason="needs a CUDA device")
def test_a_load_waits_for_who_still_reads_its_block():
    here, there = tiers("cuda")
    (worker,) = make_workers(here, there, 1)
    worker.submit([Load(0, ((3, 3),))])
    wait_for([worker], 1)
    wanted = here[:, :, 1].clone()
    delay()
    read = here[:, :, 1].clone()
    worker.submit([Load(1, ((5, 1),))])
    assert wait_for([worker], 1) == [WorkerReport(0, 1)]
    torch.cuda.synchronize()
    assert torch.equal(read, wanted)
    assert torch.equal(here[:, :, 1].cpu(), there[:, :, 5])
    worker.close()


@pytest.mark.gpu
@pytest.mark.skipif(not CUDA, reason="needs a CUDA device")
def test_a_gpu_needs_pinned_memory():
    here, there = tiers("cuda")
    with pytest.raises(RefusedError):
        OffloadWorker(0, here, there.clone())


@pytest.mark.parametrize("failures", [0.0, 1.0])
def test_a_step_at_random_fails_as_often_as_it_is_told_to(failures):
    workers = [SteppedWorker(index, *tiers()) for index in range(2)]
    for worker in workers:
        worker.submit([Store(0, ((1, 6),)), Load(1, ((2, 4),))])
    reports = []
    rng = random.Random(0)
    for _ in range(20):
        step_at_random(workers, rng, failures=failures)
        reports += [report for worker in workers for report in worker.poll()]
    assert sorted((report.worker, report.id) for report in reports) == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert {report.ok for report in reports} == {failures == 0.0}


def test_a_step_at_random_copies_something_or_nothing():
    left = set()
    for seed in range(20):
        here, there = tiers()
        worker = SteppedWorker(0, here, there)
        worker.submit([Store(0, ((1, 6),))])
        step_at_random([worker], random.Random(seed))
        left |= {len(worker.uncopied(transfer)) for transfer in worker.jobs} or {0}
    assert left == {0, 1, 2, 3}
