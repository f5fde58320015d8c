"""Block copies: every path moves exactly the bytes that it names, and all leave the same bits."""

import ctypes
import importlib.util
import os
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kvproof.kernels import copy as copies
from kvproof.kernels import copy_engine

SHAPE = (2, 2, 5, 3, 2, 4)
CUDA = torch.cuda.is_available()


def cache(device: str = "cpu", blocks: int = 5, dtype: torch.dtype = torch.float32, pin: bool = False) -> torch.Tensor:
    """A cache whose elements all differ."""
    shape = (*SHAPE[:2], blocks, *SHAPE[3:])
    tensor = torch.arange(torch.Size(shape).numel()).to(dtype).reshape(shape).to(device)
    return tensor.pin_memory() if pin else tensor


def check_copy(source: torch.Tensor, destination: torch.Tensor, path: copies.Path = "auto") -> None:
    pairs = [(4, 0), (1, 6), (1, 2)]
    wanted = destination.cpu().clone()
    for origin, target in pairs:
        wanted[:, :, target] = source.cpu()[:, :, origin]
    copies.copy_blocks(source, destination, pairs, path=path)
    if CUDA:
        torch.cuda.synchronize()
    assert torch.equal(destination.cpu(), wanted)


def check_write(tensor: torch.Tensor) -> None:
    values = torch.rand(3, 2, 2, 2, 4).to(tensor)
    wanted = tensor.cpu().clone()
    for index, (block, slot) in enumerate([(4, 2), (0, 0), (4, 1)]):
        wanted[:, :, block, slot] = values[index].cpu()
    copies.write_slots(tensor, [4, 0, 4], [2, 0, 1], values)
    assert torch.equal(tensor.cpu(), wanted)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_blocks_and_slots_on_the_cpu(dtype):
    check_copy(cache(dtype=dtype), torch.full_like(cache(blocks=7, dtype=dtype), -1))
    check_write(cache(dtype=dtype))


def test_gathering_is_a_copy_in_order():
    source = cache()
    gathered = copies.gather_blocks(source, [3, 0, 3])
    assert torch.equal(gathered, source[:, :, [3, 0, 3]])
    gathered.zero_()
    assert torch.equal(source, cache())
    assert copies.gather_blocks(source, []).shape == (2, 2, 0, 3, 2, 4)


def test_nothing_to_do_is_nothing_done():
    source = cache()
    copies.copy_blocks(source, source, [])
    copies.write_slots(source, [], [], torch.zeros(0, 2, 2, 2, 4))
    assert torch.equal(source, cache())


def test_within_one_tensor_blocks_move_aside():
    tensor = cache()
    copies.copy_blocks(tensor, tensor, [(0, 3), (0, 4)])
    assert torch.equal(tensor[:, :, 3], cache()[:, :, 0])
    assert torch.equal(tensor[:, :, :3], cache()[:, :, :3])


def random_bits(shape: tuple[int, ...], dtype: torch.dtype, seed: int) -> torch.Tensor:
    """A tensor of any bits: not-a-numbers of every kind too, which no copy may make one of."""
    count = torch.Size(shape).numel() * dtype.itemsize
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 256, (count,), dtype=torch.uint8, generator=generator).view(dtype).reshape(shape)


