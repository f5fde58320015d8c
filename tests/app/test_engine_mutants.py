"""The mutants of an engine's module (`benchmarks/engine_mutants/`): each has one thing wrong, and runs."""

from pathlib import Path

from benchmarks.engine_mutants.mutating import mutants, traced

SOURCE = '''
from __future__ import annotations

LIMIT = 3


class Pool:
    """Blocks."""

    def take(self, n: int) -> list[int]:
        """Take blocks."""
        if n > len(self.free) or not n:
            logger.warning("no room for %d", n)
            return []
        self.taken += n
        return [self.free.pop() for _ in range(max(n - 1, 0) + 1)]

    def unreached(self) -> None:
        self.taken = 0
'''


def _of(lines: set[int]) -> list[str]:
    return [mutant.what for mutant in mutants(SOURCE, lines)]


def test_each_statement_that_is_reached_is_mutated() -> None:
    assert _of({12}) == [
        "True for: n > len(self.free) or not n",
        "False for: n > len(self.free) or not n",
        "without n > len(self.free): n > len(self.free) or not n",
        "without not n: n > len(self.free) or not n",
        "other sign: n > len(self.free)",
    ]
    assert _of({15}) == ["drop: self.taken += n", "other sign: self.taken += n"]
    assert set(_of({16})) == {
        "other sign: max(n - 1, 0) + 1", "left side alone: max(n - 1, 0) + 1", "other function: max(n - 1, 0)",
        "other sign: n - 1", "left side alone: n - 1", "1 for 0", "2 for 1", "other end: self.free.pop()",
    }  # fmt: skip
    assert _of({11, 13, 20}) == []


def test_one_thing_is_wrong_in_each_and_the_next_is_made_of_the_whole() -> None:
    all_of_it = [*mutants(SOURCE, set(range(30)))]
    texts = {mutant.source for mutant in all_of_it}
    assert len(texts) == len({(mutant.line, mutant.column, mutant.what) for mutant in all_of_it})
    for text in texts:
        compile(text, "mutant", "exec")
    assert {mutant.function for mutant in all_of_it} == {"Pool.take", "Pool.unreached"}


def test_statements_change_places_where_names_allow_it() -> None:
    source = """
def give_back(self, block):
    number = block.number
    block.ref_cnt -= 1
    if not block.ref_cnt:
        self.free.append(number)
        self.told += list(self.news)[1:]
    return number
"""
    found = {mutant.what: mutant.source for mutant in mutants(source, set(range(10)))}
    swapped = [what for what in found if what.startswith("behind the next")]
    assert swapped == [
        "behind the next: number = block.number",
        "behind the next: block.ref_cnt -= 1",
        "behind the next: self.free.append(number)",
    ]
    assert found[swapped[0]].index("ref_cnt -= 1") < found[swapped[0]].index("number = ")
    assert {"other end: self.free.append(number)", "not copied: list(self.news)"} <= found.keys()
    assert "self.told += list(self.news)[:]" in found["from the beginning: list(self.news)[1:]"]


def test_a_traced_module_tells_the_lines_that_ran(tmp_path: Path) -> None:
    sink = tmp_path / "lines"
    names: dict[str, type] = {}
    exec(compile(traced(SOURCE, str(sink)), "traced", "exec"), names)
    pool = names["Pool"]()
    pool.free, pool.taken = [1, 2, 3], 0
    assert pool.take(2) == [3, 2]
    assert {12, 15, 16} <= {int(line) for line in sink.read_text().split()} <= {11, 12, 15, 16}
    pool.unreached()
    assert 19 in {int(line) for line in sink.read_text().split()}
