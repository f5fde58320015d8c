"""Which constructs of the modelling language a text uses: the test is about all of them."""

from __future__ import annotations

import re

__all__ = ["CONSTRUCTS", "constructs"]

CONSTRUCTS = {
    "action of parameters": r'@action\("X"\)\n *def \w+\(self, ',
    "arithmetic of exact numbers": r"Fraction",
    "assume": r"@assume",
    "can": r"\bcan\(",
    "corollary": r"@corollary",
    "count": r" = Count\(",
    "count by two keys": r" = Count\(.*by=\(\w+, \w+",
    "count behind the last index": r"\bc\d+\[(?:\w+, )?\([\w.]+ \+ [01]\)",
    "count of indices": r" = Count\(\([IJ],",
    "count of pairs": r" = Count\(\(\w+, \w+",
    "count with a key": r" = Count\(.*by=\(",
    "division": r"//|%| / ",
    "each": r"\.each\(",
    "each inside a loop": r"\.loop\(.*\n(?: {12}.*\n)*? {12} *with self\.each",
    "each of two": r"\.each\(\w+, \w",
    "event": r" = Event\(",
    "event that is heard": r"heard=",
    "exists": r"\bexists\(",
    "extra elements": r"extra=",
    "first value from parameters": r"to=.*init=lambda",
    "forall": r"\bforall\(",
    "going": r"going=",
    "helper": r"def help",
    "index": r"\(Index\)",
    "Index.has": r"\b[IJ]\.has\(",
    "inheritance": r"class S\(M\)",
    "initially": r"@initially",
    "ite": r"\bite\(",
    "keyed queue": r" = Queue\(.*by=",
    "loop": r"\.loop\(",
    "map with Bool keys": r"Map\((?:\w+, )?Bool,",
    "map with two keys": r"Map\(\w+, \w+, to",
    "none": r"\bnone\b",
    "optional": r"to=optional\(",
    "optional index": r"to=optional\([IJ]\)",
    "otherwise": r"otherwise\(\)",
    "override of a helper": r"class S(?:.|\n)*def help",
    "override of an action": r"class S(?:.|\n)*super\(\)\.act",
    "parameter": r" = Param\(",
    "push_back": r"push_back",
    "push_before": r"push_before",
    "push_front": r"push_front",
    "own entry read back in a round": r"\bback\d+ = ",
    "queue": r" = Queue\(",
    "queue head or tail": r"\.(?:head|tail)\(\)",
    "queue of indices": r" = Queue\([IJ]",
    "queue order": r"\.(?:before|is_first)\(",
    "queue size": r"\.size\b",
    "remove": r"\.remove\(",
    "require": r"\.require\(",
    "result": r"\n *return v\d+",
    "scratch": r"scratch=True",
    "step property": r"@step",
    "step property of a result": r"@step.*\n.*result: ",
    "sum": r" = Sum\(",
    "sum of exact numbers": r" = Sum\(.*to=Real",
    "tally": r" = Tally\(",
    "two loops": r"as loop1(?:.|\n)*as loop2",
    "two sorts": r"class B\(Sort\)",
    "when": r"\bwhen\(",
}


def constructs(source: str) -> set[str]:
    """The constructs that the text uses."""
    return {name for name, pattern in CONSTRUCTS.items() if re.search(pattern, source)}
