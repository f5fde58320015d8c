package main

// A model whose layers have several block tables, such as full attention beside a sliding window (docs/protocol.md):
// ServeGroups serves its manager, which is what is below. It is the same for every manager. Copy it beside yours.

// Layers are the groups of a model's layers, in the order in which a manager tells their tables.
type Layers struct {
	Windows   []int // Of each group its sliding window in tokens; 0: full attention.
	NullBlock bool  // Block 0 stands where nobody needs one; those that are handed out are numbered from 1.
}

// GroupManager is a Manager of several groups of layers: it answers a table for each of them.
type GroupManager interface {
	LookupGroups(r *Request) [][]int
	AllocateGroups(r *Request, tokens int) (tables [][]int, room bool)
	Commit(r *Request, tokens int)
	Free(r *Request)
}

// GroupForker is a Forker with several groups.
type GroupForker interface {
	ForkGroups(r, child *Request) (tables [][]int, room bool)
}

// Tabler shows a request's tables as they are: what lies behind a window may be given up though it was refused more.
type Tabler interface{ Tables(r *Request) [][]int }

// GroupCacher is a DeviceCacher with a map for each group.
type GroupCacher interface{ CachedGroups() []map[string]int }

// GroupHostTier is a HostTier with several groups. A load that takes time never fails there: what a window has for one
// length of a hit it does not have for a shorter one.
type GroupHostTier interface {
	HostLookupGroups(r *Request) [][]int
	LoadGroups(r *Request, tables [][]int) [][2]int
	Store(running []*Request) [][2]int
}

// GroupHostCacher is a HostCacher with a map for each group.
type GroupHostCacher interface{ HostCachedGroups() []map[string]int }

// alone is a manager of one group as one of several.
type alone struct{ Manager }

func (m alone) LookupGroups(r *Request) [][]int { return [][]int{m.Lookup(r)} }

func (m alone) AllocateGroups(r *Request, tokens int) ([][]int, bool) {
	table, room := m.Allocate(r, tokens)
	return [][]int{table}, room
}

// tierAlone is a host tier of one group as one of several.
type tierAlone struct{ HostTier }

func (h tierAlone) HostLookupGroups(r *Request) [][]int { return [][]int{h.HostLookup(r)} }

func (h tierAlone) LoadGroups(r *Request, tables [][]int) [][2]int { return h.Load(r, tables[0]) }

// forked returns what the manager makes of a fork, as one of several groups.
func forked(manager any, r, child *Request) (tables [][]int, room bool) {
	if m, groups := manager.(GroupForker); groups {
		return m.ForkGroups(r, child)
	}
	table, room := manager.(Forker).Fork(r, child)
	return [][]int{table}, room
}

// cachedOf returns the map of each group that the manager shows of its device; nil: it shows none.
func cachedOf(manager any) []map[string]int {
	switch m := manager.(type) {
	case GroupCacher:
		return m.CachedGroups()
	case DeviceCacher:
		return []map[string]int{m.Cached()}
	}
	return nil
}

// hostCachedOf returns the same of its host.
func hostCachedOf(manager any) []map[string]int {
	switch m := manager.(type) {
	case GroupHostCacher:
		return m.HostCachedGroups()
	case HostCacher:
		return []map[string]int{m.HostCached()}
	}
	return nil
}
