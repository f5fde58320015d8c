"""All forms that releases write are read alike; whatever else comes is told, and stops nothing (E5)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvproof.events.arrival import Arrival
from kvproof.events.checking import Checker
from kvproof.events.decoding import Decoder
from kvproof.events.wire import Cleared, Removed, Stored
from kvproof.untrusted import limits

pack = msgspec.msgpack.encode

STORED: dict[str, Any] = {
    "block_hashes": [11, 12],
    "parent_block_hash": None,
    "token_ids": [1, 2, 3, 4],
    "block_size": 2,
    "lora_id": None,
    "medium": "GPU",
    "lora_name": None,
    "extra_keys": None,
    "group_idx": 1,
}
AS_MAP = {"type": "BlockStored", **STORED}
AS_ARRAY = ["BlockStored", *STORED.values()]
PLAIN = Stored([11, 12], None, (1, 2, 3, 4), 2, medium="GPU", group_idx=1)

FORMS: dict[str, tuple[Any, int | None]] = {
    "arrays": ([0.5, [AS_ARRAY], 3], 3),
    "maps in an array": ([0.5, [AS_MAP], 3], 3),
    "maps": ({"ts": 0.5, "events": [AS_MAP], "data_parallel_rank": 3}, 3),
    "arrays in a map": ({"ts": 0.5, "events": [AS_ARRAY]}, None),
    "sglang, maps": ({"ts": 0.5, "events": [AS_MAP], "attn_dp_rank": 3}, 3),
    "pairs of tokens": ([0.5, [{**AS_MAP, "token_ids": [[1, 2], [2, 3], [3, 4], [4, 5]]}], 3], 3),
    "a list of multimodal items": ([0.5, [[*AS_ARRAY[:9], [None, None], 1]], 3], 3),
    "arrays and maps together": ([0.5, [AS_MAP, AS_ARRAY], 3], 3),
}


@pytest.mark.parametrize("form", FORMS)
def test_all_forms_say_the_same(form: str) -> None:
    written, rank = FORMS[form]
    read = Decoder()(pack(written))
    assert read.rank == rank
    assert not read.malformed
    assert not read.unknown
    for event in read.events:
        behind = [[3], [5]] if form == "pairs of tokens" else None
        assert msgspec.structs.asdict(event) == {**msgspec.structs.asdict(PLAIN), "lookahead_token_ids": behind}


def test_short_arrays_of_early_releases_are_read() -> None:
    read = Decoder()(
        pack([0.5, [["BlockStored", [1], None, [7], 1, None], ["BlockRemoved", [1]], ["AllBlocksCleared"]]])
    )
    assert [type(event).__mro__[1] for event in read.events] == [Stored, Removed, Cleared]
    assert (read.rank, read.malformed, read.unknown) == (None, (), ())


def test_a_decoder_goes_along_when_a_publisher_changes_its_form() -> None:
    decoder = Decoder()
    for written, rank in [*FORMS.values(), *FORMS.values()]:
        assert decoder(pack(written)).rank == rank


def test_hashes_are_numbers_digests_or_text() -> None:
    told = [["BlockRemoved", [7]], ["BlockRemoved", [b"\x07" * 32]], ["BlockRemoved", ["seven"]]]
    read = Decoder()(pack([0.5, told]))
    assert [event.block_hashes[0] for event in read.events if isinstance(event, Removed)] == [7, b"\x07" * 32, b"seven"]


def test_fields_of_later_releases_are_tolerated_and_counted() -> None:
    later = [
        {**AS_MAP, "colour": 1},
        {**AS_MAP, "colour": 2},
        {"type": "BlockRemoved", "block_hashes": [11], "when": 3},
    ]
    batch = {"ts": 0.5, "events": later, "shard": 1}
    checker = Checker()
    checker.take(Arrival("x", b"", 0, pack(batch), 0))
    removed = ["BlockRemoved", [12], "GPU", 1, None, None, None, None, "new"]
    checker.take(Arrival("x", b"", 1, pack([0.5, [removed], None, "newer"]), 1))
    assert checker.tally.unknown == {
        "BlockStored.colour": 2, "BlockRemoved.when": 1, "batch.shard": 1, "BlockRemoved[7]": 1, "batch[3]": 1,
    }  # fmt: skip
    assert checker.tally.events == 4


MALFORMED: dict[str, Any] = {
    "no hashes": {"type": "BlockStored", "token_ids": []},
    "a hash that is a list": {"type": "BlockRemoved", "block_hashes": [[1]]},
    "a long hash": {"type": "BlockRemoved", "block_hashes": [b"x" * (limits.EVENT_HASH_BYTES + 1)]},
    "a negative size": {**AS_MAP, "block_size": -1},
    "tokens that are text": {**AS_MAP, "token_ids": ["a"]},
    "another type": {"type": "BlockMoved", "block_hashes": [1]},
    "no type": {"block_hashes": [1]},
    "a long medium": {**AS_MAP, "medium": "x" * 1000},
    "a number": 7,
    "an empty array": [],
}


@pytest.mark.parametrize("what", MALFORMED)
def test_a_malformed_event_is_told_and_the_others_are_taken(what: str) -> None:
    read = Decoder()(pack([0.5, [AS_MAP, MALFORMED[what], ["AllBlocksCleared"]], 0]))
    assert len(read.events) == 2
    (text,) = read.malformed
    assert text.startswith("event 1 of the batch: ")


BAD = {
    "nothing": b"",
    "deep": b"\x91" * 100_000,
    "larger than it is": b"\xdd\xff\xff\xff\xff",
    "a number": b"\x07",
    "a rank that is text": pack([0.5, [], "zero"]),
    "deep keys": pack([0.5, [{**AS_MAP, "extra_keys": [[msgspec.Raw(b"\x91" * 200_000 + b"\x01")]]}], 0]),
}


@pytest.mark.parametrize("what", BAD)
def test_bytes_that_are_no_batch_are_told(what: str) -> None:
    assert Decoder()(BAD[what]).malformed


def test_a_batch_that_is_too_large_is_not_read() -> None:
    assert "bytes" in Decoder()(bytes(limits.EVENT_BATCH_BYTES + 1)).malformed[0]


def test_keys_that_are_nested_deeply_are_no_trap() -> None:
    deep: Any = 1
    for _ in range(400):
        deep = [deep]
    checker = Checker()
    checker.take(Arrival("x", b"", 0, pack([0.5, [{**AS_MAP, "extra_keys": [deep, {"a": {"b": 1}}]}], 0]), 0))
    assert checker.tally.events + checker.faults.total == 1


ATOMS = st.none() | st.integers(-(2**63), 2**64 - 1) | st.binary() | st.sampled_from(["BlockStored", "BlockRemoved"])
FIELDS = st.sampled_from([*AS_MAP, "events", "ts", "colour"])
VALUES = st.recursive(ATOMS, lambda inner: st.lists(inner) | st.dictionaries(FIELDS, inner), max_leaves=30)


@given(st.binary(max_size=200) | VALUES.map(pack))
def test_whatever_comes_a_checker_goes_on(payload: bytes) -> None:
    checker = Checker()
    checker.take(Arrival("x", b"", 0, payload, 0))
    checker.take(Arrival("x", b"", 1, pack([0.5, [AS_MAP], 0]), 0))
    assert checker.tally.batches == 2


ODD_KEYS = {
    "an extension": b"\xd4\x05\x01",
    "no number": b"\xcb\x7f\xf8" + bytes(6),
    "a list as a key": b"\x81\x91\x01\x02",
}


@pytest.mark.parametrize("what", ODD_KEYS)
def test_further_keys_of_any_kind_are_compared(what: str) -> None:
    event = {**AS_MAP, "extra_keys": [[msgspec.Raw(ODD_KEYS[what])], None]}
    checker = Checker()
    for number in (0, 1):
        checker.take(Arrival("x", b"", number, pack([0.5, [event], 0]), number))
    assert checker.tally.events == 2
    assert not checker.faults
    checker.take(Arrival("x", b"", 2, pack([0.5, [{**event, "extra_keys": [["other"], None]}], 0]), 2))
    assert list(checker.faults.counts) == [("E3", "two contents")]


@given(st.data())
def test_a_flipped_bit_stops_nothing(data: st.DataObject) -> None:
    form = pack(FORMS[data.draw(st.sampled_from(sorted(FORMS)))][0])
    at = data.draw(st.integers(0, len(form) * 8 - 1))
    flipped = bytearray(form)
    flipped[at // 8] ^= 1 << at % 8
    checker = Checker()
    checker.take(Arrival("x", b"", 0, bytes(flipped), 0))
    assert checker.tally.batches == 1
