package main

// The host tier of a block manager: what it stores and loads there, told as copies (docs/protocol.md). It is the same
// for every manager. Copy it beside yours.

// HostTier is a second tier, of so many blocks as a setup has as host_blocks (0: none). Copies are done when they are
// told: Load brings what was found on the host into a table behind what was found on the device, from host block to
// device block; Store is asked now and then what of all that runs is worth it, from device block to host block.
type HostTier interface {
	HostLookup(r *Request) []int
	Load(r *Request, table []int) [][2]int
	Store(running []*Request) [][2]int
}

// StoresAll is a HostTier that promises to store all there is, as long as there is room.
type StoresAll interface{ StoresAll() }

// SlowStorer is a HostTier whose stores take time: each job is handed back when its copies are done, in any order, and
// StoreJobs is asked in the place of Store, also behind each forward pass.
type SlowStorer interface {
	StoreJobs(running []*Request) []Job
	Stored(what any)
}

// Job is a store: what its manager knows it by, and its copies, from device block to host block.
type Job struct {
	What   any
	Copies [][2]int
}

// SlowLoader is a HostTier whose loads take time: the request waits, and does nothing else, until it hears how many of
// its tokens are there; the last ones of what was loaded may have failed.
type SlowLoader interface{ Loaded(r *Request, tokens int) }

// HostCacher shows the host's map: the host block of each Key.
type HostCacher interface{ HostCached() map[string]int }

// HostRefCounter shows the reference count of each host block.
type HostRefCounter interface{ HostRefCounts() []int }

// load is a request that waits for what it loads, and has its blocks meanwhile, also when it is aborted.
type load struct {
	request                *Request
	tables                 [][]int
	copies                 [][2]int
	first                  int // The number of its first copy.
	local, external, until int // Tokens: found on the device, on their way, computed when they are there.
	aborted                bool
}

type store struct {
	number int
	job    Job
}

// hostSide is a manager's host tier, with what is under way there.
type hostSide struct {
	made   any // The manager, as it was created.
	tier   GroupHostTier
	layers Layers
	tell   func(effect ...any)
	stores []store
	loads  []*load
	copies int
}

func (h *hostSide) beginStores(running []*Request) {
	slow, takesTime := h.made.(SlowStorer)
	if !takesTime {
		tellCopied(h.tell, "device", "host", h.tier.Store(running))
		return
	}
	for _, job := range slow.StoreJobs(running) {
		h.tell("copy", h.copies, "begin", places("device", "host", job.Copies))
		h.stores, h.copies = append(h.stores, store{h.copies, job}), h.copies+1
	}
}

// endStore ends one of the stores under way, if there are any.
func (h *hostSide) endStore(pick int) {
	if len(h.stores) == 0 {
		return
	}
	at := pick % len(h.stores)
	done := h.stores[at]
	h.stores = append(append([]store{}, h.stores[:at]...), h.stores[at+1:]...)
	h.tell("copy", done.number, "end", places("device", "host", done.job.Copies))
	h.made.(SlowStorer).Stored(done.job.What)
}

// beginLoad lets each copy of a load begin; any of them may fail.
func (h *hostSide) beginLoad(l *load) {
	l.copies, l.first = h.tier.LoadGroups(l.request, l.tables), h.copies
	h.loads, h.copies = append(h.loads, l), h.copies+len(l.copies)
	for n := range l.copies {
		h.tell("copy", l.first+n, "begin", places("host", "device", l.copies[n:n+1]))
	}
}

// endLoad ends one of the loads under way, of which the last copies have failed: the load, and how many have not.
func (h *hostSide) endLoad(pick, failed int) (l *load, came int) {
	at := pick % len(h.loads)
	l = h.loads[at]
	h.loads = append(append([]*load{}, h.loads[:at]...), h.loads[at+1:]...)
	came = max(0, len(l.copies)-failed)
	for n := range l.copies {
		how := "end"
		if n >= came {
			how = "fail"
		}
		h.tell("copy", l.first+n, how, places("host", "device", l.copies[n:n+1]))
	}
	return l, came
}

func (h *hostSide) loading(name string) *load {
	for _, l := range h.loads {
		if l.request.Name == name {
			return l
		}
	}
	return nil
}

// holds returns the blocks that copies read and write; what an aborted request has is its load's.
func (h *hostSide) holds() object {
	device, host := []int{}, []int{}
	for _, each := range h.stores {
		for _, pair := range each.job.Copies {
			device, host = append(device, pair[0]), append(host, pair[1])
		}
	}
	for _, l := range h.loads {
		if l.aborted {
			device = append(device, h.blocksOf(l)...)
		}
		for _, pair := range l.copies {
			host = append(host, pair[0])
		}
	}
	return object{"device": device, "host": host}
}

// blocksOf returns the blocks of a load's tables, but the one that stands for none.
func (h *hostSide) blocksOf(l *load) []int {
	blocks := []int{}
	for _, table := range l.tables {
		for _, block := range table {
			if !h.layers.NullBlock || block != 0 {
				blocks = append(blocks, block)
			}
		}
	}
	return blocks
}

func places(from, to string, pairs [][2]int) [][]any {
	told := [][]any{}
	for _, pair := range pairs {
		told = append(told, []any{from, pair[0], to, pair[1]})
	}
	return told
}

func tellCopied(tell func(effect ...any), from, to string, pairs [][2]int) {
	if len(pairs) > 0 {
		tell("copied", places(from, to, pairs))
	}
}
