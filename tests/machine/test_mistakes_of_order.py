"""Statements that stand where they may not, and writes of what may not be written, are refused."""

from __future__ import annotations

from kvproof.machine import Bool, Count, Int, Machine, Model, action, forall, otherwise, when

from .mistakes import ELSEWHERE, Base, Block, Request, in_action, in_property, mistake

# -------------------------------------------------------------------------------- the order of statements


def test_require_after_a_write() -> None:
    def body(self: Base, b: Block, r: Request, n: Int) -> None:
        self.count[b] = 1
        self.require(self.flag.value)  # wrong

    assert in_action(body).startswith("`require` after a write")


def test_require_after_when() -> None:
    def body(self: Base, b: Block, r: Request, n: Int) -> None:
        with when(self.flag.value):
            pass
        self.require(self.flag.value)  # wrong

    assert in_action(body).startswith("`require` after a write")


def test_require_inside_a_quantifier() -> None:
    def body(self: Base, b: Block, r: Request, n: Int) -> None:
        def has_none(c: Block) -> Bool:
            self.require(self.count[c] == 0)  # wrong
            return self.free.has(c)

        self.require(forall(Block, has_none))

    assert in_action(body).startswith("`require` inside a quantified formula")


def test_require_inside_when() -> None:
    def body(self: Base, b: Block, r: Request, n: Int) -> None:
        with when(self.flag.value):
            self.require(self.count[b] == 0)  # wrong

    assert in_action(body).startswith("`require` inside `when`")


def test_require_inside_otherwise() -> None:
    def body(self: Base, b: Block, r: Request, n: Int) -> None:
        with when(self.flag.value):
            self.count[b] = 1
        with otherwise():
            self.require(self.count[b] == 0)  # wrong

    assert in_action(body).startswith("`require` inside `otherwise`")


def test_require_inside_each() -> None:
    def body(self: Base, b: Block, r: Request, n: Int) -> None:
        with self.each(Block) as c:
            self.require(self.count[c] == 0)  # wrong

    assert in_action(body).startswith("`require` inside `each`")


def test_require_inside_a_loop() -> None:
    def body(self: Base, b: Block, r: Request, n: Int) -> None:
        with self.loop(n):
            self.require(self.flag.value)  # wrong

    assert in_action(body).startswith("`require` inside `loop`")


def test_a_loop_inside_when() -> None:
    def body(self: Base, b: Block, r: Request, n: Int) -> None:
        with when(self.flag.value), self.loop(n):  # wrong
            self.count[b] = 1

    assert in_action(body) == "a loop stands at the top level of an action, not inside `when`"


def test_otherwise_alone() -> None:
    def body(self: Base, b: Block, r: Request, n: Int) -> None:
        with otherwise():  # wrong
            self.count[b] = 1

    assert in_action(body) == "`otherwise` stands right after a `when`"


def test_otherwise_after_something_else() -> None:
    def body(self: Base, b: Block, r: Request, n: Int) -> None:
        with when(self.flag.value):
            self.count[b] = 1
        self.count[b] = 2
        with otherwise():  # wrong
            self.count[b] = 3

    assert in_action(body) == "`otherwise` stands right after a `when`"


def test_otherwise_twice() -> None:
    def body(self: Base, b: Block, r: Request, n: Int) -> None:
        with when(self.flag.value):
            self.count[b] = 1
        with otherwise():
            self.count[b] = 2
        with otherwise():  # wrong
            self.count[b] = 3

    assert in_action(body) == "`otherwise` stands right after a `when`"


def test_otherwise_of_an_outer_when() -> None:
    def body(self: Base, b: Block, r: Request, n: Int) -> None:
        with when(self.flag.value):
            self.count[b] = 1
        with when(self.count[b] == 2), otherwise():  # wrong
            self.count[b] = 3

    assert in_action(body) == "`otherwise` stands right after a `when`"


def test_a_value_that_leaves_when() -> None:
    def body(self: Base, b: Block, r: Request, n: Int) -> None:
        with when(self.flag.value):
            seen = self.count[b]
        self.count[b] = seen + 1  # wrong

    message = in_action(body)
    assert message == f"count[b] was read {ELSEWHERE}"


def test_a_value_that_leaves_when_for_another_condition() -> None:
    def body(self: Base, b: Block, r: Request, n: Int) -> None:
        with when(self.flag.value):
            seen = self.count[b]
        with when(seen == 1):  # wrong
            self.count[b] = 0

    assert in_action(body).startswith("count[b] was read inside")


def test_a_value_that_leaves_when_as_a_key() -> None:
    def body(self: Base, b: Block, r: Request, n: Int) -> None:
        with when(self.flag.value):
            c = self.cursor.value
        self.count[b] = self.count[c]  # wrong

    assert in_action(body).startswith("cursor was read inside")


