"""Block copies: every path moves exactly the bytes that it names."""

import importlib.util
import os
import subprocess
import sys

import pytest
import torch

from kvproof.kernels import copy as copies

SHAPE = (2, 2, 5, 3, 2, 4)
CUDA = torch.cuda.is_available()


def cache(device: str = "cpu", blocks: int = 5, dtype: torch.dtype = torch.float32, pin: bool = False) -> torch.Tensor:
    """A cache whose elements all differ."""
    shape = (*SHAPE[:2], blocks, *SHAPE[3:])
    tensor = torch.arange(torch.Size(shape).numel()).to(dtype).reshape(shape).to(device)
    return tensor.pin_memory() if pin else tensor


def check_copy(source: torch.Tensor, destination: torch.Tensor) -> None:
    pairs = [(4, 0), (1, 6), (1, 2)]
    wanted = destination.cpu().clone()
    for origin, target in pairs:
        wanted[:, :, target] = source.cpu()[:, :, origin]
    copies.copy_blocks(source, destination, pairs)
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
from kvproof.kernels import triton_copy
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
@pytest.mark.parametrize("pin", [False, True])
@pytest.mark.parametrize(("source", "destination"), [("cuda", "cuda"), ("cuda", "cpu"), ("cpu", "cuda")])
def test_blocks_between_devices(source, destination, pin, dtype):
    origin = cache(source, dtype=dtype, pin=pin and source == "cpu")
    target = torch.full_like(cache(blocks=7, dtype=dtype), -1).to(destination)
    check_copy(origin, target.pin_memory() if pin and destination == "cpu" else target)


@pytest.mark.gpu
@pytest.mark.skipif(not CUDA, reason="needs a CUDA device")
def test_slots_on_cuda():
    check_write(cache("cuda"))
    check_write(cache("cuda", dtype=torch.bfloat16))
