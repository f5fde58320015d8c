"""The KV of every token: a function of its whole prefix, exact in every dtype, compared for equality."""

import pytest
import torch

from kvproof.refimpl.payload import Payload, next_digest, prefix_digests, root_digest, token_vectors
from kvproof.refimpl.pool.keys import ExtraKeys, MultimodalItem

TOKENS = [5, 0, 2**32 - 1, 5, 77, 5]


def test_the_vectorised_digests_are_the_plain_ones():
    extras = ExtraKeys("lora", None, (MultimodalItem("image", 2), MultimodalItem("clip", 2)), None)
    digest, plain = root_digest(extras), []
    for index, token in enumerate(TOKENS):
        items = [item.identifier for item in extras.multimodal if item.offset == index]
        digest = next_digest(digest, token, items)
        plain.append(digest)
    assert prefix_digests(TOKENS, extras).tolist() == plain
    for count in range(len(TOKENS)):  # An item that begins behind these tokens is none of theirs.
        assert prefix_digests(TOKENS[:count], extras).tolist() == plain[:count]
    rest = prefix_digests(TOKENS[2:], extras, start=2, previous=plain[1])
    assert rest.tolist() == plain[2:]


def test_a_root_digest_is_a_signed_number_of_64_bits():
    """One that is not goes into no tensor: half of all salts would have such."""
    for salt in "abcdefgh":
        extras = ExtraKeys(None, salt, (), None)
        assert -(2**63) <= root_digest(extras) < 2**63
        assert prefix_digests([7], extras).tolist() == [next_digest(root_digest(extras), 7)]


def test_long_sequences_are_cut_into_chunks_that_nobody_notices():
    tokens = list(range(40_000))
    whole = prefix_digests(tokens)
    half = prefix_digests(tokens[20_001:], start=20_001, previous=int(whole[20_000]))
    assert torch.equal(whole[20_001:], half)
    assert len(whole.unique()) == 40_000


def test_going_on_from_nowhere_is_refused():
    with pytest.raises(ValueError, match="before token 3"):
        prefix_digests(TOKENS, start=3)
    assert prefix_digests([]).tolist() == []


def test_every_part_of_a_prefix_changes_the_digest():
    variants = [
        prefix_digests(tokens, extras)[-1].item()
        for tokens, extras in [
            (TOKENS, ExtraKeys()),
            ([6, *TOKENS[1:]], ExtraKeys()),
            (TOKENS[1:], ExtraKeys()),
            ([TOKENS[1], TOKENS[0], *TOKENS[2:]], ExtraKeys()),
            (TOKENS, ExtraKeys(adapter="X")),
            (TOKENS, ExtraKeys(salt="X")),
            (TOKENS, ExtraKeys(prompt_embeds=b"X")),
            (TOKENS, ExtraKeys(multimodal=(MultimodalItem("X", 0),))),
            (TOKENS, ExtraKeys(multimodal=(MultimodalItem("X", 1),))),
        ]
    ]
    assert len(set(variants)) == len(variants)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64])
def test_values_are_exact_in_their_dtype(dtype):
    digests = prefix_digests(list(range(200)))
    vectors = token_vectors(digests, (2, 2, 2, 4), dtype)
    exact = token_vectors(digests, (2, 2, 2, 4), torch.float64)
    assert vectors.dtype == dtype
    assert vectors.min() >= -1
    assert vectors.max() < 1
    bits = {torch.bfloat16: 8, torch.float16: 11, torch.float32: 24, torch.float64: 32}[dtype]
    scaled = vectors.double() * 2.0 ** (bits - 1)
    assert torch.equal(scaled, (exact * 2.0 ** (bits - 1)).floor())
    assert len(vectors.flatten(1).unique(dim=0)) == 200


@pytest.mark.parametrize(("dtype", "bits"), [(torch.bfloat16, 8), (torch.float16, 11), (torch.float64, 32)])
def test_values_are_those_of_a_published_generator(dtype, bits):
    """The first four numbers of splitmix64 from state 0, as its authors give them: their top bits, as fractions."""
    published = [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F, 0xF88BB8A8724C81EC]
    top = [number >> (64 - bits) for number in published]
    signed = [number - 2**bits if number >> (bits - 1) else number for number in top]
    vectors = token_vectors(torch.tensor([0]), (1, 1, 2, 2), dtype)
    assert vectors.flatten().tolist() == [number / 2 ** (bits - 1) for number in signed]


def test_one_wrong_slot_shows():
    payload = Payload(4, 2)
    digests = prefix_digests(TOKENS)
    blocks, slots = [3, 3, 1, 1, 2, 2], [0, 1] * 3
    payload.write_run(blocks, slots, digests)
    assert payload.mismatches(blocks, slots, digests) == []
    assert payload.mismatches([3, 3, 2, 2, 1, 1], slots, digests.tolist()) == [2, 3, 4, 5]
    payload.write(1, 0, 12345)
    assert payload.mismatches(blocks, slots, digests) == [2]
    assert payload.matches(1, 0, 12345)
    assert not payload.matches(1, 0, int(digests[2]))
    assert payload.data[:, :, 0].count_nonzero() == 0


def test_one_token_at_a_time_is_the_same_as_all_at_once():
    single, run = Payload(4, 2), Payload(4, 2)
    digests = prefix_digests(TOKENS)
    blocks, slots = [3, 3, 1, 1, 2, 2], [0, 1] * 3
    run.write_run(blocks, slots, digests)
    for block, slot, digest in zip(blocks, slots, digests.tolist(), strict=True):
        single.write(block, slot, digest % 2**64)  # Signed or unsigned: the same 64 bits.
        assert torch.equal(single.read(block, slot), run.read(block, slot))
    assert torch.equal(single.data, run.data)


def test_the_sequence_of_a_table_is_what_was_written():
    payload = Payload(4, 2)
    digests = prefix_digests(TOKENS[:5])
    payload.write_run([3, 3, 1, 1, 2], [0, 1, 0, 1, 0], digests)
    assert torch.equal(payload.sequence([3, 1, 2], 5), payload.expected(digests).permute(1, 2, 0, 3, 4))
    assert payload.sequence([3, 1, 2], 0).shape[2] == payload.sequence([], 0).shape[2] == 0
    with pytest.raises(ValueError, match="do not fit"):
        payload.sequence([3, 1, 2], 7)


@pytest.mark.parametrize(("block", "slot"), [(-1, 0), (4, 0), (0, -1), (0, 2)])
def test_a_place_that_is_none_is_refused(block, slot):
    payload = Payload(4, 2)
    for call in (
        lambda: payload.write(block, slot, 1),
        lambda: payload.read(block, slot),
        lambda: payload.matches(block, slot, 1),
        lambda: payload.mismatches([block], [slot], [1]),
        lambda: payload.write_run([block], [slot], torch.tensor([1])),
    ):
        with pytest.raises(ValueError, match=r"slot|block"):
            call()


@pytest.mark.parametrize("options", [{"layers": 0}, {"dtype": torch.int32}])
def test_a_payload_that_means_nothing_is_refused(options):
    with pytest.raises(ValueError, match="payload"):
        Payload(4, 2, **options)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_cuda_holds_the_same_values():
    digests = prefix_digests(TOKENS)
    blocks, slots = [3, 3, 1, 1, 2, 2], [0, 1] * 3
    host, device = Payload(4, 2), Payload(4, 2, device="cuda")
    for payload in (host, device):
        payload.write_run(blocks, slots, digests)
        payload.write(0, 1, 99)
        assert payload.mismatches(blocks, slots, digests) == []
    assert torch.equal(device.data.cpu(), host.data)
