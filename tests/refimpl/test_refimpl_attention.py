"""Attention through a block table equals attention over the contiguous sequence, bit by bit."""

import pytest
import torch

from kvproof.refimpl.attention import dense_attention, paged_attention
from kvproof.refimpl.payload import Payload
from kvproof.refimpl.pool.block_pool import BlockPool
from kvproof.refimpl.pool.manager import KVCacheManager
from kvproof.refimpl.pool.request_flow import RequestFlow

DEVICES = [
    "cpu",
    pytest.param(
        "cuda",
        marks=[pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")],
    ),
]


def flow(device: str) -> RequestFlow:
    payload = Payload(12, 4, layers=2, heads=2, head_dim=8, device=device)
    return RequestFlow(KVCacheManager(BlockPool(12), block_tokens=4, payload=payload))


def payload_of(requests: RequestFlow) -> Payload:
    payload = requests.manager.payload
    assert payload is not None
    return payload


def outputs(requests: RequestFlow, name: str, layer: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The attention output of all tokens of a request: through its table, and from its tokens alone."""
    payload = payload_of(requests)
    expected = payload.expected(requests.digests(name))[:, layer]
    queries = expected[:, 0].flip(-1)
    table = requests.manager.table(name)
    paged = paged_attention(queries, payload.data, layer, table, requests.num_tokens(name))
    return paged, dense_attention(queries, expected[:, 0], expected[:, 1])


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("layer", [0, 1])
def test_paged_is_dense_with_and_without_hits(device, layer):
    requests = flow(device)
    prompt = list(range(14))
    for name, tokens in [("first", prompt), ("again", prompt), ("other end", [*prompt[:9], 99, 98])]:
        requests.add_request(name, tokens)
        hit = requests.schedule(name)
        assert hit is not None
        assert (hit > 0) == (name != "first")
        requests.compute(name)
        paged, dense = outputs(requests, name, layer)
        assert torch.equal(paged, dense)
        if name == "again":
            requests.finish("first")


def test_one_wrong_block_changes_the_output():
    requests = flow("cpu")
    requests.add_request("a", list(range(14)))
    requests.schedule("a")
    requests.compute("a")
    payload = payload_of(requests)
    table = requests.manager.table("a")
    payload.data[:, :, table[1]] = payload.data[:, :, table[2]]
    paged, dense = outputs(requests, "a", 0)
    assert torch.equal(paged[:4], dense[:4])  # Causal: nothing before the wrong block sees it.
    assert not torch.isclose(paged[4:], dense[4:]).all(-1).any()


def test_attention_is_causal_softmax():
    torch.manual_seed(0)
    queries, keys, values = (torch.randn(n, 2, 4, dtype=torch.float64) for n in (3, 5, 5))
    result = dense_attention(queries, keys, values)
    for row in range(3):
        for head in range(2):
            seen = 5 - 3 + row + 1
            weights = torch.softmax(keys[:seen, head] @ queries[row, head] / 2.0, 0)
            assert torch.allclose(result[row, head], weights @ values[:seen, head])


def test_a_request_of_no_tokens_attends_to_nothing():
    assert paged_attention(torch.zeros(0, 2, 4), torch.zeros(1, 2, 3, 4, 2, 4), 0, [], 0).shape == (0, 2, 4)


def test_shapes_that_do_not_fit_are_refused():
    cache = torch.zeros(1, 2, 3, 4, 2, 4)
    queries = torch.zeros(1, 2, 4)
    with pytest.raises(ValueError, match="do not fit"):
        paged_attention(queries, cache, 0, [1], 5)
    with pytest.raises(ValueError, match="layer 1"):
        paged_attention(queries, cache, 1, [1], 4)
    with pytest.raises(ValueError, match="do not fit"):
        dense_attention(torch.zeros(2, 2, 4), torch.zeros(1, 2, 4), torch.zeros(1, 2, 4))
    with pytest.raises(ValueError, match="do not fit"):  # One head would be taken for all of them.
        dense_attention(torch.zeros(1, 2, 4), torch.zeros(1, 1, 4), torch.zeros(1, 1, 4))
    with pytest.raises(ValueError, match="do not fit"):  # So would one value.
        dense_attention(torch.zeros(1, 2, 4), torch.zeros(3, 2, 4), torch.zeros(1, 2, 4))
