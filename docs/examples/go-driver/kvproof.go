package main

// The worker protocol (docs/protocol.md) on standard input and output, the same for every manager: Serve starts it,
// scheduler.go is the server around the manager, batch.go what forward passes may be, host.go its host tier, groups.go
// several groups of layers; main.go says how one is called. Copy the other five beside yours.

import (
	"bufio"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
)

type message struct {
	ID        int64
	Level     string
	Setup     map[string]json.RawMessage
	Ops, More [][2]json.RawMessage
	Snapshots string
	FullAt    []int `json:"full_at"`
	Keep      bool
	Stream    bool
}

// Serve says hello and answers until standard input ends. “dialect“ says what is done where managers may differ.
func Serve[M Manager](engine, version string, dialect map[string]string, create func(blocks, blockTokens int) M) {
	ServeTiers(engine, version, dialect, func(blocks, blockTokens, _ int) M { return create(blocks, blockTokens) })
}

// ServeTiers does the same for a manager that may be a HostTier, and is made with so many host blocks.
func ServeTiers[M Manager](
	engine, version string, dialect map[string]string, create func(blocks, blockTokens, hostBlocks int) M,
) {
	var none M
	serve(kit{engine, version, dialect, Layers{Windows: []int{0}}, none, func(blocks, size, host int) any {
		return create(blocks, size, host)
	}})
}

// ServeGroups does the same for a manager of several groups of layers, which has so many blocks for all of them.
func ServeGroups[M GroupManager](
	engine, version string, dialect map[string]string, layers Layers, create func(blocks, blockTokens, hostBlocks int) M,
) {
	var none M
	serve(kit{engine, version, dialect, layers, none, func(blocks, size, host int) any {
		return create(blocks, size, host)
	}})
}

// kit is what is served: who it is, what it promises, and how a manager is made.
type kit struct {
	engine, version string
	dialect         map[string]string
	layers          Layers
	none            any // No manager, of its type: what it has is asked of that.
	create          func(blocks, blockTokens, hostBlocks int) any
}

func (k kit) tiers() bool {
	_, one := k.none.(HostTier)
	_, several := k.none.(GroupHostTier)
	return one || several
}

