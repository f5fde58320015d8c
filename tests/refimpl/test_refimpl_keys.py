"""Block keys (P13): injective in everything that changes KV, tagged, and the same in every process."""

import subprocess
import sys
from array import array

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvproof.refimpl.pool.keys import (
    KEY_BYTES,
    ExtraKeys,
    MultimodalItem,
    Tokens,
    block_extras,
    block_key,
    chain_keys,
    decode_key_input,
    encode_key_input,
)

TEXT = st.text(alphabet=st.sampled_from("AXa\x00é😀\ud800"), max_size=3)
ITEMS = st.lists(st.builds(MultimodalItem, TEXT, st.integers(-(2**63), 2**63 - 1)), max_size=3).map(tuple)
EXTRAS = st.builds(
    ExtraKeys,
    adapter=st.none() | TEXT,
    salt=st.none() | TEXT,
    multimodal=ITEMS,
    prompt_embeds=st.none() | st.binary(max_size=5),
)
INPUTS = st.tuples(
    st.none() | st.binary(max_size=4), st.lists(st.integers(0, 2**32 - 1) | st.integers(0, 90), max_size=4), EXTRAS
)


@given(INPUTS)
@settings(max_examples=200, deadline=None)
def test_decoding_gives_back_what_was_encoded(value):
    assert decode_key_input(encode_key_input(*value)) == value


@pytest.mark.parametrize(
    ("offset", "fits"), [(-(2**63), True), (2**63 - 1, True), (-(2**63) - 1, False), (2**63, False)]
)
def test_an_offset_has_64_bits(offset, fits):
    extras = ExtraKeys(multimodal=(MultimodalItem("image", offset),))
    if fits:
        assert decode_key_input(encode_key_input(None, [1], extras)) == (None, [1], extras)
    else:
        with pytest.raises(ValueError, match="does not fit 64 bits"):
            encode_key_input(None, [1], extras)


@given(INPUTS, INPUTS)
@settings(max_examples=200, deadline=None)
def test_different_inputs_have_different_keys(left, right):
    assert (block_key(*left) == block_key(*right)) == (left == right)


@given(
    st.binary(max_size=30) | INPUTS.map(lambda value: encode_key_input(*value)),
    st.integers(0, 40),
    st.binary(max_size=2),
)
@settings(max_examples=200, deadline=None)
def test_the_decoder_accepts_nothing_that_the_encoder_does_not_write(encoded, at, patch):
    damaged = encoded[:at] + patch + encoded[at + 1 :]
    try:
        value = decode_key_input(damaged)
    except ValueError:
        return
    assert encode_key_input(*value) == damaged


@pytest.mark.parametrize("kind", ["adapter", "salt", "prompt_embeds", "multimodal"])
@pytest.mark.parametrize("other", ["adapter", "salt", "prompt_embeds", "multimodal"])
def test_the_same_name_of_another_kind_is_another_key(kind, other):
    """Fault B5: an adapter and a salt of the same name led one tenant to another's blocks."""
    extras = {
        "adapter": ExtraKeys(adapter="X"),
        "salt": ExtraKeys(salt="X"),
        "prompt_embeds": ExtraKeys(prompt_embeds=b"X"),
        "multimodal": ExtraKeys(multimodal=(MultimodalItem("X", 0),)),
    }
    keys = [block_key(None, [1, 2], extras[name]) for name in (kind, other)]
    assert (keys[0] == keys[1]) == (kind == other)


def test_an_empty_name_is_not_no_name():
    assert block_key(None, [1], ExtraKeys(salt="")) != block_key(None, [1])
    assert block_key(b"", [1]) != block_key(None, [1])


@pytest.mark.parametrize("ids", [[], [0], [1, 2**32 - 1, 7]])
def test_every_form_of_the_same_tokens_has_the_same_key(ids):
    as_bytes = b"".join(token.to_bytes(4, "little") for token in ids)
    forms: list[Tokens] = [
        tuple(ids),
        array("I", ids),
        array("Q", ids),
        np.array(ids, dtype=np.uint32),
        np.array(ids, dtype=np.int64),
        np.array(ids, dtype=">u4"),
        as_bytes,
        memoryview(as_bytes),
    ]
    assert {block_key(None, form) for form in forms} == {block_key(None, ids)}


