// A pool with a host tier whose stores and loads take time, for the kit of docs/examples/go-driver, beside which it is
// built. With a fault, which is named on the command line, it is wrong on demand.
package main

import "os"

// SlowHost is the pool, and a host that forgets what was stored first.
type SlowHost struct {
	*Pool
	fault  string
	ready  map[string]int
	order  *[]string // Of the keys that are ready, the one that was stored first before the others.
	keyAt  []string
	pinned []int
}

type stored struct {
	key           string
	block, source int
}

func (s SlowHost) Lookup(r *Request) []int       { return s.Pool.Lookup(r.Tokens) }
func (s SlowHost) Commit(r *Request, tokens int) { s.Register(r.Name, r.Tokens[:tokens]) }
func (s SlowHost) Free(r *Request)               { s.Release(r.Name) }
func (s SlowHost) RefCounts() []int              { return s.ref }
func (s SlowHost) FreeQueue() []int              { return s.free }
func (s SlowHost) HostCached() map[string]int    { return s.ready }
func (s SlowHost) HostRefCounts() []int          { return s.pinned }
func (s SlowHost) Store([]*Request) [][2]int     { panic("stores take time") }
func (s SlowHost) Allocate(r *Request, tokens int) ([]int, bool) {
	return s.Pool.Allocate(r.Name, r.Found, tokens)
}

func (s SlowHost) HostLookup(r *Request) []int {
	found := []int{}
	for end := (len(r.Found) + 1) * s.blockTokens; end < len(r.Tokens) && s.fault != "never found"; end += s.blockTokens {
		block, there := s.ready[Key(r.Tokens[:end])]
		if !there {
			break
		}
		found = append(found, block)
	}
	return found
}

func (s SlowHost) Load(r *Request, table []int) [][2]int {
	copies := [][2]int{}
	for n, block := range r.OnHost {
		s.pin(block, 1)
		copies = append(copies, [2]int{block, table[len(r.Found)+n]})
	}
	return copies
}

func (s SlowHost) Loaded(r *Request, tokens int) {
	for _, block := range r.OnHost {
		s.pin(block, -1)
	}
	s.Register(r.Name, r.Tokens[:tokens])
}

func (s SlowHost) pin(block, by int) {
	if s.fault != "no pin" {
		s.pinned[block] += by
	}
}

// room returns a block of the host that nobody reads or writes, or -1: one without a key, or what was stored first.
func (s SlowHost) room() int {
	for block, key := range s.keyAt {
		if key == "" && s.pinned[block] == 0 {
			return block
		}
	}
	for n, key := range *s.order {
		if block := s.ready[key]; s.pinned[block] == 0 {
			*s.order = append(append([]string{}, (*s.order)[:n]...), (*s.order)[n+1:]...)
			delete(s.ready, key)
			return block
		}
	}
	return -1
}

func (s SlowHost) StoreJobs(running []*Request) []Job {
	jobs, known := []Job{}, map[string]bool{}
	for _, key := range s.keyAt {
		known[key] = true
	}
	for _, r := range running {
		for n, end := 0, s.blockTokens; end <= r.Computed; n, end = n+1, end+s.blockTokens {
			key := Key(r.Tokens[:end])
			if known[key] {
				continue
			}
			block := s.room()
			if block < 0 {
				continue
			}
			known[key], s.keyAt[block] = true, key
			s.pinned[block]++
			source := s.tables[r.Name][n]
			if s.fault != "no hold" {
				s.ref[source]++
			}
			jobs = append(jobs, Job{stored{key, block, source}, [][2]int{{source, block}}})
		}
	}
	return jobs
}

func (s SlowHost) Stored(what any) {
	done := what.(stored)
	s.pinned[done.block]--
	s.ready[done.key] = done.block
	*s.order = append(*s.order, done.key)
	if s.fault == "no hold" {
		return
	}
	if s.ref[done.source]--; s.ref[done.source] == 0 {
		s.free = append(s.free, done.source)
	}
}

func main() {
	fault := ""
	if len(os.Args) > 1 {
		fault = os.Args[1]
	}
	ServeTiers("SlowHost", "1.0", map[string]string{"keep": "all"}, func(blocks, blockTokens, host int) SlowHost {
		pool := NewPool(blocks, blockTokens, "")
		return SlowHost{pool, fault, map[string]int{}, &[]string{}, make([]string, host), make([]int, host)}
	})
}