def bits(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.cpu().contiguous().view(torch.uint8)


@st.composite
def copies_to_make(draw: st.DrawFn) -> tuple[torch.Tensor, torch.Tensor, list[tuple[int, int]]]:
    """Two cache tensors, or one twice, and pairs of blocks: often such as continue each other."""
    layers, tokens, heads, dim = (draw(st.integers(1, most)) for most in (3, 3, 2, 5))
    dtype = draw(st.sampled_from([torch.float32, torch.bfloat16, torch.float64, torch.int8]))
    counts = draw(st.integers(1, 9)), draw(st.integers(1, 9))
    source, destination = (random_bits((layers, 2, n, tokens, heads, dim), dtype, n) for n in counts)
    if draw(st.booleans()):
        destination, counts = source, (counts[0], counts[0])
    targets = draw(st.permutations(list(range(counts[1]))))
    pairs: dict[int, int] = {}
    for _ in range(draw(st.integers(0, 4))):
        if not targets:
            break
        origin, target = draw(st.integers(0, counts[0] - 1)), targets.pop()
        for step in range(draw(st.integers(1, 4))):
            if origin + step < counts[0] and (not step or target + step in targets):
                pairs[target + step] = origin + step
                if step:
                    targets.remove(target + step)
    if source is destination:
        pairs = {target: origin for target, origin in pairs.items() if origin not in pairs}
    return source, destination, draw(st.permutations([(origin, target) for target, origin in pairs.items()]))


@given(copies_to_make())
def test_the_paths_leave_the_same_bits(case):
    source, destination, pairs = case
    wanted = destination.clone()
    for origin, target in pairs:
        wanted[:, :, target] = source[:, :, origin].clone()
    for path in ("auto", "kernel", "engine"):
        to = destination.clone()
        copies.copy_blocks(to if source is destination else source, to, pairs, path=path)
        assert torch.equal(bits(to), bits(wanted)), path


@given(copies_to_make())
def test_runs_are_the_pairs_and_cannot_be_joined(case):
    _, _, pairs = case
    runs = copy_engine.coalesce(pairs)
    spelled = [(run.source + step, run.destination + step) for run in runs for step in range(run.blocks)]
    assert sorted(spelled) == sorted(pairs)
    assert len(spelled) == len(pairs)
    ends = {(run.source + run.blocks, run.destination + run.blocks) for run in runs}
    assert ends.isdisjoint((run.source, run.destination) for run in runs)


def test_a_run_is_one_copy_per_plane(monkeypatch):
    made = []
    copy = torch.Tensor.copy_

    def counted(to, source, non_blocking=False):
        assert to.is_contiguous()
        assert source.is_contiguous()
        made.append((source.shape[0], non_blocking))
        return copy(to, source, non_blocking)

    monkeypatch.setattr(torch.Tensor, "copy_", counted)
    pairs = [(2, 5), (0, 3), (1, 4), (4, 0)]  # blocks 0 to 2 to 3 to 5, and one alone
    copies.copy_blocks(cache(), cache(blocks=7), pairs, path="engine")
    planes = SHAPE[0] * SHAPE[1]
    assert made == [(1, True)] * planes + [(3, True)] * planes


@pytest.fixture
def strided_calls(monkeypatch):
    """The strided path without a card: the runtime's call moves rows of plain memory. Returns the calls' row counts."""
    made = []

    def rows(to, to_pitch, source, source_pitch, width, height, kind, stream):
        for row in range(height):
            ctypes.memmove(to + row * to_pitch, source + row * source_pitch, width)
        made.append(height)
        return 0

    monkeypatch.setattr(copy_engine, "_strided_copy", lambda: rows)
    monkeypatch.setattr(copy_engine, "moves_planes_at_once", lambda source, destination: True)
    monkeypatch.setattr(torch.cuda, "device", lambda device: nullcontext())
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: SimpleNamespace(cuda_stream=0))
    return made


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(copies_to_make())
def test_a_strided_copy_leaves_the_same_bits(strided_calls, case):
    source, destination, pairs = case
    wanted, to = destination.clone(), destination.clone()
    for origin, target in pairs:
        wanted[:, :, target] = source[:, :, origin].clone()
    strided_calls.clear()
    copies.copy_blocks(to if source is destination else source, to, pairs, path="engine")
    assert torch.equal(bits(to), bits(wanted))
    assert strided_calls == [2 * len(source)] * copy_engine.count_runs(pairs)


def test_a_copy_that_the_runtime_refuses_is_told(strided_calls, monkeypatch):
    monkeypatch.setattr(copy_engine, "_strided_copy", lambda: lambda *arguments: 12)
    with pytest.raises(RuntimeError, match=r"refuses a copy of Run\(source=4.*error 12 of cudaMemcpy2DAsync"):
        copies.copy_blocks(cache(), cache(blocks=7), [(4, 0)], path="engine")


def test_between_processors_no_copy_is_strided():
    assert not copy_engine.moves_planes_at_once(cache(), cache())


def test_what_continues_on_one_side_only_is_not_joined():
    assert copy_engine.coalesce([(0, 1), (1, 0)]) == [(1, 0, 1), (0, 1, 1)]
    assert copy_engine.coalesce([(0, 0), (0, 1), (2, 2)]) == [(0, 0, 1), (0, 1, 1), (2, 2, 1)]
    assert copy_engine.coalesce([]) == []