@pytest.mark.parametrize(
    "tokens",
    [
        [-1],
        [2**32],
        ["a"],
        [1.5],
        b"abc",
        array("i", [-1]),
        pytest.param(memoryview(array("I", range(4))), id="numbers that are no bytes"),
        np.array([-1]),
        np.array([2**32]),
        np.array([1.0]),
        np.array([[1]]),
    ],
    ids=str,
)
def test_what_is_no_token_is_refused(tokens):
    with pytest.raises(ValueError, match="token"):
        encode_key_input(None, tokens)


def test_a_key_is_the_same_in_every_process():
    """Golden values, and another interpreter with another hash seed."""
    program = (
        "from kvproof.refimpl.pool.keys import *\n"
        "extras = ExtraKeys('lora', 'tenant', (MultimodalItem('image', 3),), b'e')\n"
        "print(block_key(None, range(16)).hex(), block_key(b'p', [1], extras).hex())"
    )
    answer = subprocess.run(
        [sys.executable, "-c", program], env={"PYTHONHASHSEED": "12345"}, capture_output=True, text=True, check=True
    )
    extras = ExtraKeys("lora", "tenant", (MultimodalItem("image", 3),), b"e")
    assert answer.stdout.split() == [block_key(None, range(16)).hex(), block_key(b"p", [1], extras).hex()]
    assert answer.stdout.split() == [GOLDEN_PLAIN, GOLDEN_EXTRAS]


def test_a_chain_is_its_blocks_one_by_one():
    extras = ExtraKeys("lora", "tenant", (MultimodalItem("late", 9), MultimodalItem("early", 1)), b"e")
    tokens = list(range(100, 115))
    parent, expected = None, []
    for position in range(3):
        part = block_extras(extras, position, 4, 4)
        parent = block_key(parent, tokens[4 * position : 4 * position + 4], part)
        expected.append(parent)
    assert chain_keys(tokens, 4, extras) == expected
    assert chain_keys(tokens, 4, extras, previous=expected[:2]) == expected
    assert all(len(key) == KEY_BYTES for key in expected)


def test_a_chain_goes_on_from_a_key_of_any_length():
    following = block_key(b"short", [5, 6])
    assert chain_keys([3, 4, 5, 6, 7, 8], 2, previous=[b"short"]) == [b"short", following, block_key(following, [7, 8])]


def test_a_block_has_as_many_tokens_as_32_bits_can_count():
    assert chain_keys([1, 2], 2**32 - 1) == []
    with pytest.raises(ValueError, match="does not fit 32 bits"):
        chain_keys([1, 2], 2**32)


def test_extras_enter_the_chain_where_they_begin():
    tokens = list(range(12))
    plain = chain_keys(tokens, 4)
    salted = chain_keys(tokens, 4, ExtraKeys(salt="s"))
    assert not set(plain) & set(salted)
    pictured = chain_keys(tokens, 4, ExtraKeys(multimodal=(MultimodalItem("image", 6),)))
    assert pictured[0] == plain[0]
    assert not set(pictured[1:]) & set(plain)
    moved = chain_keys(tokens, 4, ExtraKeys(multimodal=(MultimodalItem("image", 7),)))
    assert pictured[1] != moved[1]
    picture = ExtraKeys(multimodal=(MultimodalItem("image", 8),))
    assert chain_keys(tokens, 4, picture)[:2] == plain[:2]
    assert block_extras(picture, 1, 4, 4) == ExtraKeys()
    assert block_extras(picture, 2, 4, 4) == ExtraKeys(multimodal=(MultimodalItem("image", 0),))


def test_the_order_in_which_a_request_lists_its_items_changes_no_key():
    items = (MultimodalItem("a", 1), MultimodalItem("b", 3))
    assert chain_keys(range(4), 4, ExtraKeys(multimodal=items)) == chain_keys(
        range(4), 4, ExtraKeys(multimodal=items[::-1])
    )


def test_a_partly_filled_block_has_a_key_of_its_own():
    assert len({block_key(None, range(filled)) for filled in range(5)}) == 5


@pytest.mark.parametrize(
    "arguments", [([1, 2], 0), (b"abc", 1), ([1, 2], 2, ExtraKeys(multimodal=(MultimodalItem("a", -1),)))]
)
def test_a_chain_that_means_nothing_is_refused(arguments):
    with pytest.raises(ValueError):  # noqa: PT011 - each case has its own words
        chain_keys(*arguments)


GOLDEN_PLAIN = "befd5c0d49f111de3388162e1e952b015bf13164220132054be200c6b540da30"
GOLDEN_EXTRAS = "9a3dbf50efba790cad1c921dbd4b04144d81c4087be118266778e28e64f3ff2a"
