"""The planner of hybrid groups: its sizes (H1), its arithmetic against counting (H2), what is never stored (H3)."""

import warnings
from collections.abc import Iterator
from functools import partial
from itertools import count, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvproof.refimpl.hybrid.planner import Group, HybridPlanner

MOST = 6
TOKENS = 40


def all_planners() -> Iterator[HybridPlanner]:
    """Every planner of one or two groups whose sizes are at most ``MOST``."""
    for hash_block in range(1, MOST + 1):
        sizes = range(hash_block, MOST + 1, hash_block)
        groups = [Group(block, kind) for block in sizes for kind in ("full", "mamba")]
        groups += [Group(block, "window", 2) for block in sizes]
        for chunk in sizes:
            for group in groups:
                yield HybridPlanner(hash_block, chunk, [group])
            for pair in product(groups, groups):
                yield HybridPlanner(hash_block, chunk, pair)


PLANNERS = list(all_planners())


# Counting instead of calculating.


def unit_by_rule(group: Group, chunk: int) -> int:
    """H1: a block larger than a chunk is split if chunks divide it."""
    divides = group.block in range(0, group.block + 1, chunk)
    return chunk if divides and group.block > chunk else group.block


def chunks_by_counting(chunk: int, tokens: int) -> int:
    """The chunks that end within the tokens."""
    return sum(1 for end in range(1, tokens + 1) if end % chunk == 0)