def test_the_engine_pays_for_large_pieces():
    apart, together = [(0, 2), (2, 0)], [(0, 4), (1, 5)]
    most = copies.ENGINE_FROM_BYTES
    assert copies.engine_pays(most, apart)
    assert [copy_engine.count_runs(pairs) for pairs in (apart, together, [])] == [2, 1, 0]
    assert not copies.engine_pays(most - 1, apart)
    assert copies.engine_pays(most // 2, together)
    assert not copies.engine_pays(most // 2 - 1, together)


def test_staging_buffers_are_filled_and_emptied():
    pool = cache()
    staging = torch.zeros(2, 2, 3, 3, 2, 4)
    assert copies.gather_blocks(pool, [3, 0, 3], out=staging) is staging
    assert torch.equal(staging, pool[:, :, [3, 0, 3]])
    into = torch.zeros_like(pool)
    copies.scatter_blocks(into, [1, 4, 0], staging)
    assert torch.equal(into[:, :, [1, 4, 0]], staging)
    assert not into[:, :, [2, 3]].any()


NEEDS_CUDA = [pytest.mark.gpu, pytest.mark.skipif(not CUDA, reason="needs a CUDA device")]


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=NEEDS_CUDA)])
@pytest.mark.parametrize("path", ["auto", "kernel", "engine"])
def test_empty_blocks_are_no_error(path, device):
    empty = torch.zeros(2, 2, 5, 3, 0, 4, device=device)
    copies.copy_blocks(empty, empty.clone(), [(0, 1)], path=path)
    copies.write_slots(empty, [0], [0], torch.zeros(1, 2, 2, 0, 4, device=device))


def test_memory_shared_in_part_is_refused():
    """Blocks of two views of one memory have other addresses than their ids tell."""
    memory = torch.arange(3 * 2 * 5 * 24.0).reshape(3, 2, 5, 3, 2, 4)
    before = memory.clone()
    for path in ("auto", "kernel", "engine"):
        with pytest.raises(ValueError, match="share part"):
            copies.copy_blocks(memory[:2], memory[1:], [(0, 1)], path=path)
    assert torch.equal(memory, before)
    copies.copy_blocks(memory[:1], memory[1:2], [(0, 0)], path="engine")  # neighbours share nothing
    assert torch.equal(memory[1, :, 0], before[0, :, 0])


@pytest.mark.parametrize(
    "call",
    [
        pytest.param(lambda t: copies.copy_blocks(t, t, [(0, 1), (1, 2)]), id="source and destination"),
        pytest.param(lambda t: copies.copy_blocks(t, t.clone(), [(0, 1), (2, 1)]), id="destination twice"),
        pytest.param(lambda t: copies.copy_blocks(t, t.clone(), [(-1, 1)]), id="negative source"),
        pytest.param(lambda t: copies.copy_blocks(t, t.clone(), [(0, 5)]), id="destination out of range"),
        pytest.param(lambda t: copies.copy_blocks(t, t.double(), [(0, 1)]), id="another dtype"),
        pytest.param(lambda t: copies.copy_blocks(t, t[:1].contiguous(), [(0, 1)]), id="another shape"),
        pytest.param(lambda t: copies.copy_blocks(t, t.transpose(3, 4), [(0, 1)]), id="not contiguous"),
        pytest.param(lambda t: copies.copy_blocks(t, t.clone(), [(0, 1)], path="dma"), id="no path"),  # type: ignore[arg-type]
        pytest.param(
            lambda t: copies.copy_blocks(t, t.clone(), [(0, 1), (2, 1)], path="engine"), id="destination twice, engine"
        ),
        pytest.param(lambda t: copies.copy_blocks(t, t, [(0, 1), (1, 2)], path="engine"), id="both, engine"),
        pytest.param(lambda t: copies.gather_blocks(t, [0], out=t.clone()), id="staging of another size"),
        pytest.param(lambda t: copies.scatter_blocks(t, [0, 0], t[:, :, :2].contiguous()), id="scattered twice"),
        pytest.param(lambda t: copies.scatter_blocks(t, [0], t.clone()), id="scattered from another size"),
        pytest.param(lambda t: copies.write_slots(t, [0, 0], [1, 1], torch.zeros(2, 2, 2, 2, 4)), id="slot twice"),
        pytest.param(lambda t: copies.gather_blocks(t, [5]), id="gather out of range"),
        pytest.param(lambda t: copies.gather_blocks(t[0], [0]), id="no cache tensor"),
        pytest.param(lambda t: copies.write_slots(t, [0], [3], torch.zeros(1, 2, 2, 2, 4)), id="slot out of range"),
        pytest.param(lambda t: copies.write_slots(t, [-1], [0], torch.zeros(1, 2, 2, 2, 4)), id="negative block"),
        pytest.param(lambda t: copies.write_slots(t, [0, 1], [0], torch.zeros(2, 2, 2, 2, 4)), id="too few slots"),
        pytest.param(
            lambda t: copies.write_slots(t, [0], [0], torch.zeros(1, 2, 2, 2, 3)), id="values of another shape"
        ),
        pytest.param(
            lambda t: copies.write_slots(t, [0], [0], torch.zeros(1, 2, 2, 2, 4).double()), id="values of another dtype"
        ),
    ],
)
def test_what_does_not_fit_is_refused_and_nothing_is_moved(call):
    tensor = cache()
    with pytest.raises(ValueError, match=r"."):
        call(tensor)
    assert torch.equal(tensor, cache())


