"""Small machines that show faults which machines drawn at random show only now and then."""

from __future__ import annotations

__all__ = ["SHOWN"]

HEADER = """
from kvproof.machine import *

class A(Sort): ...
class W(A, extra=("TOP",)): ...
class I(Index): ...

class M(Machine):
"""

SHOWN: dict[str, str] = {
    "rounds_read_sizes_from_before": HEADER
    + """    l = Queue(A, by=A)
    n = Map(A, to=Int)
    @action("X")
    def act(self):
        with self.each(A) as b:
            with when(~self.l[b].has(b)):
                self.l[b].push_back(b)
                self.n[b] = self.l[b].size
    @step("X", of="act")
    def st(self, before: "M", a: A) -> Bool:
        return implies(~before.l[a].has(a), self.n[a] == before.l[a].size)
""",
    "counts_go_on_behind_the_last_index": HEADER
    + """    f = Map(A, to=Bool)
    c = Count(A, by=I, where=lambda m, a, i: m.f[a])
    @action("X")
    def act(self, a: A):
        self.require(~self.f[a])
        self.f[a] = True
    @step("X", of="act")
    def st(self, before: "M", i: I) -> Bool:
        return self.c[i + 1] == before.c[i + 1] + 1
""",
    "heads_are_tails": HEADER
    + """    l = Queue(A, init=True)
    x = Scalar(to=optional(A))
    @action("X")
    def act(self):
        self.require(~self.l.is_empty())
        self.x.value = self.l.head()
    @step("X", of="act")
    def st(self, before: "M", a: A) -> Bool:
        return implies(before.l.has(a) & (a != self.x.value), before.l.before(a, self.x.value))
""",
    "listeners_hear_nothing": HEADER
    + """    knows = Map(A, to=Bool)
    told = Event(A, heard=lambda m, a: m.hear(a))
    def hear(self, a):
        self.knows[a] = True
    @action("X")
    def act(self, a: A):
        self.told(a)
    @invariant("X")
    def inv(self, a: A) -> Bool:
        return ~self.knows[a]
""",
    "rounds_of_each_may_meet": HEADER
    + """    m = Map(A, to=Int)
    p = Param(to=A)
    @action("X")
    def act(self):
        with self.each(A) as b:
            self.m[b] = self.m[self.p.value] + 1
    @step("X", of="act")
    def st(self, before: "M", a: A) -> Bool:
        return self.m[a] == before.m[self.p.value] + 1
""",
    "rounds_of_each_may_read_each_other": HEADER
    + """    m = Map(A, to=Int)
    p = Param(to=A)
    @action("X")
    def act(self):
        with self.each(A) as b:
            self.m[b] = self.m[self.p.value] + 1
    @step("X", of="act")
    def st(self, before: "M", a: A) -> Bool:
        return self.m[a] == before.m[self.p.value] + 1
""",
    "scratch_is_not_asked_before_a_loop": HEADER
    + """    s = Scalar(to=Int, scratch=True)
    x = Scalar(to=Int)
    @action("X")
    def act(self, n: Int):
        self.s.value = 1
        with self.loop(2, facts=lambda i, entry: {"f": self.s.value == entry.s.value}) as lo:
            self.x.value = self.s.value
        self.s.value = 0
    @invariant("X")
    def inv1(self) -> Bool:
        return self.s.value == 0
    @invariant("X")
    def inv2(self) -> Bool:
        return self.x.value == 0
""",
    "values_are_read_where_they_are_used": HEADER
    + """    x = Scalar(to=Int)
    y = Scalar(to=Int)
    @action("X")
    def act(self):
        v = self.x.value
        self.x.value = v + 1
        self.y.value = v
    @step("X", of="act")
    def st(self, before: "M") -> Bool:
        return self.y.value == before.x.value + 1
""",
    "conditions_are_forgotten": HEADER
    + """    x = Scalar(to=Int)
    @action("X")
    def act(self):
        with when(self.x.value == 1):
            self.x.value = 0
    @step("X", of="act")
    def st(self, before: "M") -> Bool:
        return self.x.value == 0
    @action("X")
    def act2(self):
        self.x.value = 2
""",
    "the_other_way_is_forgotten": HEADER
    + """    x = Scalar(to=Int)
    @action("X")
    def act(self):
        with when(self.x.value == 1):
            self.x.value = 2
        with otherwise():
            self.x.value = 0
    @step("X", of="act")
    def st(self, before: "M") -> Bool:
        return self.x.value == 0
    @action("X")
    def act2(self):
        self.x.value = 1
""",
    "scratch_may_stay": HEADER
    + """    s = Scalar(to=Int, scratch=True)
    x = Scalar(to=Int)
    @action("X")
    def act(self):
        self.x.value = self.s.value
        self.s.value = 1
    @invariant("X")
    def inv2(self) -> Bool:
        return self.x.value == 0
""",
    "steps_need_no_value": HEADER
    + """    m = Map(A, to=Int)
    x = Scalar(to=optional(A))
    @action("X")
    def act(self):
        pass
    @step("X", of="act")
    def st(self, before: "M") -> Bool:
        return self.m[self.x.value] == before.m[self.x.value]
""",
    "divisors_are_positive": HEADER
    + """    x = Scalar(to=Int)
    y = Scalar(to=Int)
    @action("X")
    def act(self):
        self.y.value = 4 // self.x.value
""",
    "scopes_hold_off_the_path": HEADER
    + """    m = Map(I, to=Bool)
    x = Scalar(to=Int)
    y = Scalar(to=Bool)
    z = Scalar(to=Bool, init=True)
    @action("X")
    def act(self, n: Int):
        with when(self.y.value & (n >= 0)):
            self.m[n] = True
        self.z.value = I.has(n)
    @invariant("X")
    def inv(self) -> Bool:
        return self.z.value
""",
    "loops_write_nothing_else": HEADER
    + """    m = Map(A, to=Int)
    @action("X")
    def act(self, n: A, k: A):
        with self.loop(2, facts=lambda i, entry: {}) as lo:
            self.m[n] = 0
            self.m[k] = 1
    @step("X", of="act")
    def st(self, before: "M", n: A, a: A) -> Bool:
        return implies(a != n, self.m[a] == before.m[a])
""",
    "rounds_of_each_have_no_end": HEADER
    + """    m = Map(W, to=Int)
    @action("X")
    def act(self):
        with self.each(A) as b:
            self.m[b] = 1
    @step("X", of="act")
    def st(self, before: "M", w: W) -> Bool:
        return self.m[w] == 1
""",
    "conditions_in_each_are_forgotten": HEADER
    + """    m = Map(A, to=Int)
    @action("X")
    def act(self):
        with self.each(A) as b:
            with when(self.m[b] == 0):
                self.m[b] = 3
    @action("X")
    def act2(self, a: A):
        self.m[a] = 2
    @step("X", of="act")
    def st(self, before: "M", w: A) -> Bool:
        return self.m[w] == 3
""",
    "properties_need_no_value": HEADER
    + """    x = Scalar(to=Int)
    @action("X")
    def act(self):
        pass
    @invariant("X")
    def inv(self) -> Bool:
        return (4 // self.x.value) == (4 // self.x.value)
""",
    "indices_are_several": HEADER
    + """    x = Scalar(to=Int)
    @action("X")
    def act(self, i: I):
        self.x.value = 1
    @invariant("X")
    def inv(self) -> Bool:
        return I.has(1)
""",
    "a_write_moves_one_count": HEADER
    + """    m = Map(A, A, to=Bool)
    c = Count((A,), where=lambda s, a, b, k: s.m[a, b] | s.m[a, k], by=(A, A))
    @action("X")
    def act(self, n: A, j: A):
        self.m[n, j] = True
    @step("X", of="act")
    def st(self, before: "M", j: A, b: A, k: A) -> Bool:
        return implies(b != j, self.c[b, k] == before.c[b, k])
""",
    "counts_are_never_touched": HEADER
    + """    m = Map(A, to=Bool)
    x = Scalar(to=Bool)
    c = Count(A, where=lambda s, a: s.m[a])
    @action("X")
    def act(self, n: A):
        self.m[n] = True
    @action("X")
    def act2(self):
        self.require(self.c.value == 0)
        self.x.value = True
    @invariant("X")
    def inv(self) -> Bool:
        return implies(self.x.value, self.c.value == 0)
""",
    "counts_are_compared_while_stale": HEADER
    + """    m = Map(A, to=Bool)
    c = Count(A, where=lambda s, a: s.m[a])
    d = Count(A, where=lambda s, a: s.m[a])
    @action("X")
    def act(self):
        with self.each(A) as b:
            self.m[b] = True
    @step("X", of="act")
    def st(self, before: "M") -> Bool:
        return self.c.value <= before.d.value
""",
    "loops_end_at_their_count": HEADER
    + """    x = Scalar(to=Int)
    @action("X")
    def act(self, n: Int):
        self.require(n > 0)
        start = self.x.value
        facts = lambda i, entry: {"one each": self.x.value == entry.x.value + i}
        with self.loop(n, going=lambda i: start < 1, facts=facts) as lo:
            self.x.value = self.x.value + 1
    @step("X", of="act")
    def st(self, before: "M", n: Int) -> Bool:
        return self.x.value == before.x.value + n
""",
    "one_case_is_enough": HEADER
    # Where nothing is said of all elements, Z3 has a model before the cases are split.
    + """    x = Map(A, to=Int)
    y = Scalar(to=Bool)
    @action("X")
    def act(self, a: A):
        with when(self.y.value):
            self.x[a] = 1
        with otherwise():
            self.x[a] = 2
    @invariant("X")
    def inv(self, a: A) -> Bool:
        return self.x[a] >= 0
    @step("X", of="act")
    def st(self, before: "M", a: A) -> Bool:
        return self.x[a] == 1
""",
}
"""By fault: a machine whose property, or text, is wrong, and that is proved with the fault."""
