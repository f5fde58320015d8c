package main

// The server around a block manager: it admits requests, lets them compute and grow, and tells what happened in the
// effects of the worker protocol (docs/protocol.md).

import (
	"fmt"
	"slices"
)

// Request is what the scheduler knows of one.
type Request struct {
	Name     string
	Tokens   []int // Its prompt, and what was sampled since.
	Found    []int // The blocks that its last lookup found.
	OnHost   []int // The host blocks that hold what follows them.
	Computed int   // So many of its tokens are computed, or were found.

	FoundIn, OnHostIn [][]int // What was found, of each group of layers: Found and OnHost are the first one's.

	tables [][]int
	told   int
}

// Manager is what has to be there; what follows it may be.
type Manager interface {
	Lookup(r *Request) []int
	Allocate(r *Request, tokens int) (table []int, room bool)
	Commit(r *Request, tokens int)
	Free(r *Request)
}

// Forker lets another request go on where one is, with all that it has: it returns the child's table, or that there is
// no room.
type Forker interface {
	Fork(r, child *Request) (table []int, room bool)
}

// Copier returns what is to be copied from block to block since it was asked last, before anything more is computed.
type Copier interface{ TakeCopies() [][2]int }

// Key names the tokens up to the end of a block.
func Key(tokens []int) string { return fmt.Sprint(tokens) }

// RefCounter shows the reference count of each block.
type RefCounter interface{ RefCounts() []int }

// DeviceCacher shows the device's map: the block of each Key.
type DeviceCacher interface{ Cached() map[string]int }

// FreeQueuer shows the free blocks, those first that are taken next.
type FreeQueuer interface{ FreeQueue() []int }

type object = map[string]any

// arguments are those of all operations, and the setup's options.
type arguments struct {
	Op             string // What is begun.
	Request, Child string
	Prompt, Tokens []int
	Requests       []string
	Most           int
	Pick, Failed   int
}

type system struct {
	size     int
	layers   Layers
	made     any // The manager, as it was created.
	manager  GroupManager
	host     *hostSide // Nil: there is none.
	requests map[string]*Request
	arrived  []string // The names of the requests in the order in which they came.
	running  []string // Those that run, in the order in which they were admitted.
	effects  []any
	numbers  map[string]int

	begun   []arguments // What the next batch is made of.
	passing []pass
	shared  bool // Whether a forward pass is being put together.
	cutting bool // Whether nobody waits for the result of the next one.
}

// done is what an operation answers; one that had nothing to be done to answers skipped.
type done struct {
	result  any
	skipped bool
}

var skipped = done{skipped: true}

var operations = map[string]func(*system, arguments) done{
	"start": (*system).start, "resume": (*system).resume, "step": (*system).step, "grow": (*system).grow,
	"fork": (*system).fork, "mirror": (*system).mirror, "loaded": (*system).loaded,
	"finish": (*system).finish, "abort": (*system).abort, "preempt": (*system).preempt, "drain": (*system).drain,
}

func (s *system) tell(effect ...any) { s.effects = append(s.effects, effect) }

func (s *system) start(a arguments) done {
	if s.requests[a.Request] != nil || s.loading(a.Request) != nil {
		return skipped
	}
	r := &Request{Name: a.Request, Tokens: append([]int{}, a.Prompt...)}
	s.requests[r.Name], s.arrived = r, append(s.arrived, r.Name)
	s.tell("request", r.Name, object{"tokens": a.Prompt})
	return s.admit(r, a.Most)
}

func (s *system) resume(a arguments) done {
	r := s.requests[a.Request]
	if r == nil || slices.Contains(s.running, r.Name) || s.loading(r.Name) != nil {
		return skipped
	}
	return s.admit(r, 0)
}

