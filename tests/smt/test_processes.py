"""Tasks that are shared out among processes: who does which, and what comes back of one that fails."""

import multiprocessing
import os
from typing import Any

import pytest

from kvproof.checkers.processes import _next_for, each_in


def whose(work: str, about: str, number: int) -> tuple[str, str, int]:
    return work, about, number


def process_of(work: None, about: str, number: int) -> tuple[str, int]:
    return about, os.getpid()


class Particular(Exception):
    """Is not made again from what it says."""

    def __init__(self, one: int, other: int) -> None:
        super().__init__(f"{one} and {other}")


def failing(work: type[BaseException], about: str, number: int) -> None:
    raise work(1, 2)


def ending(work: int, about: str, number: int) -> None:
    os._exit(work)


TASKS = [(about, number) for about in "abc" for number in range(3)]


@pytest.mark.parametrize("number", [1, 2, 5, 20])
def test_each_task_is_done_once(number: int) -> None:
    with each_in(number, "work") as each:
        assert sorted(each(whose, TASKS)) == [("work", *task) for task in TASKS]
        assert sorted(each(whose, TASKS[:1])) == [("work", *TASKS[0])]  # The same processes serve once more.
        assert [*each(whose, [])] == []


def test_who_began_with_something_goes_on_with_it() -> None:
    with each_in(3, None) as each:
        began = dict(each(process_of, [(about, 0) for about in "abc"]))
        again = [*each(process_of, [(about, 1) for about in "cab"])]
    assert sorted(again) == sorted(began.items())


@pytest.mark.parametrize(("number", "taken"), [(0, "own"), (2, "new")])
def test_own_comes_first_and_then_what_nobody_has(number: int, taken: str) -> None:
    left: dict[Any, list[int]] = {"others": [1, 2, 3], "new": [1], "own": [1, 2]}
    assert _next_for(number, left, {"own": 0, "others": 1}) == taken


def test_who_has_nothing_left_helps_where_most_is() -> None:
    assert _next_for(2, {"few": [1], "many": [1, 2]}, {"few": 0, "many": 1}) == "many"


@pytest.mark.parametrize(("kind", "raised"), [(ValueError, ValueError), (SystemExit, SystemExit)])
def test_what_a_task_raises_is_raised_here(kind: type[BaseException], raised: type[BaseException]) -> None:
    with pytest.raises(raised) as caught, each_in(2, kind) as each:
        [*each(failing, TASKS)]
    assert caught.value.args == (1, 2)
    assert "in failing" in str(caught.value.__cause__)


def test_what_cannot_be_sent_is_told() -> None:
    with pytest.raises(RuntimeError, match="Particular: 1 and 2"), each_in(2, Particular) as each:
        [*each(failing, TASKS)]


def test_a_process_that_ends_at_work_is_no_result() -> None:
    with pytest.raises(RuntimeError, match=r"ended while it was at work \(status 3\)"), each_in(2, 3) as each:
        [*each(ending, TASKS)]


def test_who_is_done_early_waits_for_nobody() -> None:
    before = set(multiprocessing.active_children())
    with each_in(2, "work") as each:
        next(each(whose, TASKS))
    assert set(multiprocessing.active_children()) == before