def test_a_value_that_goes_from_when_to_otherwise() -> None:
    def body(self: Base, b: Block, r: Request, n: Int) -> None:
        with when(self.flag.value):
            seen = self.count[b]
        with otherwise():
            self.count[b] = seen  # wrong

    assert in_action(body).startswith("count[b] was read inside")


def test_the_element_of_each_outside_of_it() -> None:
    def body(self: Base, b: Block, r: Request, n: Int) -> None:
        with self.each(Block) as c:
            self.count[c] = 0
        self.count[c] = 1  # wrong

    assert in_action(body) == f"b has its meaning {ELSEWHERE}"


def test_the_index_of_a_loop_after_it() -> None:
    def body(self: Base, b: Block, r: Request, n: Int) -> None:
        with self.loop(n) as loop:
            self.count[b] = 0
        self.cursor.value = self.table[r, loop.index]  # wrong

    assert in_action(body) == f"i has its meaning {ELSEWHERE}"


def test_a_value_that_leaves_an_action_as_its_result() -> None:
    def make() -> type[Machine]:
        class Wrong(Base):
            @action("P1")  # wrong
            def act(self, b: Block) -> Int:
                with when(self.flag.value):
                    seen = self.count[b]
                return seen  # noqa: RET504

        return Wrong

    assert "count[b] was read inside" in mistake(make)


# -------------------------------------------------------------------------------- what may be written


def test_writing_a_parameter() -> None:
    def body(self: Base, b: Block, r: Request, n: Int) -> None:
        self.size[b] = 3  # wrong

    assert in_action(body) == "size is a parameter: it never changes"


def test_writing_the_past() -> None:
    def body(self: Base, b: Block, r: Request, n: Int) -> None:
        type(self)("before").count[b] = 3  # wrong

    assert in_action(body) == "before.count is of the past: it cannot be changed"


def test_pushing_to_the_past() -> None:
    def body(self: Base, b: Block, r: Request, n: Int) -> None:
        type(self)("before").free.push_back(b)  # wrong

    assert in_action(body) == "before.free is of the past: it cannot be changed"


def test_writing_in_a_property() -> None:
    def body(self: Base, b: Block, r: Request) -> Bool:
        self.count[b] = 3  # wrong
        return self.flag.value

    assert in_property(body) == "a property only looks at the state; it cannot change it"


def test_requiring_in_a_property() -> None:
    def body(self: Base, b: Block, r: Request) -> Bool:
        self.require(self.flag.value)  # wrong
        return self.flag.value

    assert in_property(body) == "`require` belongs into actions"


def test_writing_under_a_quantifier() -> None:
    def body(self: Base, b: Block, r: Request, n: Int) -> None:
        def write(c: Block) -> Bool:
            self.count[c] = 0  # wrong
            return self.flag.value

        self.require(forall(Block, write))

    assert in_action(body) == "a quantified formula only looks at the state; it cannot change it"


def test_each_that_writes_a_foreign_entry() -> None:
    def body(self: Base, b: Block, r: Request, n: Int) -> None:
        with self.each(Request) as q:
            self.count[b] = 1  # wrong
            self.cursor.value = self.table[q, 0]

    assert in_action(body) == (
        "`each` writes count at an entry that is not its own: r has to stand at one place of its keys, the same in "
        "every write"
    )


def test_each_that_reads_what_another_round_writes() -> None:
    def body(self: Base, b: Block, r: Request, n: Int) -> None:
        with self.each(Block) as c:
            self.count[c] = self.count[b]  # wrong

    assert in_action(body) == "`each` reads count[b], which another round may write"


def test_each_that_reads_a_count_of_what_another_round_writes() -> None:
    def body(self: Base, b: Block, r: Request, n: Int) -> None:
        with self.each(Block) as c:
            self.count[c] = self.many.value  # wrong

    class Counts(Base):
        many = Count(Block, where=lambda m, b: m.count[b] > 0)

    def make() -> type[Machine]:
        class Wrong(Counts):
            @action("P1")
            def act(self, b: Block, r: Request, n: Int) -> None:
                body(self, b, r, n)

        return Wrong

    assert "`each` reads the count many, which another round may change" in mistake(make)


def test_each_that_reads_a_count_of_something_else() -> None:
    class Right(Base):
        others = Count(Block, by=Request, where=lambda m, b, r: m.owner[b] == r)

        @action("P1")
        def act(self, r: Request) -> None:
            with self.each(Block) as b, when(self.free.size > self.others[r]):
                self.count[b] = self.others[r]

    assert list(Model.of(Right).actions) == ["act"]


def test_each_that_pushes() -> None:
    def body(self: Base, b: Block, r: Request, n: Int) -> None:
        with self.each(Block) as c:
            self.free.push_back(c)  # wrong

    assert in_action(body).startswith("pushes to free for each ")


def test_each_inside_each() -> None:
    def body(self: Base, b: Block, r: Request, n: Int) -> None:
        with self.each(Block) as c, self.each(Request) as q:  # wrong
            self.owner[c] = q

    assert in_action(body) == "`each` holds plain statements and `when` only"
