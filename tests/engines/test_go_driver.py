"""The driver in Go (docs/examples/go-driver): four calls of a pool, behind a pipe."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kvproof.engines.driver import conformance
from kvproof.engines.driver.command import Driver
from kvproof.engines.session import Session

from .test_exec import LIMITS, hunted

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "go-driver"


def built(folder: Path, program: Path) -> str:
    """What is in a folder, built by the compiler of this environment or of this machine, and with no other module."""
    go = shutil.which("go", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
    if go is None:
        pytest.skip("go is not installed: the example is in Go")
    here = {**os.environ, "GOTOOLCHAIN": "local", "GOPROXY": "off", "GOFLAGS": "-mod=mod"}
    subprocess.run([go, "build", "-o", str(program), "."], cwd=folder, env=here, check=True)
    return str(program)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The example."""
    return built(EXAMPLE, tmp_path_factory.mktemp("go") / "pool")


def test_it_conforms_and_is_right_and_short(program: str) -> None:
    with Session.of(Driver((program,)), LIMITS) as session:
        assert conformance.check(session).failed == []
    assert hunted((program,), 100).findings == []
    assert len((EXAMPLE / "main.go").read_text().splitlines()) <= 60


@pytest.mark.parametrize("fault", ["no-touch", "no-parent"])
def test_a_planted_fault_is_found(program: str, fault: str) -> None:
    rules = {finding.violation.rule for finding in hunted((program, fault), 60, seconds=10).findings}
    assert {"P6", "P3"} & rules


def test_a_panic_is_a_finding_with_the_line_that_raised_it(program: str) -> None:
    findings = hunted((program, "panic"), 30, seconds=5).findings
    assert {finding.violation.rule for finding in findings} == {"L2"}
    assert "pool.go" in findings[0].violation.text + str(findings[0])


FORKS = """
package main

import "os"

type Forks struct {
	pool   *Pool
	copies *[][2]int
}

func (f Forks) Lookup(r *Request) []int { return f.pool.Lookup(r.Tokens) }

func (f Forks) Allocate(r *Request, tokens int) ([]int, bool) {
	table, at := f.pool.tables[r.Name], r.Computed/f.pool.blockTokens
	if r.Computed%f.pool.blockTokens > 0 && r.Computed < tokens && at < len(table) && f.pool.ref[table[at]] > 1 {
		if (tokens+f.pool.blockTokens-1)/f.pool.blockTokens-len(table)+1 > len(f.pool.free) {
			return nil, false
		}
		block := f.pool.take()
		if len(os.Args) < 2 {
			*f.copies = append(*f.copies, [2]int{table[at], block})
		}
		f.pool.ref[table[at]]--
		table[at] = block
	}
	return f.pool.Allocate(r.Name, r.Found, tokens)
}

func (f Forks) Fork(r, child *Request) ([]int, bool) {
	table := copied(f.pool.tables[r.Name])
	for _, block := range table {
		f.pool.ref[block]++
	}
	f.pool.tables[child.Name] = table
	return table, true
}

func (f Forks) TakeCopies() [][2]int {
	copies := *f.copies
	*f.copies = nil
	return copies
}

func (f Forks) Commit(r *Request, tokens int) { f.pool.Register(r.Name, r.Tokens[:tokens]) }
func (f Forks) Free(r *Request)               { f.pool.Release(r.Name) }
func (f Forks) RefCounts() []int              { return f.pool.ref }
func (f Forks) FreeQueue() []int              { return f.pool.free }

func main() {
	Serve("Forks", "1.0", map[string]string{"keep": "all"}, func(blocks, blockTokens int) Forks {
		return Forks{NewPool(blocks, blockTokens, ""), &[][2]int{}}
	})
}
"""


def test_a_manager_that_forks_is_asked_to(tmp_path: Path) -> None:
    for name in ("go.mod", "kvproof.go", "scheduler.go", "pool.go"):
        shutil.copy(EXAMPLE / name, tmp_path)
    (tmp_path / "main.go").write_text(FORKS)
    forks = built(tmp_path, tmp_path / "forks")
    with Session.of(Driver((forks,)), LIMITS) as session:
        assert conformance.check(session).failed == []
    assert hunted((forks,), 100).findings == []
    broken = {finding.violation.rule for finding in hunted((forks, "no-copy"), 60, seconds=120).findings}
    assert "P6" in broken
