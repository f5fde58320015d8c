// A pool of a model with full attention and a sliding window, and a host tier behind it, for the kit of
// docs/examples/go-driver, beside which it is built. With a fault, which is named on the command line, it is wrong on
// demand.
package main

import "os"

const null, window = 0, 5

// Hybrid has two tables for each request: one of full attention, one of the window.
type Hybrid struct {
	size, most int
	fault      string
	tables     map[string][][]int
	maps, host [2]map[string]int
	ref, free  []int
	keyAt      map[int]entry
}

type entry struct {
	key   string
	group int
}

func newHybrid(blocks, size, host int, fault string) *Hybrid {
	p := &Hybrid{size: size, most: host, fault: fault, tables: map[string][][]int{}, ref: make([]int, blocks+1)}
	p.keyAt = map[int]entry{}
	for g := range p.maps {
		p.maps[g], p.host[g] = map[string]int{}, map[string]int{}
	}
	for block := 1; block <= blocks; block++ {
		p.free = append(p.free, block)
	}
	return p
}

func (p *Hybrid) key(r *Request, block int) string { return Key(r.Tokens[:(block+1)*p.size]) }

// firstNeeded is the first block of a group that somebody needs who goes on behind so many tokens.
func (p *Hybrid) firstNeeded(group, tokens int) int {
	reaches := window
	if p.fault == "short window" {
		reaches -= 2
	}
	if group == 0 {
		return 0
	}
	return max(0, tokens-reaches+1) / p.size
}

// row returns the blocks of a group from one place to another, null where nobody needs them; false: one is missing.
func (p *Hybrid) row(r *Request, in map[string]int, group, from, until int) ([]int, bool) {
	found := []int{}
	for n := from; n < until; n++ {
		if n < p.firstNeeded(group, until*p.size) {
			found = append(found, null)
		} else if block, there := in[p.key(r, n)]; there {
			found = append(found, block)
		} else {
			return nil, false
		}
	}
	return found, true
}

func (p *Hybrid) LookupGroups(r *Request) [][]int {
	for hit := (len(r.Tokens) - 1) / p.size; hit > 0; hit-- {
		full, all := p.row(r, p.maps[0], 0, 0, hit)
		recent, enough := p.row(r, p.maps[1], 1, 0, hit)
		if all && enough {
			return [][]int{full, recent}
		}
	}
	return nil
}

// HostLookupGroups goes on behind what was found. Of the window nobody needs more of that than was found.
func (p *Hybrid) HostLookupGroups(r *Request) [][]int {
	local := len(r.Found)
	for hit := (len(r.Tokens) - 1) / p.size; hit > local && p.fault != "never found"; hit-- {
		full, all := p.row(r, p.host[0], 0, local, hit)
		recent, enough := p.row(r, p.host[1], 1, local, hit)
		if all && enough {
			return [][]int{full, recent}
		}
	}
	return nil
}

func (p *Hybrid) AllocateGroups(r *Request, tokens int) ([][]int, bool) {
	tables, known := p.tables[r.Name]
	found, onHost := r.FoundIn, r.OnHostIn
	if known {
		p.giveUp(r, tables[1])
		found, onHost = [][]int{nil, nil}, [][]int{nil, nil}
	} else {
		tables = [][]int{nil, nil}
	}
	length, wanted := (tokens+p.size-1)/p.size, 0
	behind := p.firstNeeded(1, (len(found[0])+len(onHost[0]))*p.size)
	for g := range tables {
		for n := len(tables[g]) + len(found[g]); n < length; n++ {
			if !p.unneeded(g, n, behind, onHost) {
				wanted++
			}
		}
		for _, block := range found[g] {
			if block != null && p.ref[block] == 0 {
				wanted++
			}
		}
	}
	if wanted > len(p.free) {
		return nil, false
	}
	for g := range tables {
		for _, block := range found[g] {
			p.hold(block)
		}
		tables[g] = append(tables[g], found[g]...)
	}
	for g := range tables {
		for n := len(tables[g]); n < length; n++ {
			if p.unneeded(g, n, behind, onHost) {
				tables[g] = append(tables[g], null)
			} else {
				tables[g] = append(tables[g], p.take())
			}
		}
	}
	p.tables[r.Name] = tables
	return tables, true
}