func (s *system) admit(r *Request, most int) done {
	s.tellKeys(r)
	r.FoundIn, r.OnHostIn = s.each(s.manager.LookupGroups(r)), s.each(nil)
	r.Found, r.OnHost = r.FoundIn[0], nil
	if s.host != nil {
		r.OnHostIn = s.each(s.host.tier.HostLookupGroups(r))
		r.OnHost = r.OnHostIn[0]
	}
	local, cached := len(r.Found)*s.size, (len(r.Found)+len(r.OnHost))*s.size
	until := bounded(len(r.Tokens), cached, most)
	tables, room := s.allocate(r, until)
	if !room {
		return done{result: false}
	}
	found := r.FoundIn
	if len(r.OnHost) > 0 {
		if _, takesTime := s.made.(SlowLoader); takesTime {
			return s.beginToLoad(&load{request: r, tables: tables, local: local, external: cached - local, until: until})
		}
		tellCopied(s.tell, "host", "device", s.host.tier.LoadGroups(r, s.each(tables)))
		found = s.first(tables, cached)
	}
	r.Computed = min(cached, len(r.Tokens))
	s.running = append(s.running, r.Name)
	s.tell("lookup", r.Name, local, cached-local, len(r.Tokens)-1)
	s.tell("found", r.Name, s.each(found), cached)
	return s.compute(r, tables, max(until, r.Computed))
}

// beginToLoad lets a request that has its blocks wait for what comes from the host: until then it does nothing else.
func (s *system) beginToLoad(l *load) done {
	r := l.request
	found := s.each(r.FoundIn)
	s.host.beginLoad(l)
	s.tell("lookup", r.Name, l.local, l.external, len(r.Tokens)-1)
	s.tell("found", r.Name, found, l.local)
	s.tellTables(r, l.tables)
	return done{result: true}
}

// loaded ends one of the loads under way. What of it has failed is computed by later steps.
func (s *system) loaded(a arguments) done {
	if s.host == nil || len(s.host.loads) == 0 {
		return skipped
	}
	_, groups := s.made.(GroupManager)
	if groups {
		a.Failed = 0
	}
	l, came := s.host.endLoad(a.Pick, a.Failed)
	r := l.request
	r.Computed = l.local + came*s.size
	if groups { // There are copies for each of them.
		r.Computed = l.local + l.external
	}
	s.made.(SlowLoader).Loaded(r, r.Computed)
	s.running = append(s.running, r.Name)
	if l.aborted {
		s.letGo(r)
	} else if r.Computed == l.local+l.external {
		s.compute(r, l.tables, max(l.until, r.Computed))
	}
	return done{}
}

func (s *system) loading(name string) *load {
	if s.host == nil {
		return nil
	}
	return s.host.loading(name)
}

// mirror ends a store that is under way, and copies to the host what of these requests' blocks is worth it.
func (s *system) mirror(a arguments) done {
	if s.host == nil {
		return skipped
	}
	s.host.endStore(len(a.Requests))
	those := []*Request{}
	for _, name := range a.Requests {
		if r := s.runs(name); r != nil {
			those = append(those, r)
		}
	}
	s.host.beginStores(those)
	return done{}
}

func (s *system) step(a arguments) done {
	r := s.runs(a.Request)
	if r == nil || r.Computed >= len(r.Tokens) {
		return skipped
	}
	until := bounded(len(r.Tokens), r.Computed, a.Most)
	tables, room := s.allocate(r, until)
	if !room {
		return done{result: false}
	}
	return s.compute(r, tables, until)
}

func (s *system) grow(a arguments) done {
	r := s.runs(a.Request)
	if r == nil || r.Computed < len(r.Tokens) {
		return skipped
	}
	before := len(r.Tokens)
	r.Tokens = append(r.Tokens, a.Tokens...)
	tables, room := s.allocate(r, len(r.Tokens))
	if !room {
		r.Tokens = r.Tokens[:before]
		return done{result: false}
	}
	s.tell("append", r.Name, a.Tokens)
	s.tellKeys(r)
	return s.compute(r, tables, len(r.Tokens))
}