def test_without_triton_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "triton", None)
    monkeypatch.delitem(sys.modules, "kvproof.kernels.triton_copy", raising=False)
    monkeypatch.delattr("kvproof.kernels.triton_copy", raising=False)
    with pytest.raises(RuntimeError, match="pip install triton"):
        copies._triton_copy()


INTERPRETED = """
import torch
from kvproof.kernels import copy, triton_copy
torch.manual_seed(0)
for dtype, dim in [(torch.float32, 4), (torch.bfloat16, 3), (torch.float16, 600), (torch.float64, 1)]:
    source = torch.rand(2, 2, 5, 3, 2, dim).to(dtype)
    destination = torch.rand(2, 2, 7, 3, 2, dim).to(dtype)
    wanted = destination.clone()
    wanted[:, :, [0, 6, 2]] = source[:, :, [4, 1, 1]]
    triton_copy.copy_blocks(source, destination, torch.tensor([4, 1, 1]), torch.tensor([0, 6, 2]))
    assert torch.equal(destination, wanted), (dtype, dim)
    values = torch.rand(3, 2, 2, 2, dim).to(dtype)
    wanted = source.clone()
    wanted[:, :, [4, 0, 4], [2, 0, 1]] = values.permute(1, 2, 0, 3, 4)
    triton_copy.write_slots(source, torch.tensor([14, 0, 13]), values)
    assert torch.equal(source, wanted), (dtype, dim)

# Any bits, several chunks to a run (2048 words of 8 bytes at most), and the paths of the CPU beside the kernel.
for dtype, dim in [(torch.bfloat16, 4), (torch.int8, 2731), (torch.float64, 999), (torch.float32, 1365)]:
    def bits(blocks):
        size = 2 * 2 * blocks * 3 * 2 * dim * dtype.itemsize
        return torch.randint(0, 256, (size,), dtype=torch.uint8).view(dtype).reshape(2, 2, blocks, 3, 2, dim)
    source, destination = bits(6), bits(8)
    pairs = [(2, 4), (3, 5), (0, 7), (0, 1), (4, 6)]
    tables = torch.tensor(pairs).T.contiguous()
    results = [destination.clone() for _ in range(3)]
    triton_copy.copy_blocks(source, results[0], tables[0], tables[1])
    copy.copy_blocks(source, results[1], pairs)
    copy.copy_blocks(source, results[2], pairs, path="engine")
    assert not torch.equal(results[0].view(torch.uint8), destination.view(torch.uint8))
    for result in results[1:]:
        assert torch.equal(results[0].view(torch.uint8), result.view(torch.uint8)), (dtype, dim)
"""


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="needs Triton (its interpreter, no GPU)")
def test_the_triton_kernel_in_its_interpreter():
    answer = subprocess.run(
        [sys.executable, "-c", INTERPRETED], env={**os.environ, "TRITON_INTERPRET": "1"}, capture_output=True, text=True
    )
    assert answer.returncode == 0, answer.stderr