// unneeded tells whether a block stands for what is loaded of full attention alone, so far back that no window reads it.
func (p *Hybrid) unneeded(group, n, behind int, onHost [][]int) bool {
	return group == 1 && len(onHost[0]) > 0 && n < behind
}

// giveUp lets go of what lies behind the window.
func (p *Hybrid) giveUp(r *Request, table []int) {
	for n := p.firstNeeded(1, r.Computed) - 1; n >= 0 && p.fault != "keeps all"; n-- {
		p.drop(table[n])
		table[n] = null
	}
}

func (p *Hybrid) hold(block int) {
	if block == null {
		return
	}
	if p.ref[block]++; p.ref[block] == 1 {
		for at, b := range p.free {
			if b == block {
				p.free = append(append([]int{}, p.free[:at]...), p.free[at+1:]...)
				return
			}
		}
	}
}

func (p *Hybrid) drop(block int) {
	if block == null {
		return
	}
	if p.ref[block]--; p.ref[block] == 0 {
		p.free = append(p.free, block)
	}
}

func (p *Hybrid) take() int {
	block := p.free[0]
	p.free = p.free[1:]
	if was, there := p.keyAt[block]; there {
		delete(p.maps[was.group], was.key)
		delete(p.keyAt, block)
	}
	p.ref[block] = 1
	return block
}

func (p *Hybrid) LoadGroups(r *Request, tables [][]int) [][2]int {
	copies := [][2]int{}
	for g, row := range r.OnHostIn {
		from := p.firstNeeded(g, (len(r.Found)+len(r.OnHost))*p.size) - len(r.Found)
		for n := max(0, from); n < len(row); n++ {
			if p.fault == "one group" && g == 1 {
				break
			}
			copies = append(copies, [2]int{row[n], tables[g][len(r.Found)+n]})
		}
	}
	return copies
}

func (p *Hybrid) Store(running []*Request) [][2]int {
	copies := [][2]int{}
	for _, r := range running {
		for g, table := range p.tables[r.Name] {
			for n := 0; (n+1)*p.size <= r.Computed; n++ {
				there := len(p.host[0]) + len(p.host[1])
				if _, known := p.host[g][p.key(r, n)]; known || table[n] == null || there == p.most {
					continue
				}
				p.host[g][p.key(r, n)] = there
				copies = append(copies, [2]int{table[n], there})
			}
		}
	}
	return copies
}

func (p *Hybrid) Commit(r *Request, tokens int) {
	for g, table := range p.tables[r.Name] {
		of := g
		if p.fault == "one map" {
			of = 0
		}
		for n := 0; (n+1)*p.size <= tokens; n++ {
			_, taken := p.keyAt[table[n]]
			if _, known := p.maps[of][p.key(r, n)]; table[n] != null && !taken && !known {
				p.maps[of][p.key(r, n)], p.keyAt[table[n]] = table[n], entry{p.key(r, n), of}
			}
		}
	}
}

func (p *Hybrid) Free(r *Request) {
	for _, table := range p.tables[r.Name] {
		for n := len(table) - 1; n >= 0; n-- {
			p.drop(table[n])
		}
	}
	delete(p.tables, r.Name)
}

func (p *Hybrid) Tables(r *Request) [][]int          { return p.tables[r.Name] }
func (p *Hybrid) RefCounts() []int                   { return p.ref }
func (p *Hybrid) FreeQueue() []int                   { return p.free }
func (p *Hybrid) CachedGroups() []map[string]int     { return p.maps[:] }
func (p *Hybrid) HostCachedGroups() []map[string]int { return p.host[:] }

func main() {
	fault := ""
	if len(os.Args) > 1 {
		fault = os.Args[1]
	}
	layers := Layers{Windows: []int{0, window}, NullBlock: true}
	dialect := map[string]string{"keep": "all"}
	ServeGroups("Hybrid", "1.0", dialect, layers, func(blocks, blockTokens, host int) *Hybrid {
		return newHybrid(blocks, blockTokens, host, fault)
	})
}