func (k kit) operations() []string {
	names := []string{}
	_, fork := k.none.(Forker)
	_, forkGroups := k.none.(GroupForker)
	_, waits := k.none.(SlowLoader)
	_, oneByOne := k.none.(OneByOne)
	_, neverCut := k.none.(NeverCut)
	has := map[string]bool{"fork": fork || forkGroups, "mirror": k.tiers(), "loaded": k.tiers() && waits,
		"begin": !oneByOne, "batch": !oneByOne, "cut": !neverCut}
	for name := range operations {
		if may, asked := has[name]; may || !asked {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func (k kit) visible() object {
	_, refs := k.none.(RefCounter)
	_, free := k.none.(FreeQueuer)
	_, cached := k.none.(DeviceCacher)
	_, cachedGroups := k.none.(GroupCacher)
	shown := object{"device": those([]string{"ref", "free", "cached"}, refs, free, cached || cachedGroups)}
	if k.tiers() {
		_, refs := k.none.(HostRefCounter)
		_, cached := k.none.(HostCacher)
		_, cachedGroups := k.none.(GroupHostCacher)
		shown["host"] = those([]string{"cached", "ref"}, cached || cachedGroups, refs)
	}
	return shown
}

func those(names []string, there ...bool) []string {
	found := []string{}
	for n, name := range names {
		if there[n] {
			found = append(found, name)
		}
	}
	return found
}

func serve(k kit) {
	options := []string{}
	if k.tiers() {
		options = append(options, "host_blocks")
	}
	can := object{"operations": k.operations(), "options": options, "visible": k.visible(), "tokens_per_grow": 3}
	say(object{"hello": object{"protocol": 1, "engine": k.engine, "version": k.version, "levels": []string{"requests"},
		"capabilities": object{"requests": can}}})
	input := bufio.NewReader(os.Stdin)
	var kept *system // What a message with "keep" left behind.
	for {
		line, end := input.ReadBytes('\n')
		var m message
		if end != nil || json.Unmarshal(line, &m) != nil {
			return
		}
		var answer object
		answer, kept = answered(&m, kept, k)
		answer["id"] = m.ID
		say(answer)
	}
}

func say(what object) {
	line, _ := json.Marshal(what)
	os.Stdout.Write(append(line, '\n'))
}

func answered(m *message, kept *system, k kit) (object, *system) {
	ops, answer := m.Ops, object{}
	if m.More != nil {
		if kept == nil {
			return object{"refused": "no system was kept"}, nil
		}
		ops = m.More
	} else {
		blocks, size, host, why := sizes(m, k.tiers())
		if why != "" {
			return object{"refused": why}, nil
		}
		blocks, host = blocks*len(k.layers.Windows), host*len(k.layers.Windows)
		var failure object
		if kept, failure = made(blocks, size, host, k); failure != nil {
			return object{"steps": []object{{"op": "setup", "args": m.Setup, "error": failure}}}, nil
		}
		answer["world"] = world(blocks, size, host, k)
	}
	steps := []object{}
	for number, op := range ops {
		step := operate(kept, op, m, number)
		steps = append(steps, step)
		if m.Stream {
			say(object{"step": step})
		}
		if step["error"] != nil {
			kept = nil
			break
		}
	}
	if !m.Keep && m.More == nil {
		kept = nil
	}
	answer["steps"] = steps
	return answer, kept
}

// sizes returns the setup's blocks, tokens per block and host blocks, or why it is refused: what is not known must be.
func sizes(m *message, tiers bool) (blocks, size, host int, refused string) {
	if m.Level != "requests" {
		return 0, 0, 0, "there is no level " + m.Level
	}
	into := map[string]*int{"blocks": &blocks, "block_tokens": &size}
	if tiers {
		into["host_blocks"] = &host
	}
	for name, value := range m.Setup {
		if into[name] == nil {
			return 0, 0, 0, "there is no option " + name
		}
		if json.Unmarshal(value, into[name]) != nil || *into[name] < 0 {
			return 0, 0, 0, name + " must be a number of 0 or above"
		}
	}
	if blocks < 1 || size < 1 {
		return 0, 0, 0, "blocks and block_tokens must be numbers above 0"
	}
	return blocks, size, host, ""
}

func world(blocks, size, host int, k kit) object {
	groups, dialect := []object{}, map[string]string{}
	for _, window := range k.layers.Windows {
		group := object{"kind": "full", "block": size}
		if window > 0 {
			group = object{"kind": "window", "block": size, "window": window}
			dialect["behind"] = "needed"
		}
		groups = append(groups, group)
	}
	for name, value := range k.dialect {
		dialect[name] = value
	}
	device, notes := object{"blocks": blocks}, object{"dialect": dialect, "keys": "tokens"}
	if k.layers.NullBlock {
		device = object{"blocks": blocks + 1, "null": 0}
	}
	tiers := object{"device": device}
	if host > 0 {
		tiers["host"], notes["loads"] = object{"blocks": host}, []string{"host"}
		_, all := k.none.(StoresAll)
		if _, asked := k.none.(SlowStorer); all && asked { // One that takes no time is asked now and then.
			notes["eager"] = []string{"host"}
		}
	}
	return object{"groups": groups, "tiers": tiers, "hash_block": size, "exact": true, "notes": notes}
}

func made(blocks, size, host int, k kit) (s *system, failure object) {
	defer func() { failure = told(recover()) }()
	s = &system{size: size, layers: k.layers, requests: map[string]*Request{}, numbers: map[string]int{}}
	s.made = k.create(blocks, size, host)
	if m, one := s.made.(Manager); one {
		s.manager = alone{m}
	} else {
		s.manager = s.made.(GroupManager)
	}
	if host > 0 {
		s.host = &hostSide{made: s.made, layers: k.layers, tell: s.tell}
		if h, one := s.made.(HostTier); one {
			s.host.tier = tierAlone{h}
		} else {
			s.host.tier = s.made.(GroupHostTier)
		}
	}
	return s, nil
}

func operate(s *system, op [2]json.RawMessage, m *message, number int) (step object) {
	step = object{"op": op[0], "args": op[1]}
	defer func() {
		if failure := told(recover()); failure != nil {
			step["error"] = failure
		}
		step["effects"] = append([]any{}, s.effects...)
		s.effects = nil
	}()
	var name string
	var given arguments
	if json.Unmarshal(op[0], &name) != nil || json.Unmarshal(op[1], &given) != nil || operations[name] == nil {
		panic("there is no operation " + string(op[0]) + " " + string(op[1]))
	}
	if answer := operations[name](s, given); answer.skipped {
		step["skipped"] = true
	} else {
		step["result"] = answer.result
	}
	full := m.Snapshots == "" || m.Snapshots == "full"
	for _, at := range m.FullAt {
		full = full || at == number
	}
	if full {
		step["state"] = s.state()
	} else if m.Snapshots == "digest" {
		text, _ := json.Marshal(s.state())
		step["digest"] = fmt.Sprintf("%x", sha256.Sum256(text))[:16]
	}
	return step
}

// told returns what a panic said as plain data, the outermost call first, files by their names; nil where there is none.
func told(raised any) object {
	if raised == nil {
		return nil
	}
	calls := make([]uintptr, 64)
	frames := runtime.CallersFrames(calls[:runtime.Callers(3, calls)])
	where := [][]any{}
	for more := true; more; {
		var frame runtime.Frame
		frame, more = frames.Next()
		if filepath.Base(filepath.Dir(frame.File)) != "runtime" {
			where = append([][]any{{filepath.Base(frame.File), frame.Line, frame.Function}}, where...)
		}
	}
	return object{"type": fmt.Sprintf("%T", raised), "message": fmt.Sprint(raised), "where": where}
}