@pytest.mark.gpu
@pytest.mark.skipif(not CUDA, reason="needs a CUDA device")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("path", ["auto", "kernel", "engine"])
@pytest.mark.parametrize("pin", [False, True])
@pytest.mark.parametrize(("source", "destination"), [("cuda", "cuda"), ("cuda", "cpu"), ("cpu", "cuda")])
def test_blocks_between_devices(source, destination, pin, path, dtype):
    origin = cache(source, dtype=dtype, pin=pin and source == "cpu")
    target = torch.full_like(cache(blocks=7, dtype=dtype), -1).to(destination)
    target = target.pin_memory() if pin and destination == "cpu" else target
    if path != "auto" and not pin and "cpu" in (source, destination):
        with pytest.raises(ValueError, match="pageable"):
            copies.copy_blocks(origin, target, [(0, 0)], path=path)
    else:
        check_copy(origin, target, path)


@pytest.mark.gpu
@pytest.mark.skipif(not CUDA, reason="needs a CUDA device")
@given(copies_to_make())
def test_cuda_leaves_the_bits_that_the_cpu_leaves(case):
    source, destination, pairs = case
    wanted = destination.clone()
    copies.copy_blocks(wanted if source is destination else source, wanted, pairs)
    host = source.pin_memory()
    for path in ("kernel", "engine"):
        on_card = destination.cuda()
        copies.copy_blocks(on_card if source is destination else host, on_card, pairs, path=path)
        assert torch.equal(bits(on_card), bits(wanted)), path
        if source is not destination:
            to = destination.pin_memory()
            copies.copy_blocks(source.cuda(), to, pairs, path=path)
            torch.cuda.synchronize()
            assert torch.equal(bits(to), bits(wanted)), path


@pytest.mark.gpu
@pytest.mark.skipif(not CUDA, reason="needs a CUDA device")
def test_staging_on_cuda():
    pool = cache("cuda")
    staging = torch.zeros(2, 2, 3, 3, 2, 4, device="cuda")
    copies.gather_blocks(pool, [3, 0, 3], out=staging)
    assert torch.equal(staging, pool[:, :, [3, 0, 3]])
    copies.scatter_blocks(pool, [1, 4, 2], staging)
    assert torch.equal(pool[:, :, [1, 4, 2]], staging)


@pytest.mark.gpu
@pytest.mark.skipif(not CUDA, reason="needs a CUDA device")
@pytest.mark.parametrize("path", ["kernel", "engine"])
@pytest.mark.parametrize(("source", "destination"), [("cuda", "cuda"), ("cuda", "cpu"), ("cpu", "cuda")])
def test_nothing_waits_for_the_device(source, destination, path):
    """What is queued behind other work is queued at once: an engine's step does not stop for it.

    Tables of ids of more than 64 KiB are what CUDA copies from pageable memory only when the device comes to it.
    """
    blocks, some = 20_000, 200
    shape = (1, 2, blocks, 1, 1, 8)
    origin, target = (torch.zeros(shape, dtype=torch.int16, device=where) for where in (source, destination))
    origin = origin.pin_memory() if source == "cpu" else origin
    target = target.pin_memory() if destination == "cpu" else target
    pairs = [(block, blocks - 1 - block) for block in range(blocks if path == "kernel" else some)]
    copies.copy_blocks(origin, target, pairs, path=path)  # compiles, and makes what is reused
    torch.cuda.synchronize()
    work, done = torch.cuda._sleep, torch.cuda.Event()
    work(4_000_000_000)  # some two seconds
    done.record()
    copies.copy_blocks(origin, target, pairs, path=path)
    assert not done.query(), "the copy was queued only after the device had come to it"
    torch.cuda.synchronize()


@pytest.mark.gpu
@pytest.mark.skipif(not CUDA, reason="needs a CUDA device")
def test_slots_on_cuda():
    check_write(cache("cuda"))
    check_write(cache("cuda", dtype=torch.bfloat16))


@pytest.mark.slow
@pytest.mark.skipif(CUDA, reason="there is a CUDA device")
def test_the_benchmark_wants_a_card():
    script = Path(__file__).parents[2] / "benchmarks" / "block_copies.py"
    answer = subprocess.run([sys.executable, str(script)], capture_output=True, text=True)
    assert answer.returncode == 2
    assert answer.stdout == ""
    assert answer.stderr == "block copies are measured on a CUDA device, and torch finds none here\n"
