"""Steps of a request with mamba layers (H7): where they end, that they get on, and what they ask for."""

from itertools import product

import pytest

from kvproof.refimpl.hybrid.aligned_split import new_blocks, next_tokens

TOTAL = 13


def split(start: int, total: int, budget: int, block: int) -> int:
    return next_tokens(computed=start, external=0, total=total, budget=budget, block=block, loading=False)


def furthest_good_end(start: int, total: int, budget: int, block: int) -> int:
    """By search: the furthest end within the budget at which nothing is missed; ``start`` itself if there is none.

    An end is good at a boundary, or where no boundary is left before the total. A step that passes the last boundary
    misses its state.
    """
    boundaries = set(range(0, total + 1, block))
    last = max(boundaries)
    for end in range(min(start + budget, total), start, -1):
        if start >= last or (end in boundaries and end <= last):
            return end
    return start


def disagreements(split) -> list[tuple[int, int, int, int]]:
    """The small cases ``(start, total, budget, block)`` in which a way to split is not what the search finds."""
    return [
        (start, total, budget, block)
        for block, total in product(range(1, 6), range(TOTAL + 1))
        for start, budget in product(range(total + 1), range(TOTAL + 2))
        if start + split(start, total, budget, block) != furthest_good_end(start, total, budget, block)
    ]


def test_h7_all_small_cases_agree_with_search():
    assert disagreements(split) == []


def test_h7_external_tokens_count_as_if_they_were_computed():
    for block, start, budget in product(range(1, 6), range(TOTAL + 1), range(TOTAL + 2)):
        expected = split(start, TOTAL, budget, block)
        for external in range(start + 1):
            sizes = {"total": TOTAL, "budget": budget, "block": block}
            assert next_tokens(computed=start - external, external=external, loading=False, **sizes) == expected


def test_h7_a_load_in_flight_takes_nothing():
    for block, start, budget in product(range(1, 6), range(TOTAL + 1), range(TOTAL + 2)):
        assert next_tokens(computed=0, external=start, total=TOTAL, budget=budget, block=block, loading=True) == 0


@pytest.mark.parametrize("block", range(1, 6))
def test_h7_a_request_gets_to_its_end_and_stops_at_every_boundary_that_its_budget_allows(block):
    for total, external, budget in product(range(TOTAL + 1), range(TOTAL + 1), range(block, TOTAL + 2)):
        computed, ends = 0, []
        while external + computed < total:
            loaded = {"external": external, "total": total, "block": block}
            step = next_tokens(computed=computed, budget=budget, loading=False, **loaded)
            assert 0 < step <= budget
            computed += step
            ends.append(external + computed)
        last = total // block * block
        # The state at the last boundary is there in the end, unless the request began behind it.
        assert external >= last or last in ends
        assert all(end % block == 0 for end in ends if end < last)
        assert ends[-1:] == ([total] if external < total else [])


def test_h7_by_example():
    assert split(0, 100, 64, 16) == 64
    assert split(0, 100, 70, 16) == 64  # The budget is cut to whole blocks.
    assert split(64, 100, 64, 16) == 32  # Up to the last boundary, though all would fit.
    assert split(96, 100, 64, 16) == 4  # The final piece.
    assert split(96, 100, 3, 16) == 3  # A piece of it: no boundary is left.
    assert split(5, 100, 64, 16) == 59  # From within a block to a boundary.
    assert split(64, 100, 8, 16) == 0  # No boundary within the budget: this step is not for this request.
    assert split(8, 100, 8, 16) == 8  # One is.
    assert split(31, 32, 1, 16) == 1  # Decoding, up to a boundary and beyond.
    assert split(32, 33, 1, 16) == 1
    assert split(0, 7, 64, 16) == 7  # Shorter than a block.
    assert split(7, 7, 64, 16) == 0


# Wrong ways to split: each goes wrong somewhere in the search above.


def aligns_what_is_new(start, total, budget, block):
    """Right only if the step starts at a boundary, which external tokens need not give."""
    new = min(budget, total - start)
    return new // block * block if start + new < total // block * block else new


MISTAKES = {
    "no alignment": lambda start, total, budget, block: min(budget, total - start),
    "what is new is aligned, not its end": aligns_what_is_new,
    "past the last boundary": lambda start, total, budget, block: (
        min(budget, total - start) if start + budget >= total else split(start, total, budget, block)
    ),
    "no final piece": lambda start, total, budget, block: max(0, min(start + budget, total) // block * block - start),
    "one block at a time": lambda start, total, budget, block: split(start, total, min(budget, block), block),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_wrong_split_is_caught(mistake):
    assert disagreements(MISTAKES[mistake])


# Blocks.


def test_h7_demand_against_what_is_held():
    for demand, held, block in product(range(20), range(8), range(1, 6)):
        least = next(count for count in range(21) if (held + count) * block >= demand)
        assert new_blocks(demand, held, block) == least


def test_h7_a_demand_below_what_is_held_asks_for_nothing():
    assert new_blocks(4, 3, 4) == new_blocks(0, 3, 4) == new_blocks(12, 3, 4) == 0
    assert new_blocks(13, 3, 4) == 1


# Counts that mean nothing.

WRONG = {
    "negative computed": ({"computed": -1}, "computed -1"),
    "negative external": ({"external": -1}, "external -1"),
    "negative budget": ({"budget": -1}, "budget -1"),
    "more than there is": ({"computed": 6, "external": 5}, "6 computed and 5 external tokens are more than"),
    "no block": ({"block": 0}, "a block holds at least one token, got 0"),
}


@pytest.mark.parametrize("loading", [False, True])
@pytest.mark.parametrize("case", WRONG)
def test_wrong_counts_are_refused(case, loading):
    change, words = WRONG[case]
    sizes = {"computed": 0, "external": 0, "total": 10, "budget": 4, "block": 4} | change
    with pytest.raises(ValueError, match=words):
        next_tokens(**sizes, loading=loading)


@pytest.mark.parametrize(
    ("arguments", "words"), [((-1, 0, 4), "negative"), ((1, -1, 4), "-1"), ((1, 0, 0), "at least")]
)
def test_wrong_blocks_are_refused(arguments, words):
    with pytest.raises(ValueError, match=words):
        new_blocks(*arguments)
