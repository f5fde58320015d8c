"""The driver in Go (docs/examples/go-driver): four calls of a pool, behind a pipe."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from .test_exec import conforms, hunted

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
    conforms((program,))
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


LAST = """
package main

import "os"

// KnowsTheLast takes what is computed to be of the request that was given blocks last.
type KnowsTheLast struct {
	pool *Pool
	last *string
}

// Careful is asked for one request at a time.
type Careful struct{ KnowsTheLast }

func (Careful) OneByOne() {}

func (k KnowsTheLast) Lookup(r *Request) []int { return k.pool.Lookup(r.Tokens) }

func (k KnowsTheLast) Allocate(r *Request, tokens int) ([]int, bool) {
	*k.last = r.Name
	return k.pool.Allocate(r.Name, r.Found, tokens)
}

func (k KnowsTheLast) Commit(r *Request, tokens int) { k.pool.Register(*k.last, r.Tokens[:tokens]) }
func (k KnowsTheLast) Free(r *Request)               { k.pool.Release(r.Name) }

func main() {
	made := func(blocks, blockTokens int) KnowsTheLast {
		return KnowsTheLast{NewPool(blocks, blockTokens, ""), new(string)}
	}
	if len(os.Args) < 2 {
		Serve("KnowsTheLast", "1.0", nil, made)
	}
	Serve("Careful", "1.0", nil, func(blocks, blockTokens int) Careful { return Careful{made(blocks, blockTokens)} })
}
"""


def test_several_requests_share_a_forward_pass(tmp_path: Path) -> None:
    last = with_kit(tmp_path, LAST)
    broken = hunted((last,), 150, seconds=120).findings
    assert {finding.violation.rule for finding in broken} & {"P6", "L2"}
    assert all("several in a forward pass" in finding.needs for finding in broken)
    assert hunted((last, "one-by-one"), 60).findings == []


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


def with_kit(folder: Path, main: str) -> str:
    """A program of the kit, the example's pool and this text."""
    for name in ("go.mod", "kvproof.go", "scheduler.go", "batch.go", "host.go", "groups.go", "pool.go"):
        shutil.copy(EXAMPLE / name, folder)
    (folder / "main.go").write_text(main)
    return built(folder, folder / "driver")


def test_a_manager_that_forks_is_asked_to(tmp_path: Path) -> None:
    forks = with_kit(tmp_path, FORKS)
    conforms((forks,))
    assert hunted((forks,), 100).findings == []
    broken = {finding.violation.rule for finding in hunted((forks, "no-copy"), 60, seconds=120).findings}
    assert "P6" in broken