func (s *system) fork(a arguments) done {
	r := s.runs(a.Request)
	if r == nil || r.Computed < len(r.Tokens) || s.requests[a.Child] != nil {
		return skipped
	}
	child := &Request{Name: a.Child, Tokens: copied(r.Tokens), Computed: r.Computed}
	tables, room := forked(s.made, r, child)
	s.tellCopies()
	if !room {
		return done{result: false}
	}
	s.requests[child.Name], s.arrived = child, append(s.arrived, child.Name)
	s.running = append(s.running, child.Name)
	s.tell("request", child.Name, object{"tokens": copied(child.Tokens), "fork": r.Name})
	s.tellKeys(child)
	s.tellTables(child, tables)
	s.tell("found", child.Name, s.first(child.tables, child.Computed), child.Computed)
	s.tell("processed", child.Name, child.Computed)
	return done{result: true}
}

// allocate returns the request's whole tables, with room for so many tokens.
func (s *system) allocate(r *Request, tokens int) (tables [][]int, room bool) {
	tables, room = s.manager.AllocateGroups(r, tokens)
	s.tellCopies()
	return s.each(tables), room
}

func (s *system) tellCopies() {
	if m, copies := s.made.(Copier); copies {
		tellCopied(s.tell, "device", "device", m.TakeCopies())
	}
}

func (s *system) tellTables(r *Request, tables [][]int) {
	r.tables = s.each(tables)
	for g, table := range r.tables {
		s.tell("table", r.Name, g, 0, table)
	}
}

func (s *system) compute(r *Request, tables [][]int, until int) done {
	start := r.Computed
	s.tellTables(r, tables)
	if start < until {
		s.tell("compute", r.Name, start, append([]int{}, r.Tokens[start:until]...))
	}
	if s.cutting {
		s.letGo(r)
		s.tell("preempted", r.Name)
		return done{result: true}
	}
	r.Computed = until
	if s.shared {
		s.passing = append(s.passing, pass{r, until})
	} else {
		s.process(r, until)
	}
	return done{result: true}
}

// process lets the manager hear what was computed, and store of it what it likes.
func (s *system) process(r *Request, until int) {
	s.manager.Commit(r, until)
	s.tell("processed", r.Name, until)
	if s.host != nil {
		if _, takesTime := s.made.(SlowStorer); takesTime {
			s.host.beginStores([]*Request{r})
		}
	}
}

// tellKeys lets the tokens themselves stand for hash keys.
func (s *system) tellKeys(r *Request) {
	keys := []int{}
	for end := s.size; end <= len(r.Tokens); end += s.size {
		keys = append(keys, s.number(Key(r.Tokens[:end])))
	}
	if len(keys) > r.told {
		s.tell("keys", r.Name, r.told, keys[r.told:])
	}
	r.told = len(keys)
}

func (s *system) number(key string) int {
	if _, known := s.numbers[key]; !known {
		s.numbers[key] = len(s.numbers)
	}
	return s.numbers[key]
}

func (s *system) letGo(r *Request) {
	s.manager.Free(r)
	s.running = without(s.running, r.Name)
	r.tables, r.Found, r.OnHost, r.FoundIn, r.OnHostIn, r.Computed = nil, nil, nil, nil, nil, 0
}

// leave lets a request be over; one that waits for a load has its blocks until nobody writes to them any more.
func (s *system) leave(r *Request, how string) done {
	if slices.Contains(s.running, r.Name) {
		s.letGo(r)
	} else if l := s.loading(r.Name); l != nil {
		l.aborted = true
	}
	delete(s.requests, r.Name)
	s.arrived = without(s.arrived, r.Name)
	s.tell("end", r.Name, how)
	return done{}
}

func (s *system) finish(a arguments) done {
	if r := s.runs(a.Request); r != nil {
		return s.leave(r, "finished")
	}
	return skipped
}

func (s *system) abort(a arguments) done {
	if r := s.requests[a.Request]; r != nil {
		return s.leave(r, "aborted")
	}
	return skipped
}

func (s *system) preempt(a arguments) done {
	r := s.runs(a.Request)
	if r == nil {
		return skipped
	}
	s.letGo(r)
	s.tell("preempted", r.Name)
	return done{}
}

