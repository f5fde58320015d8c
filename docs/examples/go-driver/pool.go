package main

import "fmt"

// Pool is a small block pool with a prefix cache. It knows nothing of kvproof. With a fault it is wrong on demand.
type Pool struct {
	blockTokens int
	fault       string
	ref, free   []int // The head of free is taken next.
	keyOf       []string
	cached      map[string]int
	tables      map[string][]int
}

// NewPool makes a pool whose blocks are all free.
func NewPool(blocks, blockTokens int, fault string) *Pool {
	p := &Pool{blockTokens: blockTokens, fault: fault, cached: map[string]int{}, tables: map[string][]int{}}
	p.ref, p.keyOf = make([]int, blocks), make([]string, blocks)
	for b := range p.ref {
		p.free = append(p.free, b)
	}
	return p
}

// A key names all tokens up to the end of its block.
func (p *Pool) keys(tokens []int) []string {
	var keys []string
	for end := p.blockTokens; end <= len(tokens); end += p.blockTokens {
		start := 0
		if p.fault == "no-parent" {
			start = end - p.blockTokens
		}
		keys = append(keys, fmt.Sprint(tokens[start:end]))
	}
	return keys
}

// Lookup returns the blocks that hold the beginning of these tokens. The last token has to be computed in any case.
func (p *Pool) Lookup(tokens []int) []int {
	found := []int{}
	for _, key := range p.keys(tokens[:len(tokens)-1]) {
		block, there := p.cached[key]
		if !there {
			break
		}
		found = append(found, block)
	}
	return found
}

// Allocate returns blocks for so many tokens in all; a table that is new takes hold of what was found.
func (p *Pool) Allocate(name string, found []int, tokens int) ([]int, bool) {
	table, known := p.tables[name]
	if known {
		found = nil
	}
	missing, idle := (tokens+p.blockTokens-1)/p.blockTokens-len(table)-len(found), 0
	for _, block := range found {
		if p.ref[block] == 0 {
			idle++
		}
	}
	if missing > len(p.free)-idle {
		return nil, false
	}
	for _, block := range found {
		p.touch(block)
	}
	table = append(table, found...)
	for ; missing > 0; missing-- {
		table = append(table, p.take())
	}
	p.tables[name] = table
	return table, true
}

func (p *Pool) touch(block int) {
	p.ref[block]++
	if p.ref[block] > 1 || p.fault == "no-touch" {
		return
	}
	for at, b := range p.free {
		if b == block {
			p.free = append(p.free[:at], p.free[at+1:]...)
			return
		}
	}
}

func (p *Pool) take() int {
	block := p.free[0]
	p.free = p.free[1:]
	delete(p.cached, p.keyOf[block])
	p.keyOf[block], p.ref[block] = "", 1
	return block
}

// Register says that these tokens are computed: the blocks that they fill can be found from now on.
func (p *Pool) Register(name string, tokens []int) {
	for n, key := range p.keys(tokens) {
		block := p.tables[name][n]
		if _, there := p.cached[key]; !there && p.keyOf[block] == "" {
			p.cached[key], p.keyOf[block] = block, key
		}
	}
}

// Release gives back a request's blocks, the last one first.
func (p *Pool) Release(name string) {
	table := p.tables[name]
	if p.fault == "panic" {
		table = append(table, len(p.ref))
	}
	for n := len(table) - 1; n >= 0; n-- {
		p.ref[table[n]]--
		if p.ref[table[n]] == 0 {
			p.free = append(p.free, table[n])
		}
	}
	delete(p.tables, name)
}