def usable(planner: HybridPlanner, length: int, chunks: int) -> bool:
    """Whether every group can go on at ``length`` tokens: its stored units hold them, and a state ends there."""
    tokens = chunks * planner.chunk
    for group in planner.groups:
        unit = unit_by_rule(group, planner.chunk)
        stored = {token for token in range(tokens) if (token // unit + 1) * unit <= tokens}
        if not stored.issuperset(range(length)) or (group.kind == "mamba" and length % unit):
            return False
    return length % planner.hash_block == 0


def prefix_by_search(planner: HybridPlanner, chunks: int) -> int:
    return next(length for length in range(chunks * planner.chunk, -1, -1) if usable(planner, length, chunks))


def test_h2_all_small_sizes_agree_with_counting():
    prefixes: dict[object, int] = {}
    for planner in PLANNERS:
        assert planner.units == tuple(unit_by_rule(group, planner.chunk) for group in planner.groups)
        for tokens in range(TOKENS + 1):
            chunks = planner.chunks_for(tokens)
            assert chunks == chunks_by_counting(planner.chunk, tokens)
            case = (planner.hash_block, planner.chunk, planner.groups, chunks)
            if case not in prefixes:
                prefixes[case] = prefix_by_search(planner, chunks)
            assert planner.prefix(chunks) == prefixes[case], case


def test_h2_round_trips_and_order_for_all_small_sizes():
    for planner in PLANNERS:
        assert faults(planner, planner.chunks_for, planner.prefix) == []


def test_h3_the_first_storable_chunk_for_all_small_sizes():
    for planner in PLANNERS:
        first = next(chunks for chunks in range(TOKENS) if planner.prefix(chunks))
        states = [unit for unit, group in zip(planner.units, planner.groups, strict=True) if group.kind == "mamba"]
        common = (length for length in count(1) if not any(length % size for size in (planner.hash_block, *states)))
        assert planner.boundary == next(common)
        assert planner.first_storable == first
        enough = first * planner.chunk
        assert planner.can_store(enough)
        assert not planner.can_store(enough - 1)


def test_h3_the_first_prefix_waits_for_the_group_that_comes_last():
    """Chunks of 2 fill a block of 1 token at once, and one of 5 with the third."""
    planner = HybridPlanner(1, 2, [Group(5, "full"), Group(1, "full")])
    assert planner.first_storable == 3
    assert [planner.prefix(chunks) for chunks in (2, 3)] == [0, 5]


@given(
    hash_block=st.integers(1, 64),
    factors=st.tuples(st.integers(1, 30), st.integers(1, 70), st.integers(1, 70), st.integers(1, 70)),
    tokens=st.integers(0, 10**7),
)
def test_h2_large_sizes_keep_the_properties(hash_block, factors, tokens):
    chunk, first, second, third = (hash_block * factor for factor in factors)
    groups = [Group(first, "mamba"), Group(second, "mamba"), Group(third, "window", 100)]
    planner = HybridPlanner(hash_block, chunk, groups)
    chunks = planner.chunks_for(tokens)
    prefix = planner.prefix(chunks)
    assert chunks * chunk <= tokens < (chunks + 1) * chunk
    assert prefix <= tokens
    assert planner.chunks_for(prefix) <= chunks
    assert planner.chunks_for(tokens - 1 if tokens else 0) <= chunks
    assert prefix <= planner.prefix(chunks + 1)
    for index, group in enumerate(groups):
        assert prefix <= planner.covered(index, chunks) <= chunks * chunk
        assert group.kind != "mamba" or prefix % planner.units[index] == 0
    # The next place at which all can go on is out of some group's reach.
    assert prefix + planner.boundary > min(planner.covered(index, chunks) for index in range(3))


# The planner as proposed, and other mistakes: each is wrong at small sizes, and is seen to be.


def faults(planner, count, prefix) -> list[str]:
    """Which properties of H2 a way of counting breaks, with the groups and sizes of a planner."""
    found = []
    for tokens in range(TOKENS + 1):
        chunks = count(tokens)
        if prefix(chunks) > tokens or chunks * planner.chunk > tokens:
            found.append(f"{chunks} chunks for {tokens} tokens")
        if chunks > count(tokens + 1):
            found.append(f"fewer chunks for {tokens + 1} tokens than for {tokens}")
    for chunks in range(TOKENS // planner.chunk + 1):
        length = prefix(chunks)
        if count(length) > chunks:
            found.append(f"{chunks} chunks become {count(length)}")
        if length > prefix(chunks + 1):
            found.append(f"a shorter prefix for {chunks + 1} chunks than for {chunks}")
        states = [unit for unit, group in zip(planner.units, planner.groups, strict=True) if group.kind == "mamba"]
        if any(length % size for size in (planner.hash_block, *states)):
            found.append(f"prefix {length} of {chunks} chunks is no boundary")
    return found


def plain_minimum(planner: HybridPlanner, chunks: int) -> int:
    """The prefix as proposed (H2): what all groups cover, whether or not they can go on there."""
    return min(planner.covered(index, chunks) for index in range(len(planner.groups)))


def count_as_proposed(planner: HybridPlanner, tokens: int) -> int:
    """The count as proposed (H2): by bisection, the greatest up to one more than are filled whose prefix fits."""
    low, high = 0, tokens // planner.chunk + 1
    while low < high:
        middle = (low + high + 1) // 2
        if plain_minimum(planner, middle) <= tokens:
            low = middle
        else:
            high = middle - 1
    return low


def by_size(planner: HybridPlanner) -> tuple[int, int, int, tuple[int, ...]]:
    blocks = tuple(group.block for group in planner.groups)
    return (planner.hash_block, len(blocks), planner.chunk, blocks)


SMALLEST_FIRST = sorted((p for p in PLANNERS if all(g.kind == "mamba" for g in p.groups)), key=by_size)


def smallest_wrong(count, prefix) -> tuple[tuple[int, int, tuple[int, ...]], str]:
    """The smallest sizes at which a planner with these two is wrong, and what is wrong there first."""
    for planner in SMALLEST_FIRST:
        found = faults(planner, partial(count, planner), partial(prefix, planner))
        if found:
            return (planner.hash_block, planner.chunk, tuple(group.block for group in planner.groups)), found[0]
    raise AssertionError("nothing is wrong with it")


def test_h2_the_count_as_proposed_counts_a_chunk_for_no_tokens():
    assert smallest_wrong(count_as_proposed, plain_minimum) == ((1, 2, (3,)), "1 chunks for 0 tokens")


def test_h2_the_plain_minimum_is_no_boundary():
    """With our way of counting, so that nothing else is wrong. 3 tokens: the first group has states at 2 and 4."""
    wrong = smallest_wrong(HybridPlanner.chunks_for, plain_minimum)
    assert wrong == ((1, 2, (2, 3)), "prefix 3 of 2 chunks is no boundary")


MISTAKES = {
    "S19: a chunk that the tokens do not fill counts": (lambda p, t: -(-t // p.chunk), HybridPlanner.prefix),
    "S19: one more than are filled": (lambda p, t: t // p.chunk + 1, HybridPlanner.prefix),
    "the prefix is rounded up": (HybridPlanner.chunks_for, lambda p, k: -(-p.prefix(k) // 6) * 6),
    "the chunks themselves": (HybridPlanner.chunks_for, lambda p, k: k * p.chunk),
    "a boundary of the wrong group": (HybridPlanner.chunks_for, lambda p, k: k * p.chunk // p.units[-1] * p.units[-1]),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_in_the_arithmetic_is_caught(mistake):
    smallest_wrong(*MISTAKES[mistake])


# Sizes (H1).

FULL = Group(4, "full")
WRONG_SIZES = {
    "no hash block": (lambda: HybridPlanner(0, 4, [FULL]), "a hash block and a chunk hold tokens, got 0 and 4"),
    "no chunk": (lambda: HybridPlanner(2, 0, [FULL]), "got 2 and 0"),
    "negative chunk": (lambda: HybridPlanner(2, -2, [FULL]), "got 2 and -2"),
    "chunk": (lambda: HybridPlanner(4, 6, [FULL]), "a chunk of 6 tokens is no multiple of the hash block of 4"),
    "group": (
        lambda: HybridPlanner(4, 8, [FULL, Group(6, "mamba")]),
        "the block of group 1, 6 tokens, is no multiple of the hash block of 4",
    ),
    "no group": (lambda: HybridPlanner(4, 8, []), "there is no group"),
    "offload block": (
        lambda: HybridPlanner(2, 8, [FULL, Group(6, "mamba")], offload_block=8),
        "an offload block of 8 tokens is no multiple of group 1's block of 6",
    ),
    "no offload block": (lambda: HybridPlanner(2, 8, [FULL], offload_block=0), "offload block holds at least one"),
    "no longest request": (lambda: HybridPlanner(2, 8, [FULL], max_tokens=0), "longest request has at least one token"),
    "empty block": (lambda: Group(0, "full"), "a block holds at least one token, got 0"),
    "no kind": (
        lambda: Group(4, "linear"),  # type: ignore[arg-type]
        "'full', 'window' or 'mamba', not 'linear'",
    ),
    "no window": (lambda: Group(4, "window"), "a window of 0 tokens means nothing to a group of kind 'window'"),
    "negative window": (lambda: Group(4, "full", -1), "a window of -1 tokens means nothing"),
    "window of a mamba group": (lambda: Group(4, "mamba", 4), "means nothing to a group of kind 'mamba'"),
}


@pytest.mark.parametrize("case", WRONG_SIZES)
def test_h1_wrong_sizes_are_refused_in_one_sentence(case):
    make, words = WRONG_SIZES[case]
    with pytest.raises(ValueError, match=words):
        make()


def test_h1_an_offload_block_of_whole_blocks_is_fine():
    assert HybridPlanner(2, 8, [FULL, Group(6, "mamba")], offload_block=12).units == (4, 6)


@pytest.mark.parametrize("method", ["chunks_for", "prefix", "can_store"])
def test_a_negative_count_is_refused(method):
    with pytest.raises(ValueError, match="must not be negative, got -1"):
        getattr(HybridPlanner(2, 8, [FULL]), method)(-1)
    with pytest.raises(ValueError, match="must not be negative"):
        HybridPlanner(2, 8, [FULL]).covered(0, -1)


def test_a_real_model():
    """24 mamba layers with blocks of 1056 tokens and 8 of attention, in chunks of 528: both blocks are split."""
    planner = HybridPlanner(16, 528, [Group(1056, "mamba"), Group(1056, "full")])
    assert planner.units == (528, 528)
    assert [planner.prefix(chunks) for chunks in range(4)] == [0, 528, 1056, 1584]
    assert planner.chunks_for(23_000) == 43
    # With chunks of 256, which do not divide the block, states end at whole blocks only.
    assert HybridPlanner(16, 256, [Group(1056, "mamba"), Group(1056, "full")]).first_storable == 5


@pytest.mark.parametrize(
    ("group", "expected"),
    [
        (Group(4, "full"), [0, 0, 0, 0, 0, 0]),
        (Group(4, "window", 3), [0, 0, 0, 1, 2, 3]),
        (Group(4, "window", 1), [0, 1, 2, 3, 4, 5]),
        (Group(4, "mamba"), [0, 0, 1, 2, 3, 4]),
    ],
    ids=lambda value: str(value),
)
def test_h4_what_a_group_needs_to_go_on(group, expected):
    assert [group.first_needed(tokens) for tokens in range(6)] == expected


# What can never be stored (H3).


def test_h3_what_can_never_be_stored_is_said_at_start():
    words = (
        r"nothing can ever be stored: with chunks of 256 tokens the first prefix takes 5 of them, "
        r"and max_tokens is 1279; a max_tokens of 1280 would do, or a chunk of 16"
    )
    with pytest.warns(RuntimeWarning, match=words):
        HybridPlanner(16, 256, [Group(1056, "mamba")], max_tokens=1279)


def test_h3_no_chunk_is_offered_where_none_would_do():
    with pytest.warns(RuntimeWarning, match=r"a max_tokens of 16 would do$") as told:
        HybridPlanner(16, 16, [Group(32, "mamba")], max_tokens=15)
    assert [warning.filename for warning in told] == [__file__], "it is about who asked for that"


def test_h3_what_the_warning_offers_would_do_and_else_there_is_none():
    for planner in PLANNERS:
        enough = planner.first_storable * planner.chunk
        for max_tokens in range(1, enough + 1):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                HybridPlanner(planner.hash_block, planner.chunk, planner.groups, max_tokens=max_tokens)
                assert len(caught) == (max_tokens < enough)
                offered = [planner.hash_block] if caught and "chunk of" in str(caught[0].message) else []
                assert not caught or bool(offered) == (max_tokens >= planner.hash_block)
                for chunk in offered:
                    HybridPlanner(planner.hash_block, chunk, planner.groups, max_tokens=max_tokens)
                    assert len(caught) == 1