// comeToRest ends all that is under way.
func (s *system) comeToRest() {
	for s.host != nil && (len(s.host.loads) > 0 || len(s.host.stores) > 0) {
		s.loaded(arguments{})
		s.host.endStore(0)
	}
}

func (s *system) drain(arguments) done {
	steps := 0
	s.comeToRest()
	for _, name := range append([]string{}, s.running...) {
		s.finish(arguments{Request: name})
		steps++
	}
	for _, name := range append([]string{}, s.arrived...) {
		s.comeToRest()
		if s.resume(arguments{Request: name}).result == true {
			s.comeToRest()
			s.finish(arguments{Request: name})
			steps += 2
		}
	}
	s.comeToRest()
	return done{result: object{"left": len(s.requests), "pending": 0, "steps": steps}}
}

func (s *system) runs(name string) *Request {
	if slices.Contains(s.running, name) {
		return s.requests[name]
	}
	return nil
}

func (s *system) state() object {
	device, tables := object{}, object{}
	if m, shows := s.made.(RefCounter); shows {
		device["ref"] = copied(m.RefCounts())
	}
	if m, shows := s.made.(FreeQueuer); shows {
		device["free"] = copied(m.FreeQueue())
	}
	if cached := cachedOf(s.made); cached != nil {
		device["cached"] = s.entries(cached)
	}
	for _, name := range s.running {
		tables[name] = s.tablesOf(s.requests[name])
	}
	told := object{"pools": object{"device": device}, "tables": tables, "pending": 0}
	if s.host != nil {
		for _, l := range s.host.loads {
			if !l.aborted {
				tables[l.request.Name] = s.tablesOf(l.request)
			}
		}
		told["pools"] = object{"device": device, "host": s.onHost()}
		told["holds"], told["pending"] = s.host.holds(), len(s.host.stores)+len(s.host.loads)
	}
	told["waiting"], told["running"] = len(s.requests)-len(tables), len(tables)
	return told
}

func (s *system) onHost() object {
	host := object{}
	if cached := hostCachedOf(s.made); cached != nil {
		host["cached"] = s.entries(cached)
	}
	if m, shows := s.made.(HostRefCounter); shows {
		host["ref"] = copied(m.HostRefCounts())
	}
	return host
}

func (s *system) tablesOf(r *Request) [][]int {
	if m, shows := s.made.(Tabler); shows {
		return s.each(m.Tables(r))
	}
	return r.tables
}

// entries returns the maps of the groups, of blocks by Key, in the order of the numbers that their keys have.
func (s *system) entries(maps []map[string]int) [][]any {
	cached := [][]any{}
	for g, blocks := range maps {
		keys := []string{}
		for key := range blocks {
			keys = append(keys, key)
		}
		slices.Sort(keys)
		for _, key := range keys {
			cached = append(cached, []any{s.number(key), g, []int{blocks[key]}})
		}
	}
	return cached
}

// each returns a copy of what there is of each group, or nothing of each where there is nothing.
func (s *system) each(tables [][]int) [][]int {
	all := make([][]int, len(s.layers.Windows))
	for g := range all {
		all[g] = []int{}
		if g < len(tables) {
			all[g] = copied(tables[g])
		}
	}
	return all
}

// first returns of each group the blocks of so many first tokens.
func (s *system) first(tables [][]int, tokens int) [][]int {
	those := s.each(tables)
	for g, table := range those {
		those[g] = table[:min(len(table), (tokens+s.size-1)/s.size)]
	}
	return those
}

// bounded returns how many tokens are computed after a step of at most so many (0: all) from start on.
func bounded(tokens, start, most int) int {
	if most > 0 && start+most < tokens {
		return start + most
	}
	return tokens
}

func copied(numbers []int) []int { return append([]int{}, numbers...) }

func without(names []string, name string) []string {
	return slices.DeleteFunc(names, func(each string) bool { return each == name })
}