HOST = """
package main

import "os"

// Mirrors is the pool with a mirror of it on the host, which forgets what was stored first.
type Mirrors struct {
	*Pool
	fault  string
	blocks int
	stored *[]string
	blockOf map[string]int
}

func (m Mirrors) Lookup(r *Request) []int { return m.Pool.Lookup(r.Tokens) }

func (m Mirrors) HostLookup(r *Request) []int {
	found := []int{}
	for end := (len(r.Found) + 1) * m.blockTokens; end < len(r.Tokens); end += m.blockTokens {
		block, there := m.blockOf[Key(r.Tokens[:end])]
		if !there {
			break
		}
		found = append(found, block)
	}
	return found
}

func (m Mirrors) Allocate(r *Request, tokens int) ([]int, bool) {
	return m.Pool.Allocate(r.Name, r.Found, tokens)
}

func (m Mirrors) Load(r *Request, table []int) [][2]int {
	copies := [][2]int{}
	for n, block := range r.OnHost {
		into := len(r.Found) + n
		if m.fault == "in reverse" {
			into = len(r.Found) + len(r.OnHost) - 1 - n
		}
		copies = append(copies, [2]int{block, table[into]})
	}
	if m.fault == "not loaded" {
		copies = nil
	}
	return copies
}

func (m Mirrors) Store(running []*Request) [][2]int {
	copies := [][2]int{}
	for _, r := range running {
		for n, end := 0, m.blockTokens; end <= r.Computed; n, end = n+1, end+m.blockTokens {
			key := Key(r.Tokens[:end])
			if _, there := m.blockOf[key]; there {
				continue
			}
			block := len(*m.stored)
			if block >= m.blocks {
				first := (*m.stored)[0]
				block = m.blockOf[first]
				*m.stored = (*m.stored)[1:]
				if m.fault != "keeps the key" {
					delete(m.blockOf, first)
				}
			}
			m.blockOf[key] = block
			*m.stored = append(*m.stored, key)
			copies = append(copies, [2]int{m.tables[r.Name][n], block})
		}
	}
	return copies
}

func (m Mirrors) Commit(r *Request, tokens int)  { m.Register(r.Name, r.Tokens[:tokens]) }
func (m Mirrors) Free(r *Request)                { m.Release(r.Name) }
func (m Mirrors) RefCounts() []int               { return m.ref }
func (m Mirrors) FreeQueue() []int               { return m.free }
func (m Mirrors) HostCached() map[string]int     { return m.blockOf }

func main() {
	fault := ""
	if len(os.Args) > 1 {
		fault = os.Args[1]
	}
	ServeTiers("Mirrors", "1.0", map[string]string{"keep": "all"}, func(blocks, blockTokens, hostBlocks int) Mirrors {
		return Mirrors{NewPool(blocks, blockTokens, ""), fault, hostBlocks, &[]string{}, map[string]int{}}
	})
}
"""


def test_a_manager_with_a_host_tier_is_asked_to_mirror_and_to_load(tmp_path: Path) -> None:
    mirrors = with_kit(tmp_path, HOST)
    conforms((mirrors,))
    right = hunted((mirrors,), 200)
    assert right.findings == []
    assert right.activity.external_tokens, "loads from the host"
    for fault in ("in reverse", "not loaded", "keeps the key"):
        broken = {finding.violation.rule for finding in hunted((mirrors, fault), 200, seconds=120).findings}
        assert broken & {"P6", "P11"}, fault


@pytest.fixture(scope="module")
def slow(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A manager of the tests' own, driven by the kit."""
    return with_kit(tmp_path_factory.mktemp("slow"), (Path(__file__).parent / "fakes" / "slow_host.go").read_text())


def test_stores_and_loads_may_take_time(slow: str) -> None:
    conforms((slow,))
    right = hunted((slow,), 200)
    assert right.findings == []
    assert right.activity.external_tokens, "loads from the host"
    assert right.sight is not None
    assert not {"O6", "O8", "P6 (host)"} & {*right.sight.unjudged}


@pytest.mark.slow
@pytest.mark.parametrize(("fault", "rule"), [("never found", "O6"), ("no pin", "P2"), ("no hold", "P2")])
def test_what_goes_wrong_while_a_copy_is_under_way_is_found(slow: str, fault: str, rule: str) -> None:
    assert rule in {each.violation.rule for each in hunted((slow, fault), 200, seconds=120).findings}


@pytest.fixture(scope="module")
def hybrid(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A manager of full attention and a window, with a host tier, driven by the kit."""
    return with_kit(tmp_path_factory.mktemp("hybrid"), (Path(__file__).parent / "fakes" / "hybrid_host.go").read_text())


def test_groups_of_layers_have_tables_of_their_own(hybrid: str) -> None:
    conforms((hybrid,))
    right = hunted((hybrid,), 200)
    assert right.findings == []
    assert right.activity.external_tokens, "loads from the host"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "rule"),
    [("short window", "P6"), ("keeps all", "D7"), ("one map", "P14"), ("one group", "P6"), ("never found", "O6")],
)
def test_what_is_wrong_with_one_group_is_found(hybrid: str, fault: str, rule: str) -> None:
    assert rule in {each.violation.rule for each in hunted((hybrid, fault), 500, seconds=120).findings}
