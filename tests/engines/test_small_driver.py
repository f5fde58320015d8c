"""The small driver in JavaScript (docs/examples/small-driver): five calls of a pool, behind a pipe."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from .test_exec import conforms, hunted

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "small-driver"


def driver(*more: str) -> tuple[str, ...]:
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed: the example is in JavaScript")
    return (node, str(EXAMPLE / "driver.js"), *more)


def test_it_conforms_and_is_right_and_short() -> None:
    conforms(driver())
    assert hunted(driver(), 100).findings == []
    assert len((EXAMPLE / "driver.js").read_text().splitlines()) <= 60


@pytest.mark.parametrize("fault", ["no-touch", "no-parent"])
def test_a_planted_fault_is_found(fault: str) -> None:
    rules = {finding.violation.rule for finding in hunted(driver(fault), 150, seconds=120).findings}
    assert {"P6", "P3"} & rules


LAST = """
"use strict";
const { serve } = require("EXAMPLE/kvproof.js");
const { Pool } = require("EXAMPLE/pool.js");

// What is computed is taken to be of the request that was given blocks last.
class KnowsTheLast {
  static oneByOne = process.argv[2] === "one-by-one";
  constructor(blocks, blockTokens) { this.pool = new Pool(blocks, blockTokens); }
  lookup(request) { return this.pool.lookup(request.tokens); }
  allocate(request, tokens) {
    this.last = request.name;
    return this.pool.allocate(request.name, request.found, tokens);
  }
  commit(request, tokens) { this.pool.register(this.last, request.tokens.slice(0, tokens)); }
  free(request) { this.pool.release(request.name); }
}

serve(KnowsTheLast);
"""


def test_several_requests_share_a_forward_pass(tmp_path: Path) -> None:
    node, *_ = driver()
    file = tmp_path / "last.js"
    file.write_text(LAST.replace("EXAMPLE", str(EXAMPLE)))
    broken = hunted((node, str(file)), 150, seconds=120).findings
    assert {finding.violation.rule for finding in broken} & {"P6", "L2"}
    assert all("several in a forward pass" in finding.needs for finding in broken)
    assert hunted((node, str(file), "one-by-one"), 60).findings == []


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
    conforms((node, str(file)))
    assert hunted((node, str(file)), 100).findings == []
    broken = {finding.violation.rule for finding in hunted((node, str(file), "no-copy"), 60, seconds=120).findings}
    assert "P6" in broken


HOST = """
"use strict";
const { keyOf, serve } = require("EXAMPLE/kvproof.js");
const { Pool } = require("EXAMPLE/pool.js");
const fault = process.argv[2];

// The pool with a mirror of it on the host, which forgets what was stored first.
class Mirrors {
  constructor(blocks, blockTokens, hostBlocks) {
    Object.assign(this, { pool: new Pool(blocks, blockTokens), size: blockTokens, hostBlocks, blockOf: new Map() });
  }
  lookup(request) { return this.pool.lookup(request.tokens); }
  allocate(request, tokens) { return this.pool.allocate(request.name, request.found, tokens); }
  hostLookup(request) {
    const found = [];
    for (let end = (request.found.length + 1) * this.size; end < request.tokens.length; end += this.size) {
      const key = keyOf(request.tokens.slice(0, end));
      if (!this.blockOf.has(key)) break;
      found.push(this.blockOf.get(key));
    }
    return found;
  }
  load(request, table) {
    if (fault === "not loaded") return [];
    const into = table.slice(request.found.length, request.found.length + request.onHost.length);
    if (fault === "in reverse") into.reverse();
    return request.onHost.map((block, n) => [block, into[n]]);
  }
  store(requests) {
    const copies = [];
    for (const { name, tokens, computed } of requests) {
      for (let n = 0; (n + 1) * this.size <= computed; n++) {
        const key = keyOf(tokens.slice(0, (n + 1) * this.size));
        if (this.blockOf.has(key)) continue;
        let block = this.blockOf.size;
        if (block >= this.hostBlocks) {
          const [[first, free]] = this.blockOf;
          block = free;
          if (fault !== "keeps the key") this.blockOf.delete(first);
        }
        this.blockOf.set(key, block);
        copies.push([this.pool.tables.get(name)[n], block]);
      }
    }
    return copies;
  }
  hostCached() { return this.blockOf; }
  commit(request, tokens) { this.pool.register(request.name, request.tokens.slice(0, tokens)); }
  free(request) { this.pool.release(request.name); }
  refCounts() { return this.pool.ref; }
  freeQueue() { return this.pool.free; }
}

serve(Mirrors);
"""


def test_a_manager_with_a_host_tier_is_asked_to_mirror_and_to_load(tmp_path: Path) -> None:
    node, *_ = driver()
    file = tmp_path / "mirrors.js"
    file.write_text(HOST.replace("EXAMPLE", str(EXAMPLE)))
    conforms((node, str(file)))
    right = hunted((node, str(file)), 200)
    assert right.findings == []
    assert right.activity.external_tokens, "loads from the host"
    for fault in ("in reverse", "not loaded", "keeps the key"):
        broken = {each.violation.rule for each in hunted((node, str(file), fault), 200, seconds=120).findings}
        assert broken & {"P6", "P11"}, fault


def fake(name: str, *fault: str) -> tuple[str, ...]:
    """A manager of the tests' own, driven by the kit."""
    node, *_ = driver()
    return (node, str(Path(__file__).parent / "fakes" / name), str(EXAMPLE), *fault)


def test_stores_and_loads_may_take_time() -> None:
    conforms(fake("slow_host.js"))
    right = hunted(fake("slow_host.js"), 200)
    assert right.findings == []
    assert right.activity.external_tokens, "loads from the host"
    assert right.sight is not None
    assert not {"O3", "O6", "O8", "O9", "P6 (host)"} & {*right.sight.unjudged}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "rule"),
    [
        ("never found", "O6"),
        ("stores nothing", "O9"),
        ("no pin", "P2"),
        ("no hold", "P2"),
        ("found too early", "P6"),
        ("registers at once", "P6"),
    ],
)
def test_what_goes_wrong_while_a_copy_is_under_way_is_found(fault: str, rule: str) -> None:
    assert rule in {each.violation.rule for each in hunted(fake("slow_host.js", fault), 200, seconds=120).findings}


def test_groups_of_layers_have_tables_of_their_own() -> None:
    conforms(fake("hybrid_pool.js"))
    assert hunted(fake("hybrid_pool.js"), 200).findings == []


@pytest.mark.slow
@pytest.mark.parametrize(("fault", "rule"), [("short window", "P6"), ("keeps all", "D7"), ("one map", "P14")])
def test_what_is_wrong_with_one_group_is_found(fault: str, rule: str) -> None:
    assert rule in {each.violation.rule for each in hunted(fake("hybrid_pool.js", fault), 500, seconds=120).findings}
