"""The arithmetic of a launch of ``triton_copy``: where runs lie, what must hold, and the grid. Integers only, no torch.

A run is what one item has in one plane, contiguous in memory. All sizes, strides and places are counted in words, the
integers that the kernel moves.

What must hold is written once, in ``conditions``. ``check_launch`` refuses what breaks it, and the proofs of
``tests/smt/test_kernel_addresses.py`` assume it, and nothing else, of the same text run on symbolic numbers. That is
why it is written with operators alone: no ``if``, no ``and``.
"""

from collections.abc import Iterator
from typing import NamedTuple

MOST_WORDS_PER_PROGRAM = 2048
"""Words that one program moves at most: 16 KiB at the widest word, enough loads in flight per program."""

MOST_WORDS = 2**59
"""Words of a tensor at most: 2**62 bytes at the widest word, so that offsets in bytes stay within 64 bits."""

MOST_PROGRAMS = (2**31 - 1, 65_535)
"""CUDA's limits of the first two dimensions of a grid. What can be large, items and chunks, is in the first."""


class Layout(NamedTuple):
    """Where runs lie in a tensor: that of (place, plane) begins at word ``place * item + plane * plane_stride``."""

    places: int
    item: int
    plane: int
    words: int


class Launch(NamedTuple):
    """Runs of ``run`` words, ``items`` times ``planes`` of them; a program moves ``width`` words of one run."""

    source: Layout
    destination: Layout
    items: int
    planes: int
    run: int
    width: int


def pool_layout(planes: int, blocks: int, run: int) -> Layout:
    """Return the layout of a contiguous ``[planes, blocks, run]``: a block pool, or a staging buffer of its shape."""
    plane = blocks * run
    return Layout(blocks, run, plane, planes * plane)


def rows_layout(count: int, planes: int, run: int) -> Layout:
    """Return the layout of a contiguous ``[count, planes, run]``: values that come item by item."""
    item = planes * run
    return Layout(count, item, run, count * item)


def chunks_of(launch: Launch) -> int:
    """Return how many programs share a run."""
    return (launch.run + launch.width - 1) // launch.width


def grid_of(launch: Launch) -> tuple[int, int]:
    """Return the grid: program (p, q) moves chunk ``p % chunks`` of item ``p // chunks`` in plane q."""
    return launch.items * chunks_of(launch), launch.planes


def conditions(launch: Launch) -> Iterator[tuple[str, bool]]:
    """Yield what the kernel relies on, each with whether it holds; a later one may need the earlier to make sense.

    Beyond this it relies on its tables: ids are places, and no destination comes twice. ``copy.py`` checks that.
    """
    items, planes, run, width = launch.items, launch.planes, launch.run, launch.width
    yield "there are items, planes and words to move", (items >= 1) & (planes >= 1) & (run >= 1)
    yield f"a program moves from 1 to {MOST_WORDS_PER_PROGRAM} words", (width >= 1) & (width <= MOST_WORDS_PER_PROGRAM)
    grid = grid_of(launch)
    yield f"a plane has at most {MOST_PROGRAMS[0]} chunks to move", grid[0] <= MOST_PROGRAMS[0]
    yield f"there are at most {MOST_PROGRAMS[1]} planes", grid[1] <= MOST_PROGRAMS[1]
    yield "no stride of the source is negative", (launch.source.item >= 0) & (launch.source.plane >= 0)
    for side, layout in (("source", launch.source), ("destination", launch.destination)):
        last = (layout.places - 1) * layout.item + (planes - 1) * layout.plane
        yield f"the last run of the {side} lies within it", last + run <= layout.words
        yield f"the {side} has at most {MOST_WORDS} words", layout.words <= MOST_WORDS
        strides = (layout.item <= MOST_WORDS) & (layout.plane <= MOST_WORDS)
        yield f"no stride of the {side} exceeds {MOST_WORDS} words", strides
    item, plane = launch.destination.item, launch.destination.plane
    places_in_planes = (item >= run) & (plane >= launch.destination.places * item)
    planes_in_places = (plane >= run) & (item >= planes * plane)
    yield "runs of the destination do not overlap", places_in_planes | planes_in_places


def check_launch(launch: Launch) -> None:
    """Require what the kernel relies on.

    Raises:
        ValueError: naming what does not hold. The kernel must not be launched then: it may write anywhere.
    """
    for condition, holds in conditions(launch):
        if not holds:
            raise ValueError(f"a launch where this does not hold: {condition}; {launch}")
