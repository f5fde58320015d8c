// How kvproof drives the pool: four calls, and two looks at its state.
//
//	go build -o pool docs/examples/go-driver/*.go && kvproof fuzz exec:./pool
//	kvproof fuzz "exec:./pool no-touch"
package main

import "os"

// SmallPool is the pool as the kit's scheduler in scheduler.go calls it.
type SmallPool struct{ pool *Pool }

// Lookup returns the blocks that hold the beginning of the request's tokens.
func (s SmallPool) Lookup(r *Request) []int { return s.pool.Lookup(r.Tokens) }

// Allocate returns the request's whole table, long enough for so many tokens; false where there is no room.
func (s SmallPool) Allocate(r *Request, tokens int) ([]int, bool) {
	return s.pool.Allocate(r.Name, r.Found, tokens)
}

// Commit hears that the first tokens of the request are computed.
func (s SmallPool) Commit(r *Request, tokens int) { s.pool.Register(r.Name, r.Tokens[:tokens]) }

// Free lets go of all that the request holds.
func (s SmallPool) Free(r *Request) { s.pool.Release(r.Name) }

// RefCounts and FreeQueue may be left out: the rules that need them are then not judged.
func (s SmallPool) RefCounts() []int { return s.pool.ref }
func (s SmallPool) FreeQueue() []int { return s.pool.free }

func main() {
	fault := ""
	if len(os.Args) > 1 {
		fault = os.Args[1]
	}
	dialect := map[string]string{"keep": "all", "take": "head", "free": "append"}
	Serve("SmallPool", "1.0", dialect, func(blocks, blockTokens int) SmallPool {
		return SmallPool{NewPool(blocks, blockTokens, fault)}
	})
}
