"""The small driver in JavaScript (docs/examples/small-driver): five calls of a pool, behind a pipe."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from kvproof.engines.driver import conformance
from kvproof.engines.driver.command import Driver
from kvproof.engines.session import Session

from .test_exec import LIMITS, hunted

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "small-driver"


def driver(*more: str) -> tuple[str, ...]:
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed: the example is in JavaScript")
    return (node, str(EXAMPLE / "driver.js"), *more)


def test_it_conforms_and_is_right_and_short() -> None:
    with Session.of(Driver(driver()), LIMITS) as session:
        assert conformance.check(session).failed == []
    assert hunted(driver(), 100).findings == []
    assert len((EXAMPLE / "driver.js").read_text().splitlines()) <= 60


@pytest.mark.parametrize("fault", ["no-touch", "no-parent"])
def test_a_planted_fault_is_found(fault: str) -> None:
    rules = {finding.violation.rule for finding in hunted(driver(fault), 60, seconds=120).findings}
    assert {"P6", "P3"} & rules


FORKS = """
"use strict";
const { serve } = require("EXAMPLE/kvproof.js");
const { Pool } = require("EXAMPLE/pool.js");

class Forks {
  constructor(blocks, blockTokens) {
    Object.assign(this, { pool: new Pool(blocks, blockTokens), copies: [] });
  }
  lookup(request) { return this.pool.lookup(request.tokens); }
  allocate(request, tokens) {
    const { pool } = this, table = pool.tables.get(request.name);
    const at = Math.floor(request.computed / pool.blockTokens), inside = request.computed % pool.blockTokens > 0;
    if (!table || !inside || request.computed >= tokens || pool.ref[table[at]] < 2) {
      return pool.allocate(request.name, request.found, tokens);
    }
    if (Math.ceil(tokens / pool.blockTokens) - table.length + 1 > pool.free.length) return null;
    const block = pool.take();
    if (process.argv[2] !== "no-copy") this.copies.push([table[at], block]);
    pool.ref[table[at]] -= 1;
    table[at] = block;
    return pool.allocate(request.name, request.found, tokens);
  }
  fork(request, child) {
    const table = [...this.pool.tables.get(request.name)];
    for (const block of table) this.pool.ref[block] += 1;
    this.pool.tables.set(child.name, table);
    return table;
  }
  takeCopies() { return this.copies.splice(0); }
  commit(request, tokens) { this.pool.register(request.name, request.tokens.slice(0, tokens)); }
  free(request) { this.pool.release(request.name); }
  refCounts() { return this.pool.ref; }
  freeQueue() { return this.pool.free; }
}

serve(Forks);
"""


def test_a_manager_that_forks_is_asked_to(tmp_path: Path) -> None:
    node, *_ = driver()
    file = tmp_path / "forks.js"
    file.write_text(FORKS.replace("EXAMPLE", str(EXAMPLE)))
    with Session.of(Driver((node, str(file))), LIMITS) as session:
        assert conformance.check(session).failed == []
    assert hunted((node, str(file)), 100).findings == []
    broken = {finding.violation.rule for finding in hunted((node, str(file), "no-copy"), 60, seconds=120).findings}
    assert "P6" in broken
