"""The free queue (P3): order, both ways of walking it, refusals that change nothing."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvproof.refimpl.errors import RefusedError
from kvproof.refimpl.pool.free_list import UNLINKED, FreeList

SIZE = 6


def state(queue: FreeList) -> tuple[list[int], list[int], list[int], int]:
    """All that means anything: both walks, which blocks are linked to what, and the counter."""
    return list(queue), walk_back(queue), list(queue.prev), len(queue)


def walk_back(queue: FreeList) -> list[int]:
    """The queue last to first, by the links that ``__iter__`` does not follow."""
    blocks = []
    block = queue.prev[queue.tail]
    while block != queue.head:
        blocks.append(block)
        block = queue.prev[block]
    return blocks


def test_blocks_leave_in_the_order_in_which_they_came():
    queue = FreeList(SIZE, [3, 1, 4])
    queue.append(0)
    assert queue.first() == 3
    assert queue.popleft() == 3
    assert queue.popleft_n(2) == [1, 4]
    assert list(queue) == [0]
    assert len(queue) == 1


def test_a_prepended_run_keeps_its_order():
    queue = FreeList(SIZE, [3])
    queue.prepend_n([5, 0, 2])
    queue.prepend(1)
    assert list(queue) == [1, 5, 0, 2, 3]


def test_a_block_is_removed_from_the_middle_and_is_not_found_again():
    queue = FreeList(SIZE, range(SIZE))
    queue.remove(2)
    assert list(queue) == [0, 1, 3, 4, 5]
    assert 2 not in queue
    assert queue.prev[2] == UNLINKED


def test_an_empty_queue_has_no_first():
    queue = FreeList(SIZE)
    assert queue.first() is None
    assert list(queue) == []
    queue.append_n([])
    queue.prepend_n([])
    assert queue.popleft_n(0) == []
    assert list(FreeList(0)) == []


def test_what_is_no_number_is_in_no_queue():
    assert "1" not in FreeList(SIZE, range(SIZE))


@pytest.mark.parametrize(
    "call",
    [
        pytest.param(lambda queue: queue.append(1), id="append a linked block"),
        pytest.param(lambda queue: queue.prepend(1), id="prepend a linked block"),
        pytest.param(lambda queue: queue.append_n([4, 1]), id="second of a run is linked"),
        pytest.param(lambda queue: queue.append_n([4, 5, 4]), id="a run names a block twice"),
        pytest.param(lambda queue: queue.prepend_n([4, 5, 4]), id="a prepended run names a block twice"),
        pytest.param(lambda queue: queue.append_n([4, SIZE]), id="a sentinel, as a block"),
        pytest.param(lambda queue: queue.append(-1), id="a negative id"),
        # Beside the two sentinels, so -3 would be the last block, which is not linked.
        pytest.param(lambda queue: queue.prepend_n([4, -3]), id="prepend a block from the end"),
        pytest.param(lambda queue: queue.append_n([4, -3]), id="append a block from the end"),
        pytest.param(lambda queue: queue.remove(4), id="remove an unlinked block"),
        pytest.param(lambda queue: queue.remove_n([0, 2, 4]), id="remove a run whose last is unlinked"),
        pytest.param(lambda queue: queue.remove_n([0, 1, 2, 0]), id="remove a block twice"),
        pytest.param(lambda queue: queue.remove(SIZE), id="remove a sentinel"),
        pytest.param(lambda queue: queue.remove(-2), id="remove a negative id"),
        pytest.param(lambda queue: queue.popleft_n(4), id="pop more than there are"),
        pytest.param(lambda queue: queue.popleft_n(-1), id="pop a negative number"),
    ],
)
def test_an_invalid_operation_is_refused_and_changes_nothing(call):
    queue = FreeList(SIZE, [2, 0, 1])
    before = state(queue)
    with pytest.raises(RefusedError):
        call(queue)
    assert state(queue) == before


def test_a_walk_in_a_circle_ends_after_one_block_more_than_there_are():
    queue = FreeList(SIZE, [2, 0, 1])
    queue.next[1] = 2
    assert queue.walk() == [2, 0, 1, 2, 0, 1, 2]


def test_popping_an_empty_queue_is_refused():
    queue = FreeList(SIZE)
    before = state(queue)
    with pytest.raises(RefusedError):
        queue.popleft()
    assert state(queue) == before


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["append_n", "prepend_n", "remove_n", "popleft_n"]),
        st.lists(st.integers(-1, SIZE), max_size=4),
    ),
    max_size=20,
)


@given(STEPS)
@settings(max_examples=150, deadline=None)
def test_it_is_a_list_without_repetition(steps):
    queue = FreeList(SIZE)
    model: list[int] = []
    for operation, blocks in steps:
        known = len(set(blocks)) == len(blocks) and all(0 <= block < SIZE for block in blocks)
        before = state(queue)
        try:
            if operation == "append_n":
                queue.append_n(blocks)
                assert known
                assert not set(blocks) & set(model)
                model = model + blocks
            elif operation == "prepend_n":
                queue.prepend_n(blocks)
                assert known
                assert not set(blocks) & set(model)
                model = blocks + model
            elif operation == "remove_n":
                queue.remove_n(blocks)
                assert known
                assert set(blocks) <= set(model)
                model = [block for block in model if block not in blocks]
            else:
                assert queue.popleft_n(len(blocks)) == model[: len(blocks)]
                model = model[len(blocks) :]
        except RefusedError:
            assert state(queue) == before
            if operation.endswith("pend_n"):
                assert not known or set(blocks) & set(model)
            elif operation == "remove_n":
                assert not known or not set(blocks) <= set(model)
            else:
                assert len(blocks) > len(model)
        assert list(queue) == queue.walk() == model == walk_back(queue)[::-1]
        assert len(queue) == len(model)
        assert [block for block in range(-1, SIZE + 2) if block in queue] == sorted(model)
