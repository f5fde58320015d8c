"""Copies of an implementation in the midst of a run have nothing in common with it that could change."""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch

from kvproof.checkers.lockstep import Lockstep, Specs
from kvproof.harness.forking import forked
from kvproof.harness.instances import Instance
from kvproof.harness.levels import LEVELS


@dataclass(slots=True)
class Node:
    """A part that knows its neighbours."""

    number: int
    after: Node | None = None


@dataclass
class Whole:
    data: torch.Tensor
    view: torch.Tensor
    nodes: list[Node]
    order: OrderedDict[int, deque[int]] = field(default_factory=lambda: OrderedDict({2: deque([1]), 1: deque([2])}))
    call: Any = None

    def double(self) -> torch.Tensor:
        return self.data * 2


def whole() -> Whole:
    data, nodes = torch.zeros(4), [Node(0), Node(1)]
    nodes[0].after, nodes[1].after = nodes[1], nodes[0]
    made = Whole(data, data, nodes)
    made.call = made.double
    return made


def test_nothing_that_changes_is_shared() -> None:
    one = whole()
    two = forked(one)
    two.data[0] = 7
    two.nodes[0].number = 9
    two.order[2].append(5)
    two.order.move_to_end(2)
    assert one.data.tolist() == [0, 0, 0, 0]
    assert [node.number for node in one.nodes] == [0, 1]
    assert list(one.order.items()) == [(2, deque([1])), (1, deque([2]))]


def test_what_is_held_together_stays_together() -> None:
    two = forked(whole())
    two.data[0] = 7
    assert two.view is two.data
    assert two.nodes[0].after is two.nodes[1]
    assert two.nodes[1].after is two.nodes[0]
    assert two.call().tolist() == [14, 0, 0, 0], "a bound method is one of the copy"


def test_classes_need_no_name_and_functions_stay_the_same() -> None:
    class Local:
        def __init__(self) -> None:
            self.key = lambda: 3
            self.kind = Local

    one = Local()
    two = forked(one)
    assert type(two) is Local
    assert two is not one
    assert (two.key, two.kind) == (one.key, Local)


@pytest.mark.parametrize("level", ["pool", "mirror", "pin", "tiered", "offload"])
def test_a_fork_of_every_level_goes_on_by_itself(level: str) -> None:
    """Each goes on with other steps, and agrees with the machine at each of them."""
    chosen = LEVELS[level]
    instance = Instance.from_seed(3, machine=chosen.model.machine)
    one = Lockstep(Specs(chosen.model, chosen.target), chosen.target(instance))
    for number in range(60):
        two = one.fork()
        shown = two.target.flat()
        possible = [(a, args) for a in chosen.model.actions for args in one.enabled(a)]
        action, args = possible[number * 7 % len(possible)]
        assert one.do(action, args) is None
        assert two.target.flat() == shown, "what one does, the other does not"
        other, others = possible[(number * 7 + 3) % len(possible)]
        assert two.do(other, others) is None
